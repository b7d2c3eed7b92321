package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"lilac/internal/engine/bus"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// topics serves the raw events of the bus.
type topics struct {
	bus     bus.Log
	streams *streams
}

// busEvent is an event with its position in its topic.
type busEvent struct {
	event.Event
	Position bus.Position `json:"position"`
}

type busEventList struct {
	Events []busEvent `json:"events"`
}

func (s *topics) fetch(r *http.Request) (out busEventList, err error) {
	limit, err := limitOf(r)
	if err != nil {
		return out, err
	}
	topic, err := topicOf(r)
	if err != nil {
		return out, err
	}
	after := bus.Position(r.URL.Query().Get("after"))
	if raw := r.URL.Query().Get("newest"); raw != "" {
		n, err := strconv.Atoi(raw)
		if err != nil || n < 1 || n > maxLimit || after != "" {
			return out, fault.InvalidField("newest", "newest must be a number from 1 to %d, without after.", maxLimit)
		}
		if after, err = s.bus.Back(r.Context(), topic, n); err != nil {
			return out, err
		}
	}
	found, err := s.bus.Fetch(r.Context(), topic, after, limit)
	if errors.Is(err, bus.ErrTrimmed) {
		return out, &fault.Error{Kind: fault.Gone, Code: "trimmed", Field: "after", Err: err, Message: "Events after this position have expired. Leave out after to begin with the oldest event."}
	}
	out.Events = make([]busEvent, 0, len(found))
	for _, d := range found {
		out.Events = append(out.Events, busEvent{d.Event, d.Position})
	}
	return out, err
}

// topicOf returns the topic in the path, which must be in the catalog.
func topicOf(r *http.Request) (event.Topic, error) {
	topic := event.Topic(r.PathValue("topic"))
	if _, output := topic.OutputRequest(); output || slices.Contains(event.Topics(), topic) {
		return topic, nil
	}
	return "", fault.New(fault.NotFound, "There is no topic %q. Topics are %s, and out.req.<request id>.", topic, join(event.Topics()))
}

func join(topics []event.Topic) string {
	var names []string
	for _, t := range topics {
		names = append(names, string(t))
	}
	return strings.Join(names, ", ")
}

// fromBegin starts a tail with the oldest event. As the id of a frame it is the
// position before that event.
const fromBegin = "begin"

// tail streams a topic. The id of a frame is the event's position. Without a
// position, the stream starts now.
func (s *topics) tail(w http.ResponseWriter, r *http.Request) error {
	topic, err := topicOf(r)
	if err != nil {
		return err
	}
	t := bus.Tail{Topic: topic, After: bus.Position(r.Header.Get("Last-Event-ID"))}
	if t.After == "" {
		t.After = bus.Position(r.URL.Query().Get("after"))
	}
	from := r.URL.Query().Get("from")
	if t.After == fromBegin {
		t.After, from = "", fromBegin
	}
	switch {
	case from != "" && from != fromBegin && from != "now":
		return fault.InvalidField("from", "from must be begin or now.")
	case t.After == "" && from != fromBegin:
		// The position of the last event, not "from now": an event that is published
		// before the tail opens is then delivered.
		last, err := s.bus.Last(r.Context(), t.Topic)
		if err != nil {
			return fmt.Errorf("find end of topic: %w", err)
		}
		t.After = last
	case t.After != "":
		// Refuse a bad position while a status can still be sent. An expired one is
		// reported on the stream.
		if _, err := s.bus.Fetch(r.Context(), t.Topic, t.After, 0); err != nil && !errors.Is(err, bus.ErrTrimmed) {
			return err
		}
	}
	out, err := s.streams.start(w, r)
	if err != nil {
		return err
	}
	defer s.streams.open.Add(-1)
	return (&stream{service: s.streams, viewer: s.streams.newViewer(r.Context()), out: out, wake: make(chan struct{}, 1)}).serveTopic(r.Context(), t)
}

func (s *stream) serveTopic(ctx context.Context, t bus.Tail) error {
	events, err := s.service.bus.Open(t, s.wake)
	if err != nil {
		return fmt.Errorf("tail %s: %w", t.Topic, err)
	}
	defer events.Close()
	// A client that disconnects before the first event resumes from this id.
	s.out.buf = fmt.Appendf(s.out.buf, "id: %s\n\n", cmp.Or(string(t.After), fromBegin))
	return s.run(ctx, func(ctx context.Context) (bool, error) {
		d, ok, err := events.Next(ctx)
		if errors.Is(err, bus.ErrTrimmed) {
			s.out.buf = append(s.out.buf, "event: stream.gap\ndata: {\"message\":\"Events after this position have expired. Connect again with ?from=begin.\"}\n\n"...)
			return false, errEndOfStream
		}
		if err != nil {
			return false, fmt.Errorf("tail %s: %w", t.Topic, err)
		}
		if !ok {
			return false, nil
		}
		raw, err := json.Marshal(busEvent{d.Event, d.Position})
		if err != nil {
			return false, fmt.Errorf("encode event: %w", err)
		}
		s.out.buf = append(s.out.buf, "id: "...)
		s.out.buf = append(s.out.buf, d.Position...)
		s.out.buf = append(s.out.buf, "\nevent: "...)
		s.out.buf = append(s.out.buf, d.Type...)
		s.out.buf = append(s.out.buf, '\n')
		s.out.buf = appendData(s.out.buf, raw)
		return true, nil
	})
}
