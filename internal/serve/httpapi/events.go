package httpapi

import (
	"net/http"
	"time"

	"lilac/internal/core/environment"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// envEvents publishes environment events of API clients.
type envEvents struct {
	db       *db.DB
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
