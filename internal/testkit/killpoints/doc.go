// Package killpoints builds a variant of the program for tests that kill it or disable one of its
// safeguards. The command killpoints/lilac is the program with these environment variables:
//
//   - LILAC_KILL_AT names the point at which the process kills itself, like kill -9. See kill.go
//     and kill_platform.go for the points.
//   - LILAC_WITHOUT lists the safeguards to disable. See weaken.go.
//   - LILAC_DELAYS=1 makes the program pause at random. See delay.go.
//   - LILAC_NEXT_VERSION=1 makes the program a later version, which changes a table.
//   - LILAC_LEASE is the duration of the lease of a database on PostgreSQL.
//
// It ends with code 3 at a statement that reads a whole table that grows; see package scans.
//
// The release does not contain this package.
package killpoints

import (
	"fmt"
	"os"
	"slices"
	"time"

	"lilac/internal/app"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/store"
	"lilac/internal/testkit/scans"
)

// endWith ends the process, so that no test overlooks the problem.
func endWith(problem string) {
	fmt.Fprintln(os.Stderr, problem)
	os.Exit(3)
}

// Seams returns the seams that obey the variables.
func Seams() app.Seams {
	lease, _ := time.ParseDuration(os.Getenv("LILAC_LEASE")) // 0 is the default
	var next []db.Migration
	if os.Getenv("LILAC_NEXT_VERSION") != "" {
		next = []db.Migration{{Name: "store.next-version", SQL: "ALTER TABLE requests ADD COLUMN next_version INTEGER NOT NULL DEFAULT 0"}}
	}
	return app.Seams{
		Lease: lease, NextVersion: next, OnPlan: scans.Find(slices.Concat(sqlitebus.Migrations, store.Migrations), endWith),
		OnCommit: onCommit, OnRead: onRead(), HTTP: onAnswer, Calls: onCalls, Runner: onRunnerTables, Inbox: onInbox, Tasks: onTasks, TaskEnds: onTold,
		Recovery: onRecovery, Discord: onDiscord, Router: onRouter, Relay: onRelay, Outbox: onOutbox, Workflows: onWorkflows,
		Adapter: weakenAdapter, Tools: weakenTools,
	}
}
