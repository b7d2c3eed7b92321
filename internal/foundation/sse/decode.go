package sse

import (
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
	lines  *LineReader
	max    int
	lastID string
	seenID string // value of lastID at the last empty line
	data   []byte
	err    error
}

// NewDecoder returns a decoder that reads r and accepts events of at most maxEvent bytes.
// Zero means [DefaultMaxEvent].
func NewDecoder(r io.Reader, maxEvent int) *Decoder {
	if maxEvent <= 0 {
		maxEvent = DefaultMaxEvent
	}
	return &Decoder{lines: NewLineReader(r, maxEvent+len("data: ")), max: maxEvent}
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
		line, err := d.lines.Next()
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
