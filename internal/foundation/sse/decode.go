package sse

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// DefaultMaxEvent is the default size limit of an event, in bytes. It is large because some
// servers send whole tool inputs or files in one event.
const DefaultMaxEvent = 8 << 20

// readBuffer is the size of the read buffer, in bytes. It is small because a process may read
// a thousand streams at once, and the connections have their own buffers.
const readBuffer = 1 << 10

// ErrTooLarge is the error for an event or a line that exceeds the decoder's limit.
var ErrTooLarge = errors.New("event is too large")

// Event is one event of a stream.
type Event struct {
	// ID is the last event id that this event or an earlier one has set.
	ID string
	// Type is the event's type. Empty means "message".
	Type string
	// Data is valid until the next call of [Decoder.Next].
	Data []byte
	// Retry is the reconnection time that this event set, or zero.
	Retry time.Duration
}

// A Decoder reads an event stream.
type Decoder struct {
	r      *bufio.Reader
	max    int
	lastID string
	seenID string // value of lastID at the last empty line
	line   []byte
	data   []byte
	begun  bool
	skipLF bool // the last line ended with CR; an LF that follows belongs to it
	err    error
}

// NewDecoder returns a decoder that reads r and accepts events of at most maxEvent bytes.
// Zero means [DefaultMaxEvent].
func NewDecoder(r io.Reader, maxEvent int) *Decoder {
	if maxEvent <= 0 {
		maxEvent = DefaultMaxEvent
	}
	return &Decoder{r: bufio.NewReaderSize(r, readBuffer), max: maxEvent}
}

// Next returns the next event that has data. At the end of the stream, it returns [io.EOF],
// and drops an incomplete event, as the standard requires. After an error, every call returns
// the same error.
func (d *Decoder) Next() (Event, error) {
	if d.err != nil {
		return Event{}, d.err
	}
	ev, err := d.next()
	if err != nil {
		d.err = err
		return Event{}, err
	}
	return ev, nil
}

// LastID returns the last event id that was read completely. It may be newer than the last
// returned event, if it came without data. A reader that reconnects after this id misses no
// event.
func (d *Decoder) LastID() string { return d.seenID }

func (d *Decoder) next() (Event, error) {
	var ev Event
	d.data = d.data[:0]
	hasData := false
	for {
		line, err := d.readLine()
		if err != nil {
			return Event{}, err
		}
		if len(line) == 0 {
			d.seenID = d.lastID
			if !hasData {
				ev = Event{}
				continue
			}
			ev.ID = d.lastID
			ev.Data = d.data[:len(d.data)-1] // without the last line's LF
			return ev, nil
		}
		name, value := cutField(line)
		switch string(name) {
		case "data":
			if len(d.data)+len(value)+1 > d.max {
				return Event{}, fmt.Errorf("read event of more than %d bytes: %w", d.max, ErrTooLarge)
			}
			d.data = append(append(d.data, value...), '\n')
			hasData = true
		case "event":
			ev.Type = string(value)
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				d.lastID = string(value)
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				ev.Retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

// cutField splits a line at its first colon and drops one space after the colon. The name of a
// comment is empty.
func cutField(line []byte) (name, value []byte) {
	name, value, _ = bytes.Cut(line, []byte{':'})
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	return name, value
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// readLine returns the next line without its line ending. After a CR it returns at once: in a
// live stream, the next byte, which may be an LF, can arrive much later.
func (d *Decoder) readLine() ([]byte, error) {
	d.line = d.line[:0]
	for {
		if d.r.Buffered() == 0 {
			if _, err := d.r.Peek(1); err != nil {
				return nil, err
			}
		}
		buf, _ := d.r.Peek(d.r.Buffered())
		if d.skipLF {
			d.skipLF = false
			if buf[0] == '\n' {
				_, _ = d.r.Discard(1)
				continue
			}
		}
		i := bytes.IndexAny(buf, "\r\n")
		n := i
		if i < 0 {
			n = len(buf)
		}
		if len(d.line)+n > d.max+len("data: ") {
			return nil, fmt.Errorf("read line of more than %d bytes: %w", d.max, ErrTooLarge)
		}
		d.line = append(d.line, buf[:n]...)
		if i < 0 {
			_, _ = d.r.Discard(n)
			continue
		}
		d.skipLF = buf[i] == '\r'
		_, _ = d.r.Discard(n + 1)
		line := d.line
		if !d.begun {
			d.begun = true
			line = bytes.TrimPrefix(line, byteOrderMark)
		}
		return line, nil
	}
}
