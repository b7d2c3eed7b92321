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
	"lilac/internal/foundation/order"
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
	return c.with(s.JSON, s.Normalize, func(ctx context.Context, caller Caller, normal json.RawMessage) (any, error) {
		var in In
		if err := schema.Unmarshal(normal, &in); err != nil {
			return nil, err
		}
		return run(ctx, caller, in)
	})
}

// NewForeign returns c with a function that runs it, for a callable whose input has the
// schema of another program. normalize checks an input and brings it into the form for
// run.
func NewForeign(c Callable, schema json.RawMessage, normalize func(input json.RawMessage) (json.RawMessage, error), run func(ctx context.Context, caller Caller, normal json.RawMessage) (any, error)) Callable {
	return c.with(func() (json.RawMessage, error) { return schema, nil }, normalize, run)
}

func (c Callable) with(schema func() (json.RawMessage, error), normalize func(json.RawMessage) (json.RawMessage, error), run func(context.Context, Caller, json.RawMessage) (any, error)) Callable {
	c.schema, c.normalize, c.run = schema, normalize, run
	if c.Time <= 0 {
		c.Time = defaultTime
	}
	return c
}

// Source has callables that come and go while the server runs.
type Source interface {
	// Prefix begins the ids of all of them, for example "mcp.".
	Prefix() string
	// Callables returns those that exist now.
	Callables() []Callable
	// Absent says why a callable may be missing only for now, or returns nil.
	Absent(id string) error
	// Settle waits until a source that starts knows its callables, or ctx ends.
	Settle(ctx context.Context)
}

// settleTime limits how long a list waits for a source that starts.
const settleTime = 5 * time.Second

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
	c, known := s.find(id)
	switch {
	case known && s.mayCall(g, c):
		return c, nil
	case known && !g.Tools.Allows(id):
		return c, &fault.Error{Kind: fault.Denied, Code: "callable_not_allowed", Message: g.Tools.Refusal(id)}
	case known:
		return c, &fault.Error{Kind: fault.Denied, Code: "callable_not_allowed", Message: fmt.Sprintf("This token does not allow %s.", id)}
	}
	if s.o.Source != nil && strings.HasPrefix(id, s.prefix()) && s.mayCall(g, Callable{ID: id, Changes: true}) {
		if err := s.o.Source.Absent(id); err != nil {
			return c, err
		}
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
	add := func(c Callable) {
		if s.mayCall(g, c) {
			out = append(out, c.summary())
		}
	}
	for _, c := range s.callables {
		add(c)
	}
	if s.o.Source != nil {
		for _, c := range s.o.Source.Callables() {
			add(c)
		}
	}
	order.By(out, func(a, b toolwire.Summary) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// find returns a callable by its id.
func (s *Server) find(id string) (c Callable, known bool) {
	if c, known = s.callables[id]; known || s.o.Source == nil || !strings.HasPrefix(id, s.o.Source.Prefix()) {
		return c, known
	}
	all := s.o.Source.Callables()
	if i := slices.IndexFunc(all, func(c Callable) bool { return c.ID == id }); i >= 0 {
		return all[i], true
	}
	return c, false
}

func (s *Server) mayCall(g Grant, c Callable) bool {
	return s.o.unbound || allows(g.Callables, c.ID) && g.Tools.Allows(c.ID) && !(g.ReadOnly && c.Changes)
}

// allows reports whether one of the patterns matches id. A pattern is an id, or a prefix
// of ids followed by .*; * alone matches every id.
func allows(patterns []string, id string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		prefix, open := strings.CutSuffix(p, "*")
		return p == id || open && (prefix == "" || strings.HasSuffix(prefix, ".") && strings.HasPrefix(id, prefix))
	})
}
