package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"lilac/internal/agent/tool"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/model/llm"
	"lilac/internal/store"
	"lilac/internal/testkit/dbtest"
	"lilac/internal/testkit/effort"
)

// commitMeter measures how much each commit adds to the write-ahead log of SQLite.
type commitMeter struct {
	log           string
	size, largest atomic.Int64
}

func (m *commitMeter) onCommit(done bool) {
	info, err := os.Stat(m.log)
	if !done || err != nil {
		return
	}
	m.largest.Store(max(m.largest.Load(), info.Size()-m.size.Swap(info.Size())))
}

// check fails the test if a commit was too large.
func (m *commitMeter) check(t *testing.T) {
	t.Helper()
	n := m.largest.Load()
	t.Logf("the largest commit has %d bytes", n)
	if n > maxCommit {
		t.Errorf("want at most %d bytes", maxCommit)
	}
}

// maxCommit is the largest commit of an answer, in bytes: the 64 KiB that stay in a row, in each of
// the rows that are written together, with their indexes.
const maxCommit = 220 << 10

func TestALongAnswerDoesNotGoThroughOneCommit(t *testing.T) {
	effort.SkipSlow(t)
	dbtest.FileOnly(t)
	long := strings.Repeat("All work and no play makes Jack a dull boy. ", 11_000)
	arguments, err := json.Marshal(map[string]string{"content": long})
	if err != nil {
		t.Fatal(err)
	}
	write := chat.Part{Type: chat.TypeToolCall, ToolCallID: "c1", ToolName: "write", Input: arguments}
	called := func(req llm.Request) bool { return req.Messages[len(req.Messages)-1].Role == chat.Tool }
	for name, answer := range map[string]script{
		"text": func(_ context.Context, _ llm.Request, say func(string)) (chat.Message, error) {
			say(long)
			return chat.Text(chat.Assistant, long), nil
		},
		"thinking": func(_ context.Context, _ llm.Request, say func(string)) (chat.Message, error) {
			say("Done.")
			return chat.Message{Role: chat.Assistant, Parts: []chat.Part{{Type: chat.TypeReasoning, Text: long}, {Type: chat.TypeText, Text: "Done."}}}, nil
		},
		"arguments": func(_ context.Context, req llm.Request, say func(string)) (chat.Message, error) {
			if !called(req) {
				return chat.Message{Role: chat.Assistant, Parts: []chat.Part{write}}, nil
			}
			say("Done.")
			return chat.Text(chat.Assistant, "Done."), nil
		},
		"text of several steps": func(_ context.Context, req llm.Request, say func(string)) (chat.Message, error) {
			say(long[:len(long)/2])
			m := chat.Text(chat.Assistant, long[:len(long)/2])
			if !called(req) {
				m = chat.Message{Role: chat.Assistant, Parts: []chat.Part{m.Parts[0], {Type: chat.TypeToolCall, ToolCallID: "c1", ToolName: "write", Input: json.RawMessage(`{}`)}}}
			}
			return m, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			meter := &commitMeter{log: filepath.Join(dir, db.FileName+"-wal")}
			var given atomic.Int64
			tools := []tool.Tool{tool.New(tool.Spec{Name: "write"}, nil, func(_ context.Context, c tool.Call, _ struct{}) (tool.Result, error) {
				given.Store(int64(len(c.Input)))
				return tool.Result{Text: "written"}, nil
			})}
			r := newRig(t, rigOptions{dir: dir, do: answer, tools: tools, onCommit: meter.onCommit})
			r.model.window = 1_000_000
			meter.onCommit(true) // the tables were created before
			meter.largest.Store(0)
			r.send("q1", "m1", event.Prompt, "Write.")
			if req := r.waitForEnd("q1"); req.State != event.StateDone {
				t.Fatalf("the request ended as %s: %s", req.State, req.Detail)
			}
			meter.check(t)
			if name == "arguments" && given.Load() != int64(len(arguments)) {
				t.Errorf("the tool got %d bytes of arguments; want %d", given.Load(), len(arguments))
			}
			if text, final := r.output("q1"); text != final {
				t.Errorf("%d bytes were streamed, but the final text has %d", len(text), len(final))
			}
			all, err := json.Marshal(r.history())
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(all), "a dull boy."); n != 11_000 {
				t.Errorf("the history has %d of 11000 sentences", n)
			}

			err = r.db.Update(t.Context(), func(tx *db.Tx) error { // the control: it was not set aside
				_, err := r.store.History.AppendHistory(tx, sid, session.HistoryMessage{ID: "x", RequestID: "q1", Message: chat.Text(chat.User, "! "+long)})
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if n := meter.largest.Load(); n < 2*maxCommit {
				t.Errorf("a long message that was not set aside measures %d bytes; want at least %d", n, 2*maxCommit)
			}
		})
	}
}

// A request that was cancelled just before a crash ends when the program starts again.
func TestTheEndOfALongAnswerAfterACrashDoesNotGoThroughOneCommit(t *testing.T) {
	dbtest.FileOnly(t)
	const steps = 8
	part := strings.Repeat("All work and no play makes Jack a dull boy. ", 1100)
	reached := make(chan struct{})
	dir := t.TempDir()
	r := newRig(t, rigOptions{dir: dir, tools: []tool.Tool{&counter{}}, do: func(ctx context.Context, req llm.Request, say func(string)) (chat.Message, error) {
		n := len(req.Messages) / 2
		if n == steps {
			close(reached)
			<-ctx.Done()
			return chat.Message{}, ctx.Err()
		}
		say(part)
		m := callCount(fmt.Sprint("c", n))
		m.Parts[0].Text = part
		return m, nil
	}})
	r.model.window = 1_000_000
	r.send("q1", "m1", event.Prompt, "Write.")
	<-reached
	r.stop()

	d, err := db.Open(t.Context(), db.Options{Dir: dir, Migrations: slices.Concat(sqlitebus.Migrations, store.Migrations)})
	if err != nil {
		t.Fatal(err)
	}
	err = d.Update(t.Context(), func(tx *db.Tx) error {
		state, err := r.store.States.State(tx, sid)
		if err != nil {
			return err
		}
		state.Active.Phase = session.Closing
		return r.store.States.SaveState(tx, sid, state)
	})
	if err := errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}

	meter := &commitMeter{log: filepath.Join(dir, db.FileName+"-wal")}
	r = newRig(t, rigOptions{dir: dir, onCommit: meter.onCommit})
	if req := r.waitForEnd("q1"); req.State != event.StateCancelled {
		t.Errorf("the request ended as %s", req.State)
	}
	meter.check(t)
	if _, final := r.output("q1"); strings.Count(final, part) != steps {
		t.Errorf("the final text has %d of %d parts", strings.Count(final, part), steps)
	}
}
