package sse

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
)

// readBuffer is the size of the read buffer, in bytes. It is small because a process may read
// a thousand streams at once, and the connections have their own buffers.
const readBuffer = 1 << 10

var byteOrderMark = []byte("\xef\xbb\xbf")

// A LineReader reads the lines of an event stream, which end in LF, CRLF, or CR.
type LineReader struct {
	r      *bufio.Reader
	max    int
	line   []byte
	begun  bool
	skipLF bool // the last line ended with CR; an LF that follows belongs to it
}

// NewLineReader returns a reader that accepts lines of at most maxLine bytes.
func NewLineReader(r io.Reader, maxLine int) *LineReader {
	return &LineReader{r: bufio.NewReaderSize(r, readBuffer), max: maxLine}
}

// Next returns the next line without its ending and without a byte order mark. The line is valid
// until the next call. After a CR, Next returns at once: in a live stream, the next byte, which may
// be an LF, can arrive much later. With an error of the reader, such as [io.EOF], Next returns what
// it has read of an unfinished line. A line that is too long is an [ErrTooLarge].
func (l *LineReader) Next() ([]byte, error) {
	l.line = l.line[:0]
	for {
		if l.r.Buffered() == 0 {
			if _, err := l.r.Peek(1); err != nil {
				return l.clean(), err
			}
		}
		buf, _ := l.r.Peek(l.r.Buffered())
		if l.skipLF {
			l.skipLF = false
			if buf[0] == '\n' {
				_, _ = l.r.Discard(1)
				continue
			}
		}
		i := bytes.IndexAny(buf, "\r\n")
		n := i
		if i < 0 {
			n = len(buf)
		}
		if len(l.line)+n > l.max {
			return nil, fmt.Errorf("read line of more than %d bytes: %w", l.max, ErrTooLarge)
		}
		l.line = append(l.line, buf[:n]...)
		if i < 0 {
			_, _ = l.r.Discard(n)
			continue
		}
		l.skipLF = buf[i] == '\r'
		_, _ = l.r.Discard(n + 1)
		return l.clean(), nil
	}
}

func (l *LineReader) clean() []byte {
	if !l.begun {
		l.begun = true
		return bytes.TrimPrefix(l.line, byteOrderMark)
	}
	return l.line
}
