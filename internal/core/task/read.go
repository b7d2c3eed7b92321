package task

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"lilac/internal/agent/tool"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

// MaxRead bounds one read of an output, in bytes.
const MaxRead = 256 << 10

// Task returns one task.
func (s *Service) Task(ctx context.Context, id string) (t Task, err error) {
	err = s.o.DB.Read(ctx, func(q db.Queryer) error {
		t, err = s.o.Store.Task(q, id)
		return err
	})
	return t, err
}

// TaskInSession returns a task of a session. Tasks of other sessions are a
// fault.NotFound.
func (s *Service) TaskInSession(ctx context.Context, sessionID, id string) (Task, error) {
	t, err := s.Task(ctx, id)
	if err == nil && t.SessionID != sessionID {
		return Task{}, fault.New(fault.NotFound, "There is no background task %q in this conversation.", id)
	}
	return t, err
}

// Tasks lists tasks; see [Store].
func (s *Service) Tasks(ctx context.Context, sessionID string, limit int, before string) (out []Task, err error) {
	err = s.o.DB.Read(ctx, func(q db.Queryer) error {
		out, err = s.o.Store.Tasks(q, sessionID, limit, before)
		return err
	})
	return out, err
}

// Output reads at most limit bytes of the output of a task, from an offset on; a negative
// offset counts from the end. The output of a sub-agent is its answers.
func (s *Service) Output(ctx context.Context, t Task, offset int64, limit int) (p OutputPart, err error) {
	limit = min(max(limit, 1), MaxRead)
	if t.Kind == Command {
		p, err = readOutput(s.outputDir(t.ID), offset, limit)
		p.State = t.State
		return p, err
	}
	var said []string
	err = s.o.DB.Read(ctx, func(q db.Queryer) error {
		said, err = s.o.Requests.AnswersIn(q, t.ChildSession)
		return err
	})
	if err != nil {
		return p, fmt.Errorf("read the answers of a sub-agent: %w", err)
	}
	content := strings.Join(said, "\n\n")
	p = OutputPart{Bytes: int64(len(content)), State: t.State}
	if offset < 0 {
		offset += p.Bytes
	}
	at := text.NextRune(content, int(min(max(offset, 0), p.Bytes)))
	p.Text = text.Truncate(content[at:], limit)
	p.Offset, p.Next = int64(at), int64(at+len(p.Text))
	return p, nil
}

// Trim removes the tasks that ended before a time, and the outputs of unknown tasks.
func (s *Service) Trim(ctx context.Context, before time.Time) error {
	for more := true; more; {
		err := s.o.DB.Update(ctx, func(tx *db.Tx) (err error) {
			more, err = s.o.Store.TrimTasks(tx, before)
			return err
		})
		if err != nil {
			return fmt.Errorf("trim tasks: %w", err)
		}
	}
	kept, err := os.ReadDir(s.o.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list outputs: %w", err)
	}
	for _, dir := range kept {
		_, err := s.Task(ctx, dir.Name())
		if fault.KindOf(err) == fault.NotFound {
			err = os.RemoveAll(s.outputDir(dir.Name()))
		}
		if err != nil {
			return fmt.Errorf("remove output: %w", err)
		}
	}
	return nil
}

// lastLine returns the last line that is not empty, truncated to maxLine.
func lastLine(s string) string {
	s = strings.TrimRight(s, "\n\t ")
	return tool.Line(s[strings.LastIndexByte(s, '\n')+1:], maxLine)
}
