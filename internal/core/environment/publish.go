package environment

import (
	"fmt"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

// Source is the name of environment events in the inbox.
const Source = "env"

// Publish puts e on the bus in the caller's transaction. It drops an event whose
// id was published before, also after a restart, and then returns false.
func Publish(tx *db.Tx, inbox Inbox, e event.EnvEvent) (published bool, err error) {
	return PublishTraced(tx, inbox, e, "")
}

// PublishTraced is like Publish, for an event of a trace. traceParent is the
// header traceparent of its cause, or "".
func PublishTraced(tx *db.Tx, inbox Inbox, e event.EnvEvent, traceParent string) (published bool, err error) {
	if len(e.Payload) == 0 {
		e.Payload = []byte("null")
	}
	if e.Timestamp == 0 {
		e.Timestamp = tx.Now().UnixMilli()
	}
	ev, err := event.New(event.Meta{ID: e.ID, Time: time.UnixMilli(e.Timestamp), Headers: headers(e, traceParent)}, e)
	if err != nil {
		return false, err
	}
	if _, seen, err := inbox.Seen(tx, Source, e.ID, nil); err != nil {
		return false, fmt.Errorf("check environment event: %w", err)
	} else if seen {
		return false, nil
	}
	if err := tx.Publish(ev); err != nil {
		return false, fmt.Errorf("publish environment event: %w", err)
	}
	return true, nil
}

func headers(e event.EnvEvent, traceParent string) event.Headers {
	var h event.Headers
	if id := e.Metadata.TriggerSessionID; id != "" {
		h = h.With(event.HeaderSessionID, id)
	}
	if traceParent != "" {
		h = h.With(event.HeaderTraceParent, traceParent)
	}
	return h
}
