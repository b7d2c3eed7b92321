package callables

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"lilac/internal/agent/mcpclient"
	"lilac/internal/core/session"
	"lilac/internal/foundation/fault"
	"lilac/internal/serve/toolserver"
)

// Forms asks people what a program wants to know during a call; see [session.Forms].
type Forms interface {
	Answer(ctx context.Context, call session.FormCall, form session.Form) (reply string, answered bool, err error)
	Used(ctx context.Context, call session.FormCall) error
}

// people returns how people follow a call, and a function for its end. An operator's call
// has no conversation, so the server is told that nobody answers.
func (m *MCP) people(caller toolserver.Caller, server, id string, in json.RawMessage) (people mcpclient.People, used func(ctx context.Context, err error) error) {
	people.Show = caller.Progress
	call := session.FormCall{RequestID: caller.RequestID, SessionID: caller.SessionID, Client: caller.Client, Tool: id, Input: in}
	var asked atomic.Bool
	if m.Forms != nil && caller.Operator == "" && caller.RequestID != "" {
		people.Ask = func(ctx context.Context, q mcpclient.Question) (mcpclient.Answer, error) {
			asked.Store(true)
			return m.ask(ctx, call, server, q)
		}
	}
	return people, func(ctx context.Context, err error) error {
		// After an unknown outcome, the answers are kept: the call may be repeated.
		if code := fault.ToWire(err).Code; !asked.Load() || err != nil && (code == mcpclient.CodeInputNeeded || code == mcpclient.CodeUnknown || ctx.Err() != nil) {
			return nil
		}
		return m.Forms.Used(ctx, call)
	}
}

// ask asks a question of a server in the conversation of a call.
func (m *MCP) ask(ctx context.Context, call session.FormCall, server string, q mcpclient.Question) (answer mcpclient.Answer, err error) {
	reply, answered, err := m.Forms.Answer(ctx, call, session.Form{From: "MCP server " + server, Message: q.Message, URL: q.URL, Schema: q.Schema})
	switch {
	case err != nil || !answered:
		return answer, err
	case reply == "":
		return mcpclient.Answer{Action: mcpclient.Cancel}, nil // nobody answered in time
	case reply == session.Declined:
		return mcpclient.Answer{Action: mcpclient.Decline}, nil
	}
	if q.URL == "" {
		if err := json.Unmarshal([]byte(reply), &answer.Values); err != nil {
			return answer, fmt.Errorf("read the answer to a question: %w", err)
		}
	}
	answer.Action = mcpclient.Accept
	return answer, nil
}
