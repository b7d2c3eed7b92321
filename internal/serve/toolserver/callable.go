package toolserver

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/schema"
	"lilac/internal/serve/toolwire"
)

// Callable is a function that commands can call by its id. [NewCallable] makes one.
type Callable struct {
	// ID is words separated by dots, for example "surface.messages.read".
	ID string
	// Summary is one line; Description is the rest of the help.
	Summary     string
	Description string
	Examples    []string
	// Changes reports that a call changes something; it is recorded before it runs.
	Changes bool
	// Repeatable reports that a call whose outcome is unknown may be repeated.
	Repeatable bool
	// Time limits one call; zero means 30 seconds.
	Time time.Duration

	schema    func() (json.RawMessage, error)
	normalize func(input json.RawMessage) (json.RawMessage, error)
	run       func(ctx context.Context, caller Caller, normal json.RawMessage) (any, error)
}

// defaultTime limits a call of a [Callable] that sets no limit.
const defaultTime = 30 * time.Second

// NewCallable returns c with a function that runs it. The schema of its input is
// that of the struct In (see package schema); calls whose input does not match it
// fail before run. The value that run returns is encoded as JSON; errors that the
// caller should see are faults.
func NewCallable[In any](c Callable, run func(ctx context.Context, caller Caller, in In) (any, error)) Callable {
	s := schema.For[In](schema.Options{})
	c.schema, c.normalize = s.JSON, s.Normalize
	c.run = func(ctx context.Context, caller Caller, normal json.RawMessage) (any, error) {
		var in In
		if err := schema.Unmarshal(normal, &in); err != nil {
			return nil, err
		}
		return run(ctx, caller, in)
	}
	if c.Time <= 0 {
		c.Time = defaultTime
	}
	return c
}

var callableID = regexp.MustCompile(`^[a-z0-9_]+(\.[a-z0-9_]+)*$`)

// Schema returns the JSON schema of the input.
func (c Callable) Schema() (json.RawMessage, error) {
	text, err := c.schema()
	if err != nil {
		return nil, fmt.Errorf("callable %s: %w", c.ID, err)
	}
	return text, nil
}

// Call runs c for a caller, without the checks and records of a [Server].
func (c Callable) Call(ctx context.Context, caller Caller, input json.RawMessage) (any, error) {
	normal, err := c.normalize(input)
	if err != nil {
		return nil, err
	}
	return c.run(ctx, caller, normal)
}

func (c Callable) summary() toolwire.Summary {
	return toolwire.Summary{ID: c.ID, Summary: c.Summary, Changes: c.Changes, Repeatable: c.Repeatable}
}

func (c Callable) help() (toolwire.Help, error) {
	text, err := c.Schema()
	return toolwire.Help{Summary: c.summary(), Description: c.Description, Examples: c.Examples, Input: text}, err
}

// lookup returns a callable that the caller may call. It refuses others, and suggests
// only callables that the caller may call.
func (s *Server) lookup(g Grant, id string) (Callable, error) {
	c, known := s.callables[id]
	switch {
	case known && s.mayCall(g, id):
		return c, nil
	case known && !g.Tools.Allows(id):
		return c, &fault.Error{Kind: fault.Denied, Code: "callable_not_allowed", Message: g.Tools.Refusal(id)}
	case known:
		return c, &fault.Error{Kind: fault.Denied, Code: "callable_not_allowed", Message: fmt.Sprintf("This token does not allow %s.", id)}
	}
	var mine []string
	for _, one := range s.allowed(g) {
		mine = append(mine, one.ID)
	}
	return c, &fault.Error{Kind: fault.NotFound, Code: "unknown_callable", Field: "callableId", Message: fmt.Sprintf("There is no callable %q.%s See tools --list.", id, fault.DidYouMean(id, mine))}
}

// allowed lists the callables that a caller may call, by id.
func (s *Server) allowed(g Grant) []toolwire.Summary {
	out := []toolwire.Summary{}
	for id, c := range s.callables {
		if s.mayCall(g, id) {
			out = append(out, c.summary())
		}
	}
	slices.SortFunc(out, func(a, b toolwire.Summary) int { return strings.Compare(a.ID, b.ID) })
	return out
}

func (s *Server) mayCall(g Grant, id string) bool {
	return s.o.unbound || allows(g.Callables, id) && g.Tools.Allows(id) && !(g.ReadOnly && s.callables[id].Changes)
}

// allows reports whether one of the patterns matches id. A pattern is an id, or a prefix
// of ids followed by .*; * alone matches every id.
func allows(patterns []string, id string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		prefix, open := strings.CutSuffix(p, "*")
		return p == id || open && (prefix == "" || strings.HasSuffix(prefix, ".") && strings.HasPrefix(id, prefix))
	})
}
