package httpapi

import (
	"errors"
	"net/http"

	"lilac/internal/engine/bus"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

const (
	// historyBatch is the number of events of the log that are read at a time.
	historyBatch = 500
	// maxHistoryScan bounds the events of all sessions that are read for one page: a page
	// may have fewer events than its limit, or none.
	maxHistoryScan = 10_000
)

// sessionEventList is a page of environment events of a session, oldest first. Next is the
// page token of the following page; it is missing at the end of the log.
type sessionEventList struct {
	Events []event.EnvEvent `json:"events"`
	Next   bus.Position     `json:"next,omitempty"`
}

// history lists the retained environment events of a session.
func (s *envEvents) history(r *http.Request) (out sessionEventList, err error) {
	out.Events = []event.EnvEvent{}
	limit, err := limitOf(r)
	if err != nil {
		return out, err
	}
	of, err := s.sessions.get(r)
	if err != nil {
		return out, err
	}
	after := bus.Position(r.URL.Query().Get("after"))
	for scanned := 0; scanned < maxHistoryScan; {
		found, err := s.bus.Fetch(r.Context(), event.TopicEnv, after, historyBatch)
		if errors.Is(err, bus.ErrTrimmed) {
			return out, &fault.Error{Kind: fault.Gone, Code: "trimmed", Field: "after", Err: err, Message: "Events after this page have expired. Leave out after to begin with the oldest event."}
		}
		if err != nil || len(found) == 0 {
			return out, err
		}
		scanned += len(found)
		for _, d := range found {
			after = d.Position
			if d.Key != of.ID {
				continue
			}
			payload, err := event.Decode(d.Event)
			if e, ok := payload.(event.EnvEvent); err == nil && ok {
				out.Events = append(out.Events, e)
			}
			if len(out.Events) == limit {
				out.Next = after
				return out, nil
			}
		}
	}
	out.Next = after
	return out, nil
}
