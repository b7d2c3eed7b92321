package mcpclient

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

// CodeUnknown is the code of a fault for a call that may have taken effect.
const CodeUnknown = "outcome_unknown"

// maxErrorText bounds the text of a server's error, in characters.
const maxErrorText = 4000

// Call calls a tool.
func (s *Servers) Call(ctx context.Context, server, tool string, input json.RawMessage, people People) (Result, error) {
	one, err := s.find(server)
	if err != nil {
		return Result{}, err
	}
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	var out Result
	err = one.call(ctx, people, func(ctx context.Context, live *connection, alive func()) error {
		params := &mcp.CallToolParams{Name: tool, Arguments: input}
		token := live.progress.add(&reporting{name: server + "." + tool, show: people.Show, alive: alive})
		defer live.progress.remove(token)
		params.SetProgressToken(token)
		result, err := live.session.CallTool(ctx, params)
		if err != nil {
			return err
		}
		out, err = readResult(server, result)
		return err
	})
	return out, err
}

// Read reads a resource.
func (s *Servers) Read(ctx context.Context, server, uri string) (Result, error) {
	one, err := s.find(server)
	if err != nil {
		return Result{}, err
	}
	var out Result
	err = one.call(ctx, People{}, func(ctx context.Context, live *connection, _ func()) error {
		result, err := live.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
		if err != nil {
			return err
		}
		for _, c := range result.Contents {
			if c != nil {
				out.Content = append(out.Content, resourceContent(c))
			}
		}
		return nil
	})
	return out, err
}

// Prompt returns the messages of a prompt, in the form of the protocol.
func (s *Servers) Prompt(ctx context.Context, server, name string, arguments map[string]string) (messages []Message, err error) {
	one, err := s.find(server)
	if err != nil {
		return nil, err
	}
	err = one.call(ctx, People{}, func(ctx context.Context, live *connection, _ func()) error {
		result, err := live.session.GetPrompt(ctx, &mcp.GetPromptParams{Name: name, Arguments: arguments})
		if err != nil {
			return err
		}
		for _, m := range result.Messages {
			if m != nil {
				messages = append(messages, Message{Role: string(m.Role), Content: content(m.Content)})
			}
		}
		return nil
	})
	return messages, err
}

// call runs one request to the server, within its limits. do is given a function for signs of life.
func (s *server) call(ctx context.Context, people People, do func(ctx context.Context, live *connection, alive func()) error) error {
	select {
	case s.calls <- struct{}{}:
		defer func() { <-s.calls }()
	default:
		return fault.New(fault.RateLimited, "The MCP server %s works on %d calls already; try again when one has ended.", s.name, maxCalls)
	}
	live, err := s.ready(ctx, nil)
	if err != nil {
		return err
	}
	err = s.attempt(ctx, live, people, do)
	if !errors.Is(err, mcp.ErrSessionMissing) {
		return err
	}
	// The server refused the call, because it has forgotten the session. It may do that at any time
	// (MCP 2025-06-18, "Session Management").
	if live, err = s.ready(ctx, live); err != nil {
		return err
	}
	return s.attempt(ctx, live, people, do)
}

// restartTime limits how long a call waits for a server that is restarted. It is also the time after which a call
// restarts a server that would wait for longer: what it needs may be there again.
const restartTime = 10 * time.Second

// away returns the error of a call of a server that does not work.
func (s *server) away() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state == Disabled:
		return fault.New(fault.Unavailable, "The MCP server %s is turned off.", s.name)
	case s.trouble == "":
		return fault.New(fault.Unavailable, "The MCP server %s is still starting: try again in a moment.", s.name)
	}
	then := " It is started again by itself: try again later."
	if s.config.Broken {
		then = ""
	}
	return fault.New(fault.Unavailable, "The MCP server %s does not work (%s): %s.%s", s.name, s.state, strings.TrimSuffix(s.trouble, "."), then)
}

// ready returns the connection, which must not be before, one that has ended. While the server is
// restarted, it waits.
func (s *server) ready(ctx context.Context, before *connection) (*connection, error) {
	late := time.NewTimer(restartTime)
	defer late.Stop()
	for {
		s.mu.Lock()
		if s.state == Waiting && s.again != nil && time.Since(s.since) >= restartTime {
			s.soon = true
			s.again()
		}
		live, waits, changed := s.live, s.state == Starting || s.soon, s.changed
		s.mu.Unlock()
		switch {
		case live != nil && live != before:
			return live, nil
		case live == nil && !waits:
			return nil, s.away()
		}
		select {
		case <-changed:
		case <-late.C:
			return nil, s.away()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// attempt runs one request on a connection, within its limits.
func (s *server) attempt(ctx context.Context, live *connection, people People, do func(ctx context.Context, live *connection, alive func()) error) error {
	limit := s.config.callTime()
	slow := fault.New(fault.Timeout, "The MCP server %s did not answer within %s, or %s with progress. Whether the call took effect is not known: check before you repeat it.", s.name, limit, maxTimeout)
	slow.Code = CodeUnknown
	ctx, cancel := context.WithTimeoutCause(ctx, maxTimeout, slow)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	late := time.AfterFunc(limit, func() { stop(slow) })
	defer late.Stop()
	refused := &atomic.Bool{}
	ctx, call, end := live.askings.begin(context.WithValue(ctx, refusedKey{}, refused), people)
	defer end()
	err := call.ended(ctx, s.name, do(ctx, live, func() { late.Reset(limit) }))
	live.note(err, errors.Is(context.Cause(ctx), slow))
	if errors.Is(err, mcp.ErrSessionMissing) && !refused.Load() { // another request was refused, and the call may have taken effect
		err = errors.New(err.Error())
	}
	// After the end of a login, the server doesn't work until a person logs in again. Other calls of the connection may
	// still get their answers.
	var known *fault.Error
	if errors.As(err, &known) && known.Kind == fault.Unauthenticated && len(s.calls) == 1 {
		live.stop(known)
	}
	return s.explain(ctx, live, err)
}

// note counts calls that time out, and ends a connection that is unusable.
func (c *connection) note(err error, slow bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch _, answered := isWire(err); {
	case err != nil && slow:
		if c.timeouts++; c.timeouts >= maxTimeouts {
			c.stop(errHung)
		}
	case errors.Is(err, mcp.ErrSessionMissing):
		c.stop(err)
	case err == nil || answered || unreadable(err):
		c.timeouts = 0
	}
}

// explain turns the error of a call into a fault.
func (s *server) explain(ctx context.Context, live *connection, err error) error {
	var known *fault.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &known):
		return err
	}
	if errors.Is(err, mcp.ErrSessionMissing) {
		return fault.Wrap(fault.Unavailable, err, "The MCP server %s forgets its sessions at once. It has not handled the call.", s.name)
	}
	if wire, ok := isWire(err); ok {
		message := fmt.Sprintf("The MCP server %s refused the call: %s", s.name, text.TruncateRunes(text.Sanitize(wire.Message), maxErrorText))
		kind := fault.Conflict
		if wire.Code == jsonrpc.CodeInvalidParams {
			kind = fault.Invalid
		}
		return fault.Wrap(kind, err, "%s", message)
	}
	if strings.Contains(err.Error(), markTransport) {
		return s.transportFault(err)
	}
	if unreadable(err) {
		odd := fault.Wrap(fault.Conflict, err, "The MCP server %s has answered the call, but with a result that breaks the protocol and cannot be read (%s). The call has probably taken effect: check before you repeat it.", s.name, text.TruncateRunes(reason(err), 300))
		odd.Code = CodeUnknown
		return odd
	}
	why := "the connection broke off"
	select {
	case <-live.over:
		why = text.TruncateRunes(live.why, 500)
	case <-time.After(endTime):
	}
	lost := fault.Wrap(fault.Unavailable, err, "The MCP server %s ended during the call (%s). Whether the call took effect is not known: check before you repeat it.", s.name, why)
	lost.Code = CodeUnknown
	return lost
}

// unreadable reports whether a server has answered a call with a result that the SDK cannot decode. Common are pictures
// as data URLs, and types of content that are no part of the protocol.
func unreadable(err error) bool {
	var kind *json.UnmarshalTypeError
	var encoding base64.CorruptInputError
	return errors.As(err, &kind) || errors.As(err, &encoding) || err != nil && strings.Contains(err.Error(), "unrecognized content type")
}

// transportFault returns the fault of a call that got no answer over HTTP. A proxy may give up, and
// a connection break off, while the server still works on the call.
func (s *server) transportFault(err error) error {
	var dial *net.OpError
	switch {
	case strings.HasSuffix(err.Error(), http.StatusText(http.StatusTooManyRequests)):
		return fault.Wrap(fault.RateLimited, err, "The MCP server %s gets too many requests (429). It has not handled the call: try again later.", s.name)
	case errors.As(err, &dial) && dial.Op == "dial":
		return fault.Wrap(fault.Unavailable, err, "The MCP server %s cannot be reached (%s). It has not received the call.", s.name, reason(err))
	}
	lost := fault.Wrap(fault.Unavailable, err, "The MCP server %s did not answer the call (%s). Whether the call took effect is not known: check before you repeat it.", s.name, reason(err))
	lost.Code = CodeUnknown
	return lost
}

// endTime limits the wait of a call for the reason why its server ended.
const endTime = time.Second

// progress passes the progress of calls on.
type progress struct {
	mu    sync.Mutex
	next  int
	calls map[string]*reporting
}

// reporting is a call whose server may report progress.
type reporting struct {
	name string
	// show shows a line to people; it may be nil.
	show func(string)
	// alive gives the call more time.
	alive func()
	last  time.Time
}

// progressPause is the least time between two lines of a call.
const progressPause = 200 * time.Millisecond

// add returns the token of a call.
func (p *progress) add(call *reporting) (token string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls == nil {
		p.calls = map[string]*reporting{}
	}
	p.next++
	token = strconv.Itoa(p.next)
	p.calls[token] = call
	return token
}

func (p *progress) remove(token string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.calls, token)
}

// handle shows a notification about a call. It never blocks.
func (p *progress) handle(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
	if r.Params == nil {
		return
	}
	token, _ := r.Params.ProgressToken.(string)
	p.mu.Lock()
	defer p.mu.Unlock()
	call := p.calls[token]
	if call == nil {
		return
	}
	call.alive()
	if call.show == nil || time.Since(call.last) < progressPause {
		return
	}
	call.last = time.Now()
	line := call.name + ": " + strconv.FormatFloat(r.Params.Progress, 'g', 6, 64)
	if r.Params.Total > 0 {
		line += "/" + strconv.FormatFloat(r.Params.Total, 'g', 6, 64)
	}
	call.show(text.TruncateRunes(text.SingleLine(line+" "+r.Params.Message), 200))
}
