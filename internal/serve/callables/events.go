package callables

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"strings"

	"lilac/internal/core/environment"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/serve/toolserver"
)

// Publisher takes environment events; see [environment.Service.Publish].
type Publisher interface {
	Publish(ctx context.Context, e event.EnvEvent) (published bool, err error)
}

const (
	// customTypes begins the types that the agent may publish.
	customTypes = "custom."
	// toolSource is where events of a command come from.
	toolSource = "tool"
)

type publishInput struct {
	Type    string          `json:"type" min:"1" max:"64" jsonschema:"Made of a-z, 0-9, _ and dots."`
	Payload json.RawMessage `json:"payload,omitempty" jsonschema:"What happened: any JSON (--payload:json=…)."`
	ID      string          `json:"id,omitempty" max:"100" jsonschema:"Names what happened, so that it counts once."`
	inSession
}

// published is the answer to an event.
type published struct {
	ID string `json:"id"`
	// Duplicate says that an event of this id was there already.
	Duplicate bool `json:"duplicate"`
}

// Events returns the callables events.*. The agent publishes types that begin
// with custom., in its own session; an operator any that the server does not
// make itself, in any session or in none.
func Events(surfaces Surfaces, env Publisher) []toolserver.Callable {
	return []toolserver.Callable{
		toolserver.NewCallable(toolserver.Callable{
			ID: "events.publish", Summary: "Publishes an event, which may trigger rules", Changes: true,
			Description: "The type must begin with custom. (an operator's token may use others). With --id, publishing again is the same event, and nothing happens twice.",
			Examples:    []string{`tools events.publish --type=custom.build.done --payload:json='{"ok": true}'`, "tools events.publish --type=custom.build.done --id=build-17"},
		}, func(ctx context.Context, caller toolserver.Caller, in publishInput) (any, error) {
			e, err := surfaces.eventOf(ctx, caller, in)
			if err != nil {
				return nil, err
			}
			fresh, err := env.Publish(ctx, e)
			return published{ID: e.ID, Duplicate: !fresh}, err
		}),
	}
}

// eventOf returns the event that a caller publishes, if it may.
func (s Surfaces) eventOf(ctx context.Context, caller toolserver.Caller, in publishInput) (event.EnvEvent, error) {
	e := event.EnvEvent{Type: event.Type(in.Type), Payload: in.Payload, Metadata: event.EnvMetadata{Source: toolSource}}
	if caller.Operator == "" && !strings.HasPrefix(in.Type, customTypes) {
		return e, fault.New(fault.Denied, "The type %q is not yours to publish: a command's begin with %s", in.Type, customTypes)
	}
	if environment.IsReserved(e.Type) {
		return e, fault.InvalidField("type", "Events of the type %s are made by the server itself.", e.Type)
	}
	if in.SessionID != "" || caller.SessionID != "" {
		_, id, err := s.Find(ctx, caller, in.SessionID)
		if err != nil {
			return e, err
		}
		if !caller.May(id) {
			return e, fault.New(fault.Denied, "The session %s is not yours: a command publishes in its own, %q.", id, caller.SessionID)
		}
		e.Metadata.TriggerSessionID = id
	}
	if in.ID == "" {
		in.ID = rand.Text()
	}
	// One caller cannot take the ids of another, or of a source.
	e.ID = strings.Join([]string{toolSource, caller.Operator, caller.SessionID, in.ID}, ":")
	if caller.RequestID != "" {
		e = environment.CausedBy(e, caller.RequestID)
	}
	return e, e.Validate()
}
