// Package killpoints builds the program for tests that kill it or turn one of its
// protections off. Its command, killpoints/lilac, is the program with these
// environment variables:
//
//   - LILAC_KILL_AT names the act at which the process ends itself, as kill -9
//     would; see kill.go and kill_platform.go for the acts.
//   - LILAC_WITHOUT lists protections that are off; see weaken.go.
//
// The release does not contain this package.
package killpoints

import "lilac/internal/app"

// Seams returns the seams that obey the two variables.
func Seams() app.Seams {
	return app.Seams{
		OnCommit: onCommit, HTTP: onAnswer, Calls: onCalls, Runner: onRunnerTables, Inbox: onInbox, Tasks: onTasks, TaskEnds: onTold,
		Recovery: onRecovery, Discord: onDiscord, Router: onRouter, Relay: onRelay, Outbox: onOutbox, Workflows: onWorkflows,
		Adapter: weakenAdapter, Tools: weakenTools,
	}
}
