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

// Publisher publishes environment events; see [environment.Service.Publish].
type Publisher interface {
	Publish(ctx context.Context, e event.EnvEvent) (published bool, err error)
}

const (
	// customTypes is the prefix of the types that the agent may publish.
	customTypes = "custom."
	// toolSource is the source of events that commands publish.
	toolSource = "tool"
)

type publishInput struct {
	Type    string          `json:"type" min:"1" max:"64" jsonschema:"Made of a-z, 0-9, _ and dots."`
	Payload json.RawMessage `json:"payload,omitempty" jsonschema:"What happened: any JSON (--payload:json=…)."`
	ID      string          `json:"id,omitempty" max:"100" jsonschema:"Names what happened, so that it counts once."`
	inSession
}

// published is the result of events.publish.
type published struct {
	ID string `json:"id"`
	// Duplicate reports that an event with this id already existed.
	Duplicate bool `json:"duplicate"`
}

// Events returns the callables events.*. The agent may publish types that begin with
// custom., in its own session. An operator may publish any type that the server does not
// create itself, in any session or in none.
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
	// The prefix keeps a caller from using the ids of another caller or of a source.
	e.ID = strings.Join([]string{toolSource, caller.Operator, caller.SessionID, in.ID}, ":")
	if caller.RequestID != "" {
		e = environment.Restricted(environment.CausedBy(e, caller.RequestID), caller.Tools)
	}
	return e, e.Validate()
}
