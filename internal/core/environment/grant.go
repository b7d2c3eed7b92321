package environment

import (
	"encoding/json"
	"fmt"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/grant"
)

// Restricted returns the event with the restrictions of what caused it. They also hold
// for the requests that the event causes.
func Restricted(e event.EnvEvent, g grant.Grant) event.EnvEvent {
	if len(g) == 0 {
		return e
	}
	raw, _ := json.Marshal(g) // strings always marshal
	return withExtra(e, event.MetadataGrant, raw)
}

// derived returns an event that was made out of another one, with the restrictions and
// the origin of that.
func derived(next, from event.EnvEvent) event.EnvEvent {
	origin, _ := json.Marshal(originOf(from)) // a string always marshals
	next = withExtra(next, event.MetadataOrigin, origin)
	if raw, ok := from.Metadata.Extra[event.MetadataGrant]; ok {
		next = withExtra(next, event.MetadataGrant, raw)
	}
	return next
}

// originOf returns the type of the event at the beginning of a chain of derived events.
func originOf(e event.EnvEvent) event.Type {
	var origin event.Type
	if json.Unmarshal(e.Metadata.Extra[event.MetadataOrigin], &origin) == nil && origin != "" {
		return origin
	}
	return e.Type
}

// FromProgram returns an event of a program that is a source. The origin holds whatever
// type the program chose.
func FromProgram(e event.EnvEvent) event.EnvEvent {
	origin, _ := json.Marshal(event.SourceReceived) // a string always marshals
	return withExtra(e, event.MetadataOrigin, origin)
}

// FromStrangers reports whether people who are not known here can cause the event and
// choose its text: those who can make a webhook deliver, or whose text a program prints.
func FromStrangers(e event.EnvEvent) bool {
	origin := originOf(e)
	return origin == event.WebhookReceived || origin == event.SourceReceived
}

// SourceTools returns what requests of a source may use, which is zero for the default.
// origin is webhook.received or source.received, and name the name of the source.
type SourceTools func(origin event.Type, name string) grant.Tools

// grantOf returns what a request that the rule starts for the event may use, apart from
// what the request that caused the event may use. An event from strangers may cause only
// reading, unless the rule says what else, or else the webhook or program does.
func (r Rule) grantOf(e event.EnvEvent, sources SourceTools) (grant.Grant, error) {
	var inherited grant.Grant
	if raw, ok := e.Metadata.Extra[event.MetadataGrant]; ok {
		if err := json.Unmarshal(raw, &inherited); err != nil {
			return nil, fmt.Errorf("decode the grant of event %s: %w", e.ID, err)
		}
	}
	own := r.Tools
	if !own.IsZero() {
		own.From = "the rule " + r.Name
	}
	if !FromStrangers(e) || len(own.Allow) > 0 {
		return grant.Of(own).And(inherited), nil
	}
	kind := "webhook"
	if originOf(e) == event.SourceReceived {
		kind = "source"
	}
	source := grant.Tools{}
	if sources != nil {
		source = sources(originOf(e), e.Metadata.EnvName)
	}
	source.From = "the " + kind + " " + e.Metadata.EnvName
	if len(source.Allow) == 0 {
		source.From, source.Allow = "the default for "+kind+"s", grant.Reading
	}
	return grant.Of(source, own).And(inherited), nil
}

// GrantOf returns what a request that an event causes may use: at most what the request
// that caused the event may use. Without a rule, the rule is the zero Rule.
func (s *Service) GrantOf(q db.Queryer, r Rule, e event.EnvEvent) (grant.Grant, error) {
	g, err := r.grantOf(e, s.o.SourceTools)
	if err != nil {
		return nil, err
	}
	var request string
	raw, ok := e.Metadata.Extra[event.MetadataRequest]
	if !ok || s.o.Causes == nil || json.Unmarshal(raw, &request) != nil || request == "" {
		return g, nil
	}
	cause, err := s.o.Causes.GrantOf(q, request)
	if err != nil {
		return nil, fmt.Errorf("read what the request %s may use: %w", request, err)
	}
	return g.And(cause), nil
}
