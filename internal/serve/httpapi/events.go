package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"lilac/internal/core/environment"
	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// envEvents publishes environment events of API clients.
type envEvents struct {
	db       *db.DB
	bus      bus.Bus
	inbox    environment.Inbox
	sessions *sessions
	now      func() time.Time
}

// newEvent is an environment event as a client sends it.
type newEvent event.EnvEvent

// complete fills in the id, time and source that a client left out, and
// validates the event.
func (s *envEvents) complete(in newEvent) (event.EnvEvent, error) {
	e := event.EnvEvent(in)
	if e.ID == "" {
		e.ID = newID()
	}
	if e.Timestamp == 0 {
		e.Timestamp = s.now().UnixMilli()
	}
	if e.Metadata.Source == "" {
		e.Metadata.Source = "api"
	}
	return e, e.Validate()
}

// published is the response to an event or a webhook.
type published struct {
	Success bool   `json:"success"`
	ID      string `json:"id"`
	// Duplicate reports that an event with this id was published before.
	Duplicate bool `json:"duplicate"`
}

// publish publishes an event of a client, once for each id. The event is durable
// before the response.
func (s *envEvents) publish(r *http.Request, in newEvent) (out published, err error) {
	e, err := s.complete(in)
	if err != nil {
		return out, err
	}
	if environment.IsReserved(e.Type) {
		return out, fault.InvalidField("type", "Only the server publishes events of the type %s. To send a message to a session, use POST /sessions/{id}/prompt.", e.Type)
	}
	out = published{Success: true, ID: e.ID}
	err = s.db.Update(r.Context(), func(tx *db.Tx) error {
		if id := e.Metadata.TriggerSessionID; id != "" {
			if _, err := s.sessions.table.Session(tx, id); err != nil {
				return err
			}
		}
		fresh, err := environment.PublishTraced(tx, s.inbox, e, event.TraceParent(r.Context()))
		out.Duplicate = !fresh
		return err
	})
	return out, err
}

// replayBatch is how many events are read at a time while one is searched.
const replayBatch = 500

// replay publishes an event of the log again, as a new event that names its origin. Rules
// handle each event once, and so do not handle one with the same id.
func (s *envEvents) replay(r *http.Request, _ struct{}) (out published, err error) {
	origin := r.PathValue("id")
	e, err := s.find(r.Context(), origin)
	if err != nil {
		return out, err
	}
	if environment.IsReserved(e.Type) {
		return out, fault.New(fault.Conflict, "Events of the type %s cannot be replayed: only the server publishes them.", e.Type)
	}
	raw, err := json.Marshal(origin)
	if err != nil {
		return out, fault.Wrap(fault.Internal, err, "The id could not be encoded.")
	}
	extra := map[string]json.RawMessage{}
	for name, value := range e.Metadata.Extra {
		extra[name] = value
	}
	extra[event.MetadataReplayOf] = raw
	e.ID, e.Timestamp, e.Metadata.Extra = "replay:"+newID(), s.now().UnixMilli(), extra
	return s.publish(r, newEvent(e))
}

// find returns an environment event of the log, from its oldest retained event on.
func (s *envEvents) find(ctx context.Context, id string) (event.EnvEvent, error) {
	var after bus.Position
	for {
		found, err := s.bus.Fetch(ctx, event.TopicEnv, after, replayBatch)
		if err != nil {
			return event.EnvEvent{}, err
		}
		for _, d := range found {
			if after = d.Position; d.ID != id {
				continue
			}
			payload, err := event.Decode(d.Event)
			if e, ok := payload.(event.EnvEvent); err == nil && ok {
				return e, nil
			}
			return event.EnvEvent{}, fault.New(fault.Conflict, "The event %q is damaged and cannot be replayed.", id)
		}
		if len(found) == 0 {
			return event.EnvEvent{}, fault.New(fault.NotFound, "There is no environment event %q in the log. It may have been trimmed.", id)
		}
	}
}
