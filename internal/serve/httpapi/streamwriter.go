package httpapi

import (
	"fmt"
	"net/http"
	"time"

	"lilac/internal/foundation/fault"
)

// streamWriter writes server-sent events: what stands in buf goes out in one
// write, with a deadline, so that a reader that does not read is disconnected
// and comes back with its cursor.
type streamWriter struct {
	a   *api
	w   http.ResponseWriter
	rc  *http.ResponseController
	buf []byte
}

// openStream begins an event stream. The caller subtracts it from the number
// of open streams when it ends.
func (a *api) openStream(w http.ResponseWriter, r *http.Request) (*streamWriter, error) {
	if r.Method != http.MethodGet {
		return nil, fault.New(fault.Invalid, "An event stream only answers GET.")
	}
	if a.stats.streams.Add(1) > maxStreams {
		a.stats.streams.Add(-1)
		return nil, &fault.Error{Kind: fault.Unavailable, Code: "too_many_streams", Message: "Too many event streams are open.", RetryAfter: 5 * time.Second}
	}
	s := &streamWriter{a: a, w: w, rc: http.NewResponseController(w)}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	s.buf = append(s.buf, "retry: 1000\n\n"...)
	return s, nil
}

func (s *streamWriter) comment() { s.buf = append(s.buf, ": alive\n\n"...) }

func (s *streamWriter) flush() error {
	if len(s.buf) == 0 {
		return nil
	}
	if err := s.rc.SetWriteDeadline(time.Now().Add(s.a.WriteTimeout)); err != nil {
		return fmt.Errorf("set write deadline: %w", err)
	}
	if _, err := s.w.Write(s.buf); err != nil {
		return fmt.Errorf("write event stream: %w", err)
	}
	if err := s.rc.Flush(); err != nil {
		return fmt.Errorf("flush event stream: %w", err)
	}
	s.a.stats.writes.Add(1)
	s.buf = s.buf[:0]
	return nil
}
