package httpapi

import (
	"fmt"
	"net/http"
	"time"

	"lilac/internal/foundation/fault"
)

// streamWriter writes server-sent events. It sends buf in one write with a
// deadline: a client that does not read is disconnected, and can resume with its
// cursor.
type streamWriter struct {
	service *streams
	w       http.ResponseWriter
	rc      *http.ResponseController
	buf     []byte
}

// start begins an event stream. When the stream ends, the caller must decrement
// open.
func (s *streams) start(w http.ResponseWriter, r *http.Request) (*streamWriter, error) {
	if r.Method != http.MethodGet {
		return nil, fault.New(fault.Invalid, "An event stream answers only GET.")
	}
	if s.open.Add(1) > maxStreams {
		s.open.Add(-1)
		return nil, &fault.Error{Kind: fault.Unavailable, Code: "too_many_streams", Message: "Too many event streams are open. Try again in a few seconds.", RetryAfter: 5 * time.Second}
	}
	out := &streamWriter{service: s, w: w, rc: http.NewResponseController(w)}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-store, no-transform") // a proxy that compresses may hold the newest events back
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	out.buf = append(out.buf, "retry: 1000\n\n"...)
	return out, nil
}

// comment keeps a silent connection alive.
func (s *streamWriter) comment() { s.buf = append(s.buf, ": alive\n\n"...) }

func (s *streamWriter) flush() error {
	if len(s.buf) == 0 {
		return nil
	}
	if err := s.rc.SetWriteDeadline(time.Now().Add(s.service.writeTimeout)); err != nil {
		return fmt.Errorf("set write deadline: %w", err)
	}
	if _, err := s.w.Write(s.buf); err != nil {
		return fmt.Errorf("write event stream: %w", err)
	}
	if err := s.rc.Flush(); err != nil {
		return fmt.Errorf("flush event stream: %w", err)
	}
	s.service.writes.Add(1)
	s.buf = s.buf[:0]
	return nil
}
