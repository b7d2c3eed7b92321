package task

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"unicode/utf8"

	"lilac/internal/agent/tool"
	"lilac/internal/foundation/order"
)

const (
	// segments is the number of files of an output. If the output is too long, the
	// oldest file is removed, so at least three quarters of the limit are kept.
	segments = 4
	// tailBytes bounds the end of an output in an event, which must fit into a
	// conversation.
	tailBytes = 4 << 10
	// maxLine bounds the line in a progress event, in characters.
	maxLine = 200
)

// OutputPart is a part of the output of a task.
type OutputPart struct {
	Text string `json:"text"`
	// Offset is where Text begins, and Next where it ends and the next part begins.
	Offset int64 `json:"offset"`
	Next   int64 `json:"next"`
	// Bytes is the size of the whole output, and First where the kept part begins.
	Bytes int64 `json:"bytes"`
	First int64 `json:"first"`
	// State is the state of the task.
	State State `json:"state"`
}

// outputDir returns the directory with the output of a task. The names of its files are
// the offsets of their first bytes.
func (s *Service) outputDir(id string) string { return filepath.Join(s.o.Dir, id) }

// outputLog writes the output of a running command to files, without control
// characters.
type outputLog struct {
	clean *tool.CleanWriter

	mu    sync.Mutex
	dir   string
	limit int64 // of one segment
	file  *os.File
	begin int64 // of the segment
	total int64
	// failed is the error after which nothing is kept; the command continues.
	failed error
	// line holds the newest bytes, for the progress.
	line []byte
}

func newLog(dir string, limit int64) (*outputLog, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create output directory: %w", err)
	}
	l := &outputLog{dir: dir, limit: max(limit/segments, 1)}
	l.clean = tool.NewCleanWriter(segmentWriter{l})
	return l, nil
}

// Write implements io.Writer. It never fails: a command continues if its output cannot
// be kept.
func (l *outputLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.clean.Write(p) // l.failed has the error
	return len(p), nil
}

// segmentWriter writes clean output to the files. The lock of the log is held.
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

// nextLocked begins a new file and removes the oldest ones.
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

// progress returns the size of the output and its last line that is not empty.
func (l *outputLog) progress() (bytes int64, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total, lastLine(string(l.line))
}

// Close closes the files.
func (l *outputLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.clean.Flush() // l.failed has the error
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
			continue // another file, or removed just now
		}
		out = append(out, segment{filepath.Join(dir, e.Name()), begin, info.Size()})
	}
	order.By(out, func(a, b segment) int { return int(min(1, max(-1, a.begin-b.begin))) })
	return out, nil
}

// readOutput reads at most limit bytes from an offset on; a negative offset counts from
// the end. It skips removed output, and never splits a character.
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
			return readOutput(dir, offset, limit) // the file was removed just now
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

// readTail returns the end of an output for an event.
func readTail(dir string) Output {
	p, err := readOutput(dir, -tailBytes, tailBytes)
	if err != nil {
		return Output{Tail: "[the output cannot be read]"}
	}
	return Output{Bytes: p.Bytes, Tail: p.Text}
}
