package tool

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"lilac/internal/foundation/text"
)

// The default limits of a result.
const (
	// MaxBytes and MaxLines bound the text of one result: about 8,000 tokens.
	MaxBytes = 30_000
	MaxLines = 2_000
	// MaxFileBytes bounds the file that holds a whole long result.
	MaxFileBytes = 10 << 20
	// MaxFiles bounds these files in a workspace; the oldest are removed first.
	MaxFiles = 100
)

// Limits bound an [Output]. The zero value of a field means its default.
type Limits struct {
	Bytes, Lines, FileBytes, Files int
}

func (l Limits) orDefault() Limits {
	if l.Bytes <= 0 {
		l.Bytes = MaxBytes
	}
	if l.Lines <= 0 {
		l.Lines = MaxLines
	}
	if l.FileBytes <= 0 {
		l.FileBytes = MaxFileBytes
	}
	if l.Files <= 0 {
		l.Files = MaxFiles
	}
	return l
}

// Output collects the output of a tool in bounded memory. Up to the limits it keeps all
// of it; beyond them, it keeps the head and the tail, and writes the whole to a file in
// the workspace. It is safe for concurrent use. Text ends it.
type Output struct {
	workspace, callID string
	limits            Limits

	mu    sync.Mutex
	clean cleaner
	head  []byte // everything, until it is over the limit; then its first half
	tail  []byte // the newest bytes after head, at most twice the half
	total int64  // clean bytes so far
	lines int64  // newlines so far
	over  bool
	last  byte
	spill *spill
	ended bool
}

// NewOutput returns an Output whose overflow file is named after callID.
func NewOutput(workspace, callID string, limits Limits) *Output {
	return &Output{workspace: workspace, callID: callID, limits: limits.orDefault()}
}

// Bound returns text if it is within the default limits. Otherwise, it returns the head
// and the tail, with the name of the file that holds the whole.
func Bound(workspace, callID, text string) string {
	o := NewOutput(workspace, callID, Limits{})
	_, _ = o.Write([]byte(text))
	return o.Text()
}

// Write adds p. It never fails: a tool must not stop because its output cannot be stored.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		o.addLocked(o.clean.append(make([]byte, 0, len(p)), p))
	}
	return len(p), nil
}

func (o *Output) addLocked(p []byte) {
	if len(p) == 0 {
		return
	}
	o.total += int64(len(p))
	o.lines += int64(bytes.Count(p, []byte{'\n'}))
	o.last = p[len(p)-1]
	if !o.over {
		o.head = append(o.head, p...)
		if len(o.head) > o.limits.Bytes || o.shownLinesLocked() > int64(o.limits.Lines) {
			o.overflowLocked()
		}
		return
	}
	if o.spill != nil {
		o.spill.write(p)
	}
	o.tail = keepLast(append(o.tail, p...), o.limits.Bytes/2)
}

// shownLinesLocked counts the lines, including an unfinished last line.
func (o *Output) shownLinesLocked() int64 {
	if o.total > 0 && o.last != '\n' {
		return o.lines + 1
	}
	return o.lines
}

func (o *Output) overflowLocked() {
	o.over = true
	// Without a file, the result is still cut, and says that the rest is lost.
	o.spill, _ = openSpill(o.workspace, o.callID, o.limits)
	if o.spill != nil {
		o.spill.write(o.head)
	}
	cut := cutHead(o.head, o.limits.Bytes/2, o.limits.Lines/2)
	o.tail = keepLast(append([]byte(nil), o.head[cut:]...), o.limits.Bytes/2)
	o.head = append([]byte(nil), o.head[:cut]...)
}

// keepLast drops the beginning of b once b holds more than twice the needed bytes, so
// that each byte is copied once on average.
func keepLast(b []byte, need int) []byte {
	if len(b) <= 2*need {
		return b
	}
	n := copy(b, b[len(b)-need:])
	return b[:n]
}

// Text ends the output and returns the text for the model.
func (o *Output) Text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		o.addLocked(o.clean.flush(nil))
		o.ended = true
		o.spill.close()
	}
	if !o.over {
		return string(o.head)
	}
	tail := o.tail[cutTail(o.tail, o.limits.Bytes/2, o.limits.Lines/2):]
	left := o.total - int64(len(o.head)) - int64(len(tail))
	leftLines := o.shownLinesLocked() - countLines(o.head) - countLines(tail)
	var b strings.Builder
	b.Write(o.head)
	if len(o.head) > 0 && o.head[len(o.head)-1] != '\n' {
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "\n[… %d bytes (about %d lines) are left out here; %s …]\n\n", left, max(leftLines, 0), o.whereLocked())
	b.Write(tail)
	return b.String()
}

func (o *Output) whereLocked() string {
	switch {
	case o.spill == nil:
		return "they could not be kept"
	case o.spill.failed:
		return "what could be kept is in " + o.spill.name
	case o.spill.cut:
		return fmt.Sprintf("the first %d bytes of the output are in %s", o.spill.written, o.spill.name)
	}
	return "the whole output is in " + o.spill.name
}

func countLines(b []byte) int64 {
	n := int64(bytes.Count(b, []byte{'\n'}))
	if len(b) > 0 && b[len(b)-1] != '\n' {
		n++
	}
	return n
}

// cutHead returns how much of the beginning of b fits, preferring the end of a line.
func cutHead(b []byte, maxBytes, maxLines int) int {
	end, lineEnd, lines := 0, 0, 0
	for end < len(b) && end < maxBytes {
		if b[end] == '\n' {
			lines++
			lineEnd = end + 1
			if lines == maxLines {
				return lineEnd
			}
		}
		end++
	}
	if lineEnd > end/2 {
		return lineEnd
	}
	return len(text.Truncate(b, end))
}

// cutTail returns the index where the tail of b that fits begins, at the start of a line if possible.
func cutTail(b []byte, maxBytes, maxLines int) int {
	start := text.NextRune(b, max(0, len(b)-maxBytes))
	if start > 0 {
		if i := bytes.IndexByte(b[start:], '\n'); i >= 0 && i < (len(b)-start)/2 {
			start += i + 1
		}
	}
	lines := 0
	for i := len(b) - 2; i >= start; i-- { // the last byte may be a line end of its own
		if b[i] == '\n' {
			if lines++; lines == maxLines {
				return i + 1
			}
		}
	}
	return start
}

// spill is the file that holds a whole long output.
type spill struct {
	root    *os.Root
	file    *os.File
	name    string
	written int64
	limit   int64
	cut     bool
	failed  bool
}

func (s *spill) write(p []byte) {
	if s.cut || s.failed {
		return
	}
	if room := s.limit - s.written; int64(len(p)) > room {
		p = p[:room]
		s.cut = true
	}
	n, err := s.file.Write(p)
	s.written += int64(n)
	s.failed = err != nil
}

func (s *spill) close() {
	if s == nil {
		return
	}
	if err := errors.Join(s.file.Close(), s.root.Close()); err != nil {
		s.failed = true
	}
}
