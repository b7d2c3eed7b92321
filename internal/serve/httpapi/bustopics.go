package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"lilac/internal/engine/bus"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
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
	topic, err := topicOf(r)
	if err != nil {
		return err
	}
	found, err := a.Bus.Fetch(r.Context(), topic, bus.Position(r.URL.Query().Get("after")), limit)
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

// topicOf returns the topic in the address, which has to be one of the catalog.
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

func trimmed(err error) error {
	if errors.Is(err, bus.ErrTrimmed) {
		return &fault.Error{Kind: fault.Gone, Code: "trimmed", Field: "after", Err: err, Message: "Events after this position were removed by age. Begin without it."}
	}
	return err
}

// fromBegin is where a tail begins with the oldest event; as the id of a frame
// it is the place before it.
const fromBegin = "begin"

// tailTopic streams a topic: the id of a frame is the position. Without a
// position it starts now.
func (a *api) tailTopic(w http.ResponseWriter, r *http.Request) error {
	if err := onlyQuery(r, "after", "from"); err != nil {
		return err
	}
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
		return fault.InvalidField("from", "from has to be begin or now.")
	case t.After == "" && from != fromBegin:
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
	s := &stream{a: a, out: out, wake: make(chan struct{}, 1)}
	return s.serveTopic(r.Context(), t)
}

func (s *stream) serveTopic(ctx context.Context, t bus.Tail) error {
	events, err := s.a.Bus.Open(t, s.wake)
	if err != nil {
		return fmt.Errorf("tail %s: %w", t.Topic, err)
	}
	defer events.Close()
	// Whoever is cut off before the first event comes back to here.
	s.out.buf = fmt.Appendf(s.out.buf, "id: %s\n\n", cmp.Or(string(t.After), fromBegin))
	return s.run(ctx, func(ctx context.Context) (bool, error) {
		d, took, err := events.Next(ctx)
		if errors.Is(err, bus.ErrTrimmed) {
			s.out.buf = append(s.out.buf, "event: stream.gap\ndata: {\"message\":\"Events after this position were removed by age. Connect again with ?from=begin.\"}\n\n"...)
			return false, errEnd
		}
		if err != nil {
			return false, fmt.Errorf("tail %s: %w", t.Topic, err)
		}
		if !took {
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
