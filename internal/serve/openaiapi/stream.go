package openaiapi

import (
	"encoding/json"
	"net/http"
	"time"

	"lilac/internal/foundation/fault"
)

// writeLimit disconnects a client that does not read its stream.
const writeLimit = 30 * time.Second

// stream writes server-sent events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

func newStream(w http.ResponseWriter) *stream {
	return &stream{w: w, control: http.NewResponseController(w)}
}

// begin writes the header. Before it, an error can still have a status.
func (s *stream) begin() {
	if s.begun {
		return
	}
	s.begun = true
	s.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	s.w.Header().Set("Cache-Control", "no-store, no-transform") // a proxy that compresses may hold the newest words back
	s.w.Header().Set("X-Accel-Buffering", "no")
	s.w.WriteHeader(http.StatusOK)
}

// data writes an event; name may be empty.
func (s *stream) data(name string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "The answer could not be encoded.")
	}
	frame := "data: " + string(raw) + "\n\n"
	if name != "" {
		frame = "event: " + name + "\n" + frame
	}
	return s.write(frame)
}

// comment keeps the connection open.
func (s *stream) comment() error { return s.write(": waiting\n\n") }

func (s *stream) write(frame string) error {
	s.begin()
	if err := s.control.SetWriteDeadline(time.Now().Add(writeLimit)); err != nil {
		return err
	}
	if _, err := s.w.Write([]byte(frame)); err != nil {
		return err
	}
	if err := s.control.Flush(); err != nil {
		return err
	}
	return s.control.SetWriteDeadline(time.Time{})
}
