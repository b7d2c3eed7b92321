package environment

import (
	"encoding/json"
	"fmt"
	"strconv"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

// depthKey is the metadata field with the position of an event in its chain of
// causes.
const depthKey = "depth"

// CausedBy records in an event the request that caused it, so that the events of
// a chain are counted.
func CausedBy(e event.EnvEvent, requestID string) event.EnvEvent {
	id, _ := json.Marshal(requestID) // a string always marshals
	return withExtra(e, event.MetadataRequest, id)
}

func withDepth(e event.EnvEvent, depth int) event.EnvEvent {
	return withExtra(e, depthKey, json.RawMessage(fmt.Sprint(depth)))
}

func withExtra(e event.EnvEvent, key string, value json.RawMessage) event.EnvEvent {
	extra := make(map[string]json.RawMessage, len(e.Metadata.Extra)+1)
	for k, v := range e.Metadata.Extra {
		extra[k] = v
	}
	extra[key] = value
	e.Metadata.Extra = extra
	return e
}

// DepthOf returns the position of an event in a chain of events that cause each
// other, counted from 1: the count of a rule, or one more than that of the event
// that led to the request which caused this one.
func (s *Service) DepthOf(q db.Queryer, e event.EnvEvent) (int, error) {
	depth := depthOf(e)
	var request string
	if raw, ok := e.Metadata.Extra[event.MetadataRequest]; ok && json.Unmarshal(raw, &request) == nil && request != "" {
		before, err := s.o.Causes.DepthOf(q, request)
		if err != nil {
			return 0, err
		}
		if before > 0 {
			depth = max(depth, before+1)
		}
	}
	return max(depth, 1), nil
}

func depthOf(e event.EnvEvent) int {
	n, err := strconv.Atoi(string(e.Metadata.Extra[depthKey]))
	if err != nil || n < 0 || n > 2*event.MaxDepth {
		return 0 // somebody else's field of this name
	}
	return n
}
