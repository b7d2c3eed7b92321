package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"lilac/internal/bus"
	"lilac/internal/event"
	"lilac/internal/fault"
)

// busEvent is an event with its place.
type busEvent struct {
	event.Event
	Position bus.Position `json:"position"`
}

func (a *api) fetchTopic(w http.ResponseWriter, r *http.Request) error {
	if err := onlyQuery(r, "after", "limit"); err != nil {
		return err
	}
	limit, err := limitOf(r)
	if err != nil {
		return err
	}
	found, err := a.Bus.Fetch(r.Context(), event.Topic(r.PathValue("topic")), bus.Position(r.URL.Query().Get("after")), limit)
	if err != nil {
		return trimmed(err)
	}
	out := struct {
		Events []busEvent `json:"events"`
	}{make([]busEvent, 0, len(found))}
	for _, d := range found {
		out.Events = append(out.Events, busEvent{d.Event, d.Position})
	}
	return writeJSON(w, http.StatusOK, out)
}

func trimmed(err error) error {
	if errors.Is(err, bus.ErrTrimmed) {
		return &fault.Error{Kind: fault.Gone, Code: "trimmed", Field: "after", Err: err, Message: "Events after this position were removed by age. Begin without it."}
	}
	return err
}

// tailTopic streams a topic: the id of a frame is the position. Without a
// position it starts now.
func (a *api) tailTopic(w http.ResponseWriter, r *http.Request) error {
	if err := onlyQuery(r, "after", "from"); err != nil {
		return err
	}
	t := bus.Tail{Topic: event.Topic(r.PathValue("topic")), After: bus.Position(r.Header.Get("Last-Event-ID"))}
	if t.After == "" {
		t.After = bus.Position(r.URL.Query().Get("after"))
	}
	switch from := r.URL.Query().Get("from"); {
	case from != "" && from != "begin" && from != "now":
		return fault.InvalidField("from", "from has to be begin or now.")
	case t.After == "" && from != "begin":
		// A position instead of "from now", so that what comes between this
		// line and the tail is seen.
		last, err := a.Bus.Last(r.Context(), t.Topic)
		if err != nil {
			return fmt.Errorf("find end of topic: %w", err)
		}
		t.After = last
	case t.After != "":
		// A bad position is refused while there is an answer to say it in; a
		// trimmed one is said on the stream.
		if _, err := a.Bus.Fetch(r.Context(), t.Topic, t.After, 0); err != nil && !errors.Is(err, bus.ErrTrimmed) {
			return err
		}
	}
	out, err := a.openStream(w, r)
	if err != nil {
		return err
	}
	defer a.stats.streams.Add(-1)
	s := &stream{a: a, out: out, outputs: make(chan input, tailQueue)}
	return s.serveTopic(r, t)
}

func (s *stream) serveTopic(r *http.Request, t bus.Tail) error {
	ctx, stop := context.WithCancel(r.Context())
	defer func() {
		stop()
		s.tails.Wait()
	}()
	s.tail(ctx, s.outputs, t, string(t.Topic))
	if err := s.out.flush(); err != nil {
		return err
	}
	beat := time.NewTicker(s.a.Heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
			s.out.comment()
		case in := <-s.outputs:
			if in.trimmed {
				s.out.buf = append(s.out.buf, "event: stream.gap\ndata: {\"message\":\"Events after this position were removed by age. Connect again with ?from=begin.\"}\n\n"...)
				return s.out.flush()
			}
			if in.err != nil {
				return in.err
			}
			raw, err := json.Marshal(busEvent{in.d.Event, in.d.Position})
			if err != nil {
				return fmt.Errorf("encode event: %w", err)
			}
			s.out.buf = append(s.out.buf, "id: "...)
			s.out.buf = append(s.out.buf, in.d.Position...)
			s.out.buf = append(s.out.buf, "\nevent: "...)
			s.out.buf = append(s.out.buf, in.d.Type...)
			s.out.buf = append(s.out.buf, '\n')
			s.out.buf = appendData(s.out.buf, raw)
			if len(s.outputs) > 0 && len(s.out.buf) < batchBytes {
				continue
			}
		}
		if err := s.out.flush(); err != nil {
			return err
		}
	}
}
