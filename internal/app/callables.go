package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"lilac/internal/agent/builtin"
	"lilac/internal/agent/egress"
	"lilac/internal/agent/tool"
	"lilac/internal/agent/web"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/serve/callables"
	"lilac/internal/serve/mcpserver"
	"lilac/internal/serve/toolserver"
	"lilac/internal/store"
)

// entryCall is the kind of journal entry for a call by a command.
const entryCall = "call"

// toolService is the tool server for commands, with its listeners.
type toolService struct {
	*base
	toolSockets
	server *toolserver.Server
	// operators holds the tokens with which people call the callables.
	operators *toolserver.Operators
	// foreign makes callables of the tools of MCP servers.
	foreign *callables.MCP
}

var _ builtin.Access = (*toolService)(nil)

// open listens for calls. After an error, close must be called as well.
func (c *toolService) open(ctx context.Context, files *builtin.Attachments) (err error) {
	c.operators = &toolserver.Operators{DB: c.db, Table: store.OperatorTokens{}}
	if err = c.toolSockets.open(c.Config); err != nil {
		return err
	}
	c.memory = MemoryOf(c.Config)
	c.mcp = newMCP(c.base, c.dir.Path)
	c.foreign = &callables.MCP{Servers: c.mcp, Keep: files.Keep, Forms: forms{c.base}}
	c.server, err = toolserver.New(toolserver.Options{
		Callables: c.families(files), Source: c.foreign,
		Alive:     c.worksFor,
		Operators: c.operators, Record: c.record, Permit: c.permit, Logger: c.Logger,
	})
	if err != nil {
		return fmt.Errorf("build the tool server: %w", err)
	}
	return c.listen(ctx, c.Config, c.Config.Tools.Addr)
}

// callableSurfaces returns the surfaces that callables can access, those with aliases first.
func (c *toolService) callableSurfaces() (out callables.Surfaces) {
	web := callables.Web{DB: c.db, Table: store.Conversations{}}
	for _, s := range c.platforms {
		out = append(out, names{c.base}.callableSurface(s))
		web.Platforms = append(web.Platforms, s.adapter.Platform())
	}
	return append(out, web)
}

// families returns all callables.
func (c *toolService) families(files *builtin.Attachments) []toolserver.Callable {
	surfaces := c.callableSurfaces()
	return slices.Concat(callables.Surface(surfaces), callables.Events(surfaces, publisher{c.base}), callables.Workflow(surfaces, c.workflows, c.asker), callables.Background(backgroundTasks{c.base}), callables.Attachments(files), callables.Skills(c.readSkill), remembered{c.base}.callables().Callables(), internet(c.Config.Web))
}

// internet returns the callables web.* that the operator has configured.
func internet(s web.Settings) []toolserver.Callable {
	var reader *web.Reader
	var searcher *web.Searcher
	if len(s.Hosts) > 0 {
		reader = web.NewReader(s.Hosts, egress.FetchOptions{})
	}
	if s.Search.Provider != "" {
		searcher = &web.Searcher{Settings: s.Search}
	}
	return callables.Internet(reader, searcher)
}

// publisher publishes the events that commands emit.
type publisher struct{ *base }

func (e publisher) Publish(ctx context.Context, ev event.EnvEvent) (bool, error) {
	err := e.db.Read(ctx, func(q db.Queryer) (err error) {
		ev.Metadata.TriggerAgentID, ev.Metadata.TriggerAgentName, err = e.agentIn(q, ev.Metadata.TriggerSessionID)
		return err
	})
	if err != nil {
		return false, err
	}
	return e.env.Publish(ctx, ev)
}

// overMCP returns the handler of /mcp, or nil if it is off.
func (c *toolService) overMCP() http.Handler {
	if !c.Config.MCP.Serve {
		return nil
	}
	return mcpserver.New(mcpserver.Options{Tools: c.server, Version: c.Version, Logger: c.Logger})
}

// run serves until ctx ends.
func (c *toolService) run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- c.endpoint.Serve(c.server.Handler(), c.Logger) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	err := c.endpoint.Close()
	<-served
	return err
}

// worksFor reports whether the request or task of a token is still running.
func (c *toolService) worksFor(g toolserver.Grant) bool {
	if g.TaskID != "" {
		return c.tasks.IsRunning(g.TaskID)
	}
	return c.runner.IsRunning(g.RequestID)
}

// grantOf returns the permissions for the command of a tool call.
func grantOf(call tool.Call) toolserver.Grant {
	return toolserver.Grant{RequestID: call.RequestID, SessionID: call.SessionID, Client: call.Client, Callables: []string{"*"}, Tools: call.Grant, Workspace: call.Workspace, Progress: call.Progress}
}

// Open returns a token that is valid while the command runs, and the address of the server.
func (c *toolService) Open(call tool.Call) (builtin.Pass, error) { return c.mint(grantOf(call)) }

func (c *toolService) mint(g toolserver.Grant) (builtin.Pass, error) {
	token, revoke, err := c.server.Mint(g)
	if err != nil {
		return builtin.Pass{}, err
	}
	return c.pass(token, revoke), nil
}

// permit applies the policy to a call by a command, or with an operator's token.
func (c *toolService) permit(ctx context.Context, caller toolserver.Caller, callable string, input json.RawMessage) error {
	if caller.Operator != "" {
		return c.runner.Approvals().PermitOperator(ctx, callable, input)
	}
	return c.runner.Approvals().Permit(ctx, caller.RequestID, session.PolicyCall{
		SessionID: caller.SessionID, Client: caller.Client, Tool: callable, Input: input, Grant: caller.Tools,
	})
}

// callEntry is the journal entry of a call.
type callEntry struct {
	Callable string `json:"callable"`
	// SessionID is the session that the call refers to; "" means the request's own.
	SessionID string `json:"sessionId,omitempty"`
	Outcome   string `json:"outcome"`
	Detail    string `json:"detail,omitempty"`
	TookMS    int64  `json:"tookMs"`
}

// record writes a call to the journal of its request.
func (c *toolService) record(ctx context.Context, r toolserver.Record) error {
	return c.db.Update(ctx, func(tx *db.Tx) error {
		return c.store.Journal.Record(tx, r.Caller.RequestID, session.Entry{
			At: tx.Now().UnixMilli(), Kind: entryCall,
			Data: callEntry{Callable: r.Callable, SessionID: r.SessionID, Outcome: r.Outcome, Detail: r.Message, TookMS: r.Took.Milliseconds()},
		})
	})
}
