// Package killpoints builds a variant of the program for tests that kill it or disable one of its
// safeguards. The command killpoints/lilac is the program with these environment variables:
//
//   - LILAC_KILL_AT names the point at which the process kills itself, like kill -9. See kill.go
//     and kill_platform.go for the points.
//   - LILAC_WITHOUT lists the safeguards to disable. See weaken.go.
//   - LILAC_LEASE is the duration of the lease of a database on PostgreSQL.
//
// The release does not contain this package.
package killpoints

import (
	"os"
	"time"

	"lilac/internal/app"
)

// Seams returns the seams that obey the variables.
func Seams() app.Seams {
	lease, _ := time.ParseDuration(os.Getenv("LILAC_LEASE")) // 0 is the default
	return app.Seams{
		Lease:    lease,
		OnCommit: onCommit, HTTP: onAnswer, Calls: onCalls, Runner: onRunnerTables, Inbox: onInbox, Tasks: onTasks, TaskEnds: onTold,
		Recovery: onRecovery, Discord: onDiscord, Router: onRouter, Relay: onRelay, Outbox: onOutbox, Workflows: onWorkflows,
		Adapter: weakenAdapter, Tools: weakenTools,
	}
}
