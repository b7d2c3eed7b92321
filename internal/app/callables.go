package app

import (
	"context"
	"fmt"
	"os"

	"lilac/internal/builtin"
	"lilac/internal/db"
	"lilac/internal/sandbox"
	"lilac/internal/session"
	"lilac/internal/tool"
	"lilac/internal/toolserver"
	"lilac/internal/toolwire"
)

// Where a command in a sandbox finds the server and the command that calls it,
// whose directory is in its PATH.
const (
	toolSocket  = "/run/lilac/tools.sock"
	toolProgram = "/run/lilac/bin/tools"
)

// entryCall is the kind of a journal entry that says what a command called.
const entryCall = "call"

// callables is the tool server with where it listens.
type callables struct {
	program  *program
	server   *toolserver.Server
	endpoint *toolserver.Endpoint
	// confined says that commands see what is bound, and not the machine's own
	// files.
	confined bool
	// executable is this program.
	executable string
}

var _ builtin.Access = (*callables)(nil)

func (p *program) openCallables(ctx context.Context, box sandbox.Sandbox) (*callables, error) {
	c := &callables{program: p, confined: box.Name() != sandbox.Unconfined().Name()}
	var err error
	if c.executable, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("find our own program: %w", err)
	}
	c.server, err = toolserver.New(toolserver.Options{
		Callables: surfaceCallables(webSurface{p.db, p.store}),
		Alive:     func(id string) bool { return p.runner.Works(id) },
		Record:    c.record, Logger: p.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("build the tool server: %w", err)
	}
	c.endpoint, err = toolserver.Listen(ctx, p.sockets.Path)
	return c, err
}

// run serves until ctx ends.
func (c *callables) run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- c.endpoint.Serve(c.server.Handler(), c.program.Logger) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	err := c.endpoint.Close()
	<-served
	return err
}

// Open gives a command a token that lives as long as the command, and the way
// to the server.
func (c *callables) Open(call tool.Call) (builtin.Pass, error) {
	token, revoke, err := c.server.Mint(toolserver.Grant{
		RequestID: call.RequestID, SessionID: call.SessionID, Client: call.Client, Callables: []string{"*"},
	})
	if err != nil {
		return builtin.Pass{}, err
	}
	pass := builtin.Pass{Close: revoke, Env: []string{toolwire.EnvToken + "=" + token}}
	if !c.confined {
		pass.Env = append(pass.Env, toolwire.EnvSocket+"="+c.endpoint.Socket)
		return pass, nil
	}
	pass.Env = append(pass.Env, toolwire.EnvSocket+"="+toolSocket)
	pass.Binds = []sandbox.Bind{{Source: c.endpoint.Socket, Target: toolSocket}}
	// A program that was replaced or hidden is no reason to run no commands.
	if _, err := os.Stat(c.executable); err == nil && !within(c.executable, c.program.Config.DataDir) {
		pass.Binds = append(pass.Binds, sandbox.Bind{Source: c.executable, Target: toolProgram})
	}
	return pass, nil
}

// callEntry is what the story of a request holds of a call.
type callEntry struct {
	Callable string `json:"callable"`
	Outcome  string `json:"outcome"`
	Detail   string `json:"detail,omitempty"`
	TookMS   int64  `json:"tookMs"`
}

// record writes a call into the story of its request.
func (c *callables) record(ctx context.Context, r toolserver.Record) error {
	return c.program.db.Update(ctx, func(tx *db.Tx) error {
		return c.program.store.Record(tx, r.Caller.RequestID, session.Entry{
			At: tx.Now().UnixMilli(), Kind: entryCall,
			Data: callEntry{Callable: r.Callable, Outcome: r.Outcome, Detail: r.Message, TookMS: r.Took.Milliseconds()},
		})
	})
}
