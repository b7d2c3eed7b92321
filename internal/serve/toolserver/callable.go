package toolserver

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"lilac/internal/foundation/fault"
	"lilac/internal/serve/toolwire"
)

// Callable is something that can be called by its id.
type Callable struct {
	// ID is words with dots between them, "surface.messages.read".
	ID string
	// Summary is one line, Description the rest of the help.
	Summary     string
	Description string
	Examples    []string
	// Schema is the JSON Schema of the input: an object whose properties have
	// one type each.
	Schema string
	// Changes says that a call changes something; it is recorded before it runs.
	Changes bool
	// Repeatable says that a call whose outcome is unknown may be made again.
	Repeatable bool
	// Time bounds one call; zero means 30 seconds.
	Time time.Duration
	// Run does it. The input fits the schema; what it returns is encoded as
	// JSON. What the caller should know of an error is a fault.
	Run func(ctx context.Context, caller Caller, input json.RawMessage) (any, error)
}

const defaultTime = 30 * time.Second

var callableID = regexp.MustCompile(`^[a-z0-9_]+(\.[a-z0-9_]+)*$`)

// registered is a callable with its schema.
type registered struct {
	Callable
	// input reads the schema when it is first needed: to read them all would be
	// a fifth of the program's start.
	input func() (*jsonschema.Resolved, error)
}

func register(c Callable) (registered, error) {
	r := registered{Callable: c, input: sync.OnceValues(c.readSchema)}
	if !callableID.MatchString(c.ID) || c.Run == nil {
		return r, fmt.Errorf("callable %q needs an id of words with dots, and something to run", c.ID)
	}
	if r.Time <= 0 {
		r.Time = defaultTime
	}
	return r, nil
}

func (c Callable) readSchema() (*jsonschema.Resolved, error) {
	schema := &jsonschema.Schema{}
	if err := json.Unmarshal([]byte(c.Schema), schema); err != nil {
		return nil, fmt.Errorf("read schema of %s: %w", c.ID, err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("resolve schema of %s: %w", c.ID, err)
	}
	if schema.Type != "object" {
		return nil, fmt.Errorf("schema of %s is of type %q, not object", c.ID, schema.Type)
	}
	return resolved, nil
}

func (r registered) summary() toolwire.Summary {
	return toolwire.Summary{ID: r.ID, Summary: r.Summary, Changes: r.Changes, Repeatable: r.Repeatable}
}

func (r registered) help() toolwire.Help {
	return toolwire.Help{Summary: r.summary(), Description: r.Description, Examples: r.Examples, Input: json.RawMessage(r.Schema)}
}

// lookup finds a callable that the caller may call. Of others it says that they
// are denied, and suggests only what the caller may call.
func (s *Server) lookup(g Grant, id string) (registered, error) {
	c, known := s.callables[id]
	switch {
	case known && s.mayCall(g, id):
		return c, nil
	case known:
		return c, &fault.Error{Kind: fault.Denied, Code: "callable_not_allowed", Message: fmt.Sprintf("This token does not allow %s.", id)}
	}
	var mine []string
	for _, one := range s.allowed(g) {
		mine = append(mine, one.ID)
	}
	return c, &fault.Error{Kind: fault.NotFound, Code: "unknown_callable", Field: "callableId", Message: fmt.Sprintf("There is no callable %q.%s See tools --list.", id, didYouMean(id, mine))}
}

// allowed lists what a caller may call, by id.
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
	return s.o.unbound || allows(g.Callables, id) && !(g.ReadOnly && s.callables[id].Changes)
}

// allows reports whether one of the patterns names id. A pattern is an id, or
// a beginning of ids and .*; * alone is every one.
func allows(patterns []string, id string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		prefix, open := strings.CutSuffix(p, "*")
		return p == id || open && (prefix == "" || strings.HasSuffix(prefix, ".") && strings.HasPrefix(id, prefix))
	})
}
