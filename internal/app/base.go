package app

import (
	"context"
	"slices"

	"lilac/internal/agent/mcpclient"
	"lilac/internal/agent/remote"
	"lilac/internal/agent/sandbox"
	"lilac/internal/core/environment"
	"lilac/internal/core/memory"
	"lilac/internal/core/session"
	"lilac/internal/core/task"
	"lilac/internal/core/workflow"
	"lilac/internal/engine/bus"
	"lilac/internal/engine/companion"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/store"
)

// base holds what the parts of the program share. Each part is a small type that
// embeds it.
type base struct {
	Options
	live
	cores
	complaints
	db  *db.DB
	bus bus.Bus
	// companion connects Redis to the bus; nil without Redis.
	companion *companion.Companion
	store     *store.Store
	blobs     *store.Blobs
	// box is the sandbox for commands.
	box *sandbox.Opening
}

// cores holds the services that call each other. A part looks a service up at each
// call, because some services are built after the part.
type cores struct {
	env       *environment.Service
	runner    *session.Service
	workflows *workflow.Service
	tasks     *task.Service
	sources   *sources
	// platforms holds the chat platforms.
	platforms []*platform
	// memory keeps what the agent remembers.
	memory *memory.Store
	// mcp are the MCP servers.
	mcp *mcpclient.Servers
	// remote are the nodes that commands can run on; nil if there is only this one.
	remote *remote.Nodes
	// homes are the home directories of commands.
	homes *homes
	// workspaces are the sessions' own workspaces.
	workspaces sessionDirs
	// callables is the tool server for commands. Its close method must be called.
	callables *toolService
}

// isPlatform reports whether a relay shows the requests of a client.
func (c *cores) isPlatform(client string) bool {
	return slices.ContainsFunc(c.platforms, func(s *platform) bool { return s.adapter.Platform() == client })
}

// openStore opens the database and the bus. published is called with the events that
// each transaction publishes.
func (b *base) openStore(ctx context.Context, published func([]event.Event)) (err error) {
	b.warnOfLostDatabase()
	b.db, err = db.Open(ctx, db.Options{
		Dir: b.Config.DataDir, URL: b.databaseURL(), Lease: b.lease, Logger: b.Logger, OnCommit: b.Seams.onCommit(b.Config.DataDir), OnPublish: published, OnRead: b.Seams.OnRead, OnRoundTrip: b.Seams.OnRoundTrip, OnPlan: b.Seams.OnPlan,
		Migrations: b.migrations(),
	})
	if err != nil {
		return err
	}
	b.store = store.New(b.db)
	if err := b.openBus(); err != nil {
		return err
	}
	b.blobs, err = openBlobs(b.Config)
	return err
}

// databaseURL returns the address of the database on PostgreSQL, or "" for SQLite.
func (b *base) databaseURL() string {
	if url := b.Config.Database.URL; url.Postgres() {
		return url.Reveal()
	}
	return ""
}
