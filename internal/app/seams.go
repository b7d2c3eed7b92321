package app

import (
	"context"
	"net/http"
	"time"

	"lilac/internal/agent/tool"
	"lilac/internal/core/environment"
	"lilac/internal/core/outbox"
	"lilac/internal/core/relay"
	"lilac/internal/core/router"
	"lilac/internal/core/session"
	"lilac/internal/core/surface"
	"lilac/internal/core/task"
	"lilac/internal/core/workflow"
	"lilac/internal/engine/db"
	"lilac/internal/surfaces/discord"
)

// Seams wrap parts of the program, so that tests of the real program can end the
// process at a chosen act or turn a protection off. They are empty in a release.
type Seams struct {
	// OnCommit runs around every commit, with true after it; see [db.Options].
	OnCommit func(dataDir string) func(done bool)
	// OnRead runs before every read; see [db.Options].
	OnRead func()
	// OnRoundTrip is called for every round trip to PostgreSQL; see [db.Options].
	OnRoundTrip func(statements []string)
	// OnPlan is called with the plan of each statement on SQLite; see [db.Options].
	OnPlan func(statement string, steps []string)
	// Lease replaces the duration of the lease of a database on PostgreSQL.
	Lease time.Duration
	// NextVersion are migrations that only a later version knows.
	NextVersion []db.Migration
	// TaskEnds replaces how the end of a background task is published.
	TaskEnds func(d *db.DB, publish task.Publish) task.Publish

	HTTP      Wrap[http.Handler]      // the API and the page
	Calls     Wrap[http.RoundTripper] // calls to platforms
	Runner    Wrap[session.Tables]
	Inbox     Wrap[environment.Inbox] // of event sources
	Tasks     Wrap[task.Store]
	Recovery  Wrap[func(context.Context) error] // of background tasks
	Discord   Wrap[discord.Tables]
	Router    Wrap[router.Table]
	Relay     Wrap[relay.Table]
	Outbox    Wrap[outbox.Table]
	Workflows Wrap[workflow.Table]
	Adapter   Wrap[surface.Adapter]
	Tools     Wrap[[]tool.Tool]
}

// Wrap returns a replacement for a part. A nil Wrap keeps the part.
type Wrap[T any] func(T) T

func (w Wrap[T]) around(part T) T {
	if w == nil {
		return part
	}
	return w(part)
}

func (s Seams) taskEnds(d *db.DB, publish task.Publish) task.Publish {
	if s.TaskEnds == nil {
		return publish
	}
	return s.TaskEnds(d, publish)
}

// onCommit returns the hook for commits, or nil.
func (s Seams) onCommit(dataDir string) func(done bool) {
	if s.OnCommit == nil {
		return nil
	}
	return s.OnCommit(dataDir)
}
