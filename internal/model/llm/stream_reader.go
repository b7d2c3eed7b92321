package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"lilac/internal/foundation/sse"
)

// maxEvent bounds one event: some servers send a whole tool input in one event.
const maxEvent = 8 << 20

// maxPlain bounds the line of text that is kept for an error.
const maxPlain = 1 << 10

// streamReader reads the events of a response of a model. It detects the format instead of
// trusting the declared content type:
//
//   - server-sent events, also with one newline between events, without a newline at the
//     end, and with JSON over several data lines
//   - JSON texts without the framing of events: one text, pretty-printed or not, or one
//     text per line
//
// Unlike package sse, it may end an event at the next data field, because it knows that
// data is JSON or the marker [DONE].
type streamReader struct {
	lines   *sse.LineReader
	data    []byte
	hasData bool
	raw     bool // data holds JSON that came without a field name
	held    []byte
	hasHeld bool
	html    bool   // the response begins like a web page
	plain   string // the first line that is neither a field nor JSON
	events  int
}

func newStreamReader(r io.Reader) *streamReader {
	return &streamReader{lines: sse.NewLineReader(r, maxEvent+len("data: "))}
}

// next returns the data of the next event, which is valid until the next call. It returns
// [io.EOF] at the end of the stream.
func (s *streamReader) next() ([]byte, error) {
	s.data, s.hasData, s.raw = s.data[:0], false, false
	for {
		line, err := s.nextLine()
		if err != nil {
			if errors.Is(err, io.EOF) && s.hasData && isWholeData(s.data) {
				return s.event()
			}
			return nil, err
		}
		switch name, value, isField := cutField(line); {
		case len(line) == 0 && s.hasData && (!s.raw || isWholeData(s.data)):
			return s.event()
		case s.raw:
			if err := s.add(line); err != nil {
				return nil, err
			}
			if endsJSON(line) && json.Valid(s.data) {
				return s.event()
			}
		case isField && name == "data":
			if s.hasData && isWholeData(s.data) {
				s.hold(line)
				return s.event()
			}
			if err := s.add(value); err != nil {
				return nil, err
			}
		case isField:
			if s.hasData && isWholeData(s.data) {
				return s.event()
			}
		case !s.hasData && startsJSON(line):
			s.raw = true
			if err := s.add(line); err != nil {
				return nil, err
			}
			if endsJSON(line) && json.Valid(s.data) {
				return s.event()
			}
		case s.events == 0 && bytes.HasPrefix(bytes.TrimSpace(line), []byte("<")):
			s.html = true
		case s.plain == "" && !bytes.HasPrefix(line, []byte(":")):
			s.plain = string(line[:min(len(line), maxPlain)])
		}
	}
}

func (s *streamReader) event() ([]byte, error) {
	s.events++
	s.hasData, s.raw = false, false
	return s.data, nil
}

func (s *streamReader) add(line []byte) error {
	if len(s.data)+len(line)+1 > maxEvent {
		return fmt.Errorf("read event of more than %d bytes: %w", maxEvent, sse.ErrTooLarge)
	}
	if s.hasData {
		s.data = append(s.data, '\n')
	}
	s.data, s.hasData = append(s.data, line...), true
	return nil
}

// hold keeps a line for the next event.
func (s *streamReader) hold(line []byte) { s.held, s.hasHeld = append(s.held[:0], line...), true }

// nextLine returns the next line, also the last one if it has no end.
func (s *streamReader) nextLine() ([]byte, error) {
	if s.hasHeld {
		s.hasHeld = false
		return s.held, nil
	}
	line, err := s.lines.Next()
	if errors.Is(err, io.EOF) && len(line) > 0 {
		err = nil
	}
	return line, err
}

// cutField splits a line of an event at its first colon. It reports false for a line that
// is no field of the format.
func cutField(line []byte) (name string, value []byte, isField bool) {
	before, value, found := bytes.Cut(line, []byte{':'})
	switch string(before) {
	case "data", "event", "id", "retry":
		for framed := true; framed; value, framed = bytes.CutPrefix(value, []byte("data:")) { // some proxies frame events again
			if found && len(value) > 0 && value[0] == ' ' {
				value = value[1:]
			}
		}
		return string(before), value, true
	}
	return "", nil, false
}

// isWholeData reports whether data is a whole event rather than its first lines.
func isWholeData(data []byte) bool {
	return endsJSON(data) && json.Valid(data) || string(bytes.TrimSpace(data)) == "[DONE]"
}

func startsJSON(line []byte) bool {
	line = bytes.TrimLeft(line, " \t")
	return len(line) > 0 && (line[0] == '{' || line[0] == '[')
}

// endsJSON is a cheap test that spares most calls of [json.Valid].
func endsJSON(line []byte) bool {
	line = bytes.TrimRight(line, " \t\r\n")
	return len(line) > 0 && (line[len(line)-1] == '}' || line[len(line)-1] == ']')
}
