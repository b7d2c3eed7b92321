package app

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"lilac/internal/agent/mcpclient"
	"lilac/internal/agent/tool"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
	"lilac/internal/operate/config"
	"lilac/internal/serve/callables"
	"lilac/internal/serve/toolserver"
)

// pinWait limits how long a request waits for the servers of pinned tools to start, so that
// a conversation begins with them after a restart.
const pinWait = 3 * time.Second

// pinned offers tools of MCP servers to the model itself.
type pinned struct{ *base }

// tools returns the pinned tools whose servers work, in the order of the configuration.
func (p pinned) tools() (out []tool.Tool) {
	pins := p.now.Load().config.MCP.Pin
	if len(pins) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), pinWait)
	defer cancel()
	p.mcp.Settle(ctx)
	offers := p.mcp.Offers()
	for _, id := range pins {
		server, name, ok := config.SplitMCP(id)
		i := slices.IndexFunc(offers, func(o mcpclient.Offer) bool { return o.Server == server })
		if !ok || i < 0 {
			continue
		}
		at := slices.IndexFunc(offers[i].Tools, func(t mcpclient.Tool) bool { return t.Name == name })
		if at >= 0 {
			out = append(out, pinnedTool{p.callables.foreign, p.blobs.Put, id, server, offers[i].Tools[at]})
		}
	}
	return p.observer.Tools(out)
}

// pinnedTool is one of them. It does the same as its callable.
type pinnedTool struct {
	source *callables.MCP
	// keep stores a picture of a result, and returns its reference.
	keep   func(ctx context.Context, data []byte) (ref string, err error)
	id     string
	server string
	about  mcpclient.Tool
}

var _ tool.Displayer = pinnedTool{}

// Spec implements [tool.Tool].
func (t pinnedTool) Spec() tool.Spec {
	return tool.Spec{Name: grant.PinnedName(t.server, t.about.Name), Description: callables.Describe(t.server, t.about), Schema: t.about.Schema}
}

// Display implements [tool.Displayer].
func (t pinnedTool) Display(json.RawMessage) string { return t.id }

// Run implements [tool.Tool]. The runner has applied the policy to the name of the tool,
// which stands for the callable.
func (t pinnedTool) Run(ctx context.Context, call tool.Call) (tool.Result, error) {
	caller := toolserver.Caller{Grant: toolserver.Grant{
		RequestID: call.RequestID, SessionID: call.SessionID, Client: call.Client, Tools: call.Grant, Workspace: call.Workspace, Progress: call.Progress,
	}}
	value, err := t.source.Tool(t.server, t.about).Call(ctx, caller, call.Input)
	var known *fault.Error
	switch {
	case ctx.Err() != nil:
		return tool.Result{Failed: true, Display: t.id}, context.Cause(ctx)
	case errors.As(err, &known):
		result := tool.Failed(errors.New(known.Message))
		result.Display = t.id
		return result, nil
	case err != nil:
		return tool.Result{}, err
	}
	text, isText := value.(string)
	if !isText {
		encoded, err := json.Marshal(value)
		if err != nil {
			return tool.Result{}, err
		}
		text = string(encoded)
	}
	result := tool.Result{Text: tool.Bound(call.Workspace, call.ID, text), Display: t.id}
	for _, p := range callables.Pictures(value) {
		ref, err := t.keep(ctx, p.Data)
		if err != nil {
			return tool.Result{}, err
		}
		result.Pictures = append(result.Pictures, chat.ResultImage(ref, p.MimeType))
	}
	return result, nil
}
