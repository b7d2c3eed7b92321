package task

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"

	"lilac/internal/agent/tool"
)

const (
	// segments is in how many files an output is kept: when it is too long the
	// oldest goes, so a quarter of the limit at most is missing from it.
	segments = 4
	// tailBytes is how much of the end of an output an event tells. What the
	// event says of it has to fit into a conversation.
	tailBytes = 4 << 10
	// maxLine is how much of a line a progress shows, in characters.
	maxLine = 200
)

// OutputPart is a piece of what a task has put out.
type OutputPart struct {
	Text string `json:"text"`
	// Offset is where Text begins, Next where it ends: what to ask for next.
	Offset int64 `json:"offset"`
	Next   int64 `json:"next"`
	// Bytes is how much was put out in all, First where what is kept begins.
	Bytes int64 `json:"bytes"`
	First int64 `json:"first"`
	// State is that of the task.
	State State `json:"state"`
}

// outputDir is where the output of a task is kept: in files that are named
// after the offset of their first byte.
func (s *Service) outputDir(id string) string { return filepath.Join(s.o.Dir, id) }

// outputLog is the output of a command that runs. What is written is made clean.
type outputLog struct {
	clean *tool.CleanWriter

	mu    sync.Mutex
	dir   string
	limit int64 // of one segment
	file  *os.File
	begin int64 // of the segment
	total int64
	// failed is why nothing is kept any more; the command goes on.
	failed error
	// line are the newest bytes, for the progress.
	line []byte
}

func newLog(dir string, limit int64) (*outputLog, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make directory for output: %w", err)
	}
	l := &outputLog{dir: dir, limit: max(limit/segments, 1)}
	l.clean = tool.NewCleanWriter(segmentWriter{l})
	return l, nil
}

// Write takes what a command prints. It never fails: work does not end because
// its words cannot be kept.
func (l *outputLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.clean.Write(p) // what fails is kept in failed
	return len(p), nil
}

// segmentWriter writes what is clean; the log is locked.
type segmentWriter struct{ l *outputLog }

func (k segmentWriter) Write(p []byte) (int, error) {
	l := k.l
	l.line = append(l.line, p...)
	l.line = l.line[max(0, len(l.line)-4*maxLine):]
	for rest := p; len(rest) > 0 && l.failed == nil; {
		if l.file == nil || l.total-l.begin >= l.limit {
			if l.failed = l.nextLocked(); l.failed != nil {
				break
			}
		}
		n := min(int64(len(rest)), l.limit-(l.total-l.begin))
		if _, l.failed = l.file.Write(rest[:n]); l.failed == nil {
			l.total += n
			rest = rest[n:]
		}
	}
	return len(p), nil
}

// nextLocked begins a segment and removes what is too old.
func (l *outputLog) nextLocked() error {
	if l.file != nil {
		if err := l.file.Close(); err != nil {
			return err
		}
		l.file = nil
	}
	kept, err := segmentsIn(l.dir)
	if err != nil {
		return err
	}
	for len(kept) >= segments {
		if err := os.Remove(kept[0].path); err != nil {
			return err
		}
		kept = kept[1:]
	}
	l.begin = l.total
	l.file, err = os.OpenFile(filepath.Join(l.dir, fmt.Sprintf("%015d", l.begin)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	return err
}

// progress is how much there is, and the last line that is not empty.
func (l *outputLog) progress() (bytes int64, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total, lastLine(string(l.line))
}

// Close ends the output.
func (l *outputLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.clean.Flush() // what fails is kept in failed
	var err error
	if l.file != nil {
		err = l.file.Close()
		l.file = nil
	}
	return errors.Join(l.failed, err)
}

type segment struct {
	path        string
	begin, size int64
}

// segmentsIn lists the files of an output, the oldest first.
func segmentsIn(dir string) (out []segment, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list output: %w", err)
	}
	for _, e := range entries {
		begin, err := strconv.ParseInt(e.Name(), 10, 64)
		info, infoErr := e.Info()
		if err != nil || infoErr != nil {
			continue // not ours, or gone just now
		}
		out = append(out, segment{filepath.Join(dir, e.Name()), begin, info.Size()})
	}
	slices.SortFunc(out, func(a, b segment) int { return int(min(1, max(-1, a.begin-b.begin))) })
	return out, nil
}

// readOutput reads at most limit bytes from an offset on; a negative offset
// counts from the end. What is not kept any more is skipped, characters stay
// whole.
func readOutput(dir string, offset int64, limit int) (OutputPart, error) {
	kept, err := segmentsIn(dir)
	if err != nil || len(kept) == 0 {
		return OutputPart{}, err
	}
	last := kept[len(kept)-1]
	p := OutputPart{First: kept[0].begin, Bytes: last.begin + last.size}
	if offset < 0 {
		offset += p.Bytes
	}
	offset = min(max(offset, p.First), p.Bytes)
	var text []byte
	for _, s := range kept {
		from, left := max(offset+int64(len(text))-s.begin, 0), limit-len(text)
		if from >= s.size || left <= 0 {
			continue
		}
		piece, err := readPiece(s.path, from, min(int64(left), s.size-from))
		if errors.Is(err, fs.ErrNotExist) {
			return readOutput(dir, offset, limit) // it was too old just now
		}
		if err != nil {
			return p, err
		}
		text = append(text, piece...)
	}
	begin := 0
	for begin < len(text) && begin < utf8.UTFMax && !utf8.RuneStart(text[begin]) {
		begin++
	}
	end := len(text)
	for back := 1; back < utf8.UTFMax && back <= end; back++ {
		if b := text[end-back]; utf8.RuneStart(b) {
			if !utf8.FullRune(text[end-back:]) {
				end -= back
			}
			break
		}
	}
	p.Offset, p.Next = offset+int64(begin), offset+int64(max(begin, end))
	p.Text = string(text[begin:max(begin, end)])
	return p, nil
}

func readPiece(path string, from, n int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := make([]byte, n)
	got, err := f.ReadAt(out, from)
	if got > 0 {
		return out[:got], nil
	}
	return nil, err
}

// readTail is the end of an output, as an event tells it.
func readTail(dir string) Output {
	p, err := readOutput(dir, -tailBytes, tailBytes)
	if err != nil {
		return Output{Tail: "[what it printed cannot be read]"}
	}
	return Output{Bytes: p.Bytes, Tail: p.Text}
}
