package sse

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// An Encoder writes an event stream.
type Encoder struct {
	w   io.Writer
	buf bytes.Buffer
}

// NewEncoder returns an encoder that writes to w. The caller must flush w, and may do that
// once for several events.
func NewEncoder(w io.Writer) *Encoder { return &Encoder{w: w} }

// WriteEvent writes one event. It omits an empty id or type. The data may have several lines.
func (e *Encoder) WriteEvent(id, event string, data []byte) error {
	if strings.ContainsAny(id, "\r\n\x00") {
		return fmt.Errorf("write event: id %q has a line break or a NUL", id)
	}
	if strings.ContainsAny(event, "\r\n") {
		return fmt.Errorf("write event: type %q has a line break", event)
	}
	e.buf.Reset()
	if id != "" {
		e.field("id", id)
	}
	if event != "" {
		e.field("event", event)
	}
	e.lines("data: ", data)
	e.buf.WriteByte('\n')
	return e.flush()
}

// Comment writes a comment, which readers ignore. Comments are the heartbeat that keeps
// proxies from closing an idle stream.
func (e *Encoder) Comment(text string) error {
	e.buf.Reset()
	e.lines(": ", []byte(text))
	e.buf.WriteByte('\n')
	return e.flush()
}

// Retry sets the time that a reader waits before it reconnects.
func (e *Encoder) Retry(d time.Duration) error {
	e.buf.Reset()
	e.field("retry", strconv.FormatInt(max(0, d.Milliseconds()), 10))
	e.buf.WriteByte('\n')
	return e.flush()
}

func (e *Encoder) field(name, value string) {
	e.buf.WriteString(name)
	e.buf.WriteString(": ")
	e.buf.WriteString(value)
	e.buf.WriteByte('\n')
}

// lines writes each line of text as a field. It treats CR and CRLF like LF, because the format
// cannot represent them inside a value.
func (e *Encoder) lines(prefix string, text []byte) {
	for {
		i := bytes.IndexAny(text, "\r\n")
		e.buf.WriteString(prefix)
		if i < 0 {
			e.buf.Write(text)
			e.buf.WriteByte('\n')
			return
		}
		e.buf.Write(text[:i])
		e.buf.WriteByte('\n')
		if text[i] == '\r' && i+1 < len(text) && text[i+1] == '\n' {
			i++
		}
		text = text[i+1:]
	}
}

// keepBuffer is the maximum size, in bytes, of a buffer that is kept after a large event.
const keepBuffer = 16 << 10

func (e *Encoder) flush() error {
	_, err := e.w.Write(e.buf.Bytes())
	if e.buf.Cap() > keepBuffer {
		e.buf = bytes.Buffer{}
	}
	if err != nil {
		return fmt.Errorf("write event stream: %w", err)
	}
	return nil
}
