package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

// CodeInputNeeded is the code of a fault for a call during which the server has asked a
// person something that nobody has answered yet.
const CodeInputNeeded = "input_needed"

// People connects a call with the people of its conversation. Its functions may be nil.
type People struct {
	// Show shows a line about the progress.
	Show func(line string)
	// Ask returns the answer to a question of the server. If there is none yet, the call ends
	// with a fault that has [CodeInputNeeded], and the answer is used when it is repeated.
	Ask func(ctx context.Context, q Question) (Answer, error)
}

// Question is a server's question to a person during a call (an elicitation): values that match
// a schema, or a visit to a link.
type Question struct {
	Message string
	// URL is the link, or "".
	URL string
	// Schema is the JSON schema of the values, or nil.
	Schema json.RawMessage
}

// Answer is the answer to a question.
type Answer struct {
	// Action is accept, decline, or cancel, or "" if nobody has answered yet.
	Action string
	// Values are the values, for accept.
	Values map[string]any
}

// The actions of an answer.
const (
	Accept  = "accept"
	Decline = "decline"
	Cancel  = "cancel"
)

// maxFormSchema bounds the schema of a question, in bytes.
const maxFormSchema = 64 << 10

// asking is a call that runs, with what the server asked during it.
type asking struct {
	people People

	mu sync.Mutex
	// open is the first question that nobody has answered yet.
	open *Question
	// mixed reports that the server asked something that may belong to another call.
	mixed bool
}

// askingKey is the key of the call in the context of its request.
type askingKey struct{}

// askings are the calls of a connection that run.
type askings struct {
	mu    sync.Mutex
	calls map[*asking]bool
}

// begin notes a call; end removes it.
func (a *askings) begin(ctx context.Context, people People) (_ context.Context, call *asking, end func()) {
	call = &asking{people: people}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.calls == nil {
		a.calls = map[*asking]bool{}
	}
	a.calls[call] = true
	return context.WithValue(ctx, askingKey{}, call), call, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.calls, call)
	}
}

// only returns the only call that runs. In the revision 2025-11-25, a question does not say
// to which call it belongs: if there are several, nobody is asked, because the question could
// reach the wrong person.
func (a *askings) only() *asking {
	a.mu.Lock()
	defer a.mu.Unlock()
	for call := range a.calls {
		if len(a.calls) == 1 {
			return call
		}
		call.mu.Lock()
		call.mixed = true
		call.mu.Unlock()
	}
	return nil
}

// errOpen ends a call of the stateless protocol whose question has no answer yet.
var errOpen = errors.New("nobody has answered yet")

// handle answers a question of the server.
func (a *askings) handle(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	call, own := ctx.Value(askingKey{}).(*asking)
	if !own {
		if call = a.only(); call == nil {
			return &mcp.ElicitResult{Action: Cancel}, nil
		}
	}
	answer, err := call.answer(ctx, r.Params)
	switch {
	case err != nil:
		return nil, err
	case answer.Action == "" && own:
		return nil, errOpen
	case answer.Action == "":
		return &mcp.ElicitResult{Action: Cancel}, nil
	}
	return &mcp.ElicitResult{Action: answer.Action, Content: answer.Values}, nil
}

// answer returns the answer of a person, with an empty action if there is none yet.
func (c *asking) answer(ctx context.Context, p *mcp.ElicitParams) (Answer, error) {
	q, err := readQuestion(p)
	if err != nil || c.people.Ask == nil {
		return Answer{Action: Decline}, err
	}
	answer, err := c.people.Ask(ctx, q)
	if err == nil && answer.Action == "" {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.open == nil {
			c.open = &q
		}
	}
	return answer, err
}

// readQuestion checks a question. A link must lead to a web page: other schemes start
// programs.
func readQuestion(p *mcp.ElicitParams) (Question, error) {
	if p == nil {
		return Question{}, fault.New(fault.Invalid, "The question is empty.")
	}
	q := Question{Message: text.Sanitize(p.Message), URL: p.URL}
	if q.URL != "" {
		link, err := url.Parse(q.URL)
		if err != nil || link.Scheme != "https" && link.Scheme != "http" || link.Hostname() == "" || link.User != nil || len(q.URL) > maxURI || text.SingleLine(q.URL) != q.URL {
			return Question{}, fault.New(fault.Invalid, "The link of the question is not an address of a web page.")
		}
		q.URL = link.String()
		return q, nil
	}
	if p.RequestedSchema == nil {
		return q, nil
	}
	schema, err := json.Marshal(p.RequestedSchema)
	if err != nil || len(schema) > maxFormSchema {
		return Question{}, fault.New(fault.Invalid, "The schema of the question is too large.")
	}
	q.Schema = schema
	return q, nil
}

// links asks about the links that a server requires before it accepts the call (the error
// -32042), and reports whether people have visited all of them.
func (c *asking) links(ctx context.Context, data json.RawMessage) (visited bool, err error) {
	var required struct {
		Elicitations []*mcp.ElicitParams `json:"elicitations"`
	}
	if json.Unmarshal(data, &required) != nil || len(required.Elicitations) == 0 {
		return false, nil
	}
	visited = true
	for _, p := range required.Elicitations {
		answer, err := c.answer(ctx, p)
		if err != nil {
			return false, err
		}
		visited = visited && answer.Action == Accept
	}
	return visited, nil
}

// ended returns the result of the call: the question that is open, or err.
func (c *asking) ended(ctx context.Context, server string, err error) error {
	if wire, ok := isWire(err); ok && wire.Code == mcp.CodeURLElicitationRequired {
		visited, asked := c.links(ctx, wire.Data)
		if asked != nil {
			return asked
		}
		if visited {
			return fault.New(fault.Conflict, "The MCP server %s still waits for the person to finish at the link. Ask the person, then repeat the call.", server)
		}
	}
	c.mu.Lock()
	open, mixed := c.open, c.mixed
	c.mu.Unlock()
	switch {
	case open != nil:
		waits := fault.New(fault.Denied, "The MCP server %s asks a person something, so the call did not finish; whether it took effect is not known. A person is asked as soon as this command has ended, and you continue after the answer. Then repeat exactly this call.", server)
		waits.Code = CodeInputNeeded
		return waits
	case mixed:
		return fault.New(fault.Conflict, "The MCP server %s asked a person something while it worked on several calls, so nobody could be asked. Repeat this call alone.", server)
	}
	return err
}
