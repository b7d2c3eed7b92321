package task

import (
	"context"
	"io"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

// Store keeps the tasks. Package store implements it. An unknown id is a
// fault.NotFound.
type Store interface {
	// AddTask inserts a task, and adds its start to the journal of the request
	// that started it.
	AddTask(tx *db.Tx, t Task) error
	SaveTask(tx *db.Tx, t Task) error
	Task(q db.Queryer, id string) (Task, error)
	// TaskByKey finds the task that a call started, TaskByChild the task of a
	// sub-agent's session.
	TaskByKey(q db.Queryer, key string) (Task, error)
	TaskByChild(q db.Queryer, sessionID string) (Task, error)
	// RunningTasks lists the running tasks of a session, the oldest first; an
	// empty session means all.
	RunningTasks(q db.Queryer, sessionID string) ([]Task, error)
	// Tasks lists the newest first, older than the one with the id before; an
	// empty session means all. A task that cannot be read is in the list as
	// Damaged.
	Tasks(q db.Queryer, sessionID string, limit int, before string) ([]Task, error)
	// TrimTasks removes some of the tasks that ended before a time.
	TrimTasks(tx *db.Tx, before time.Time) (more bool, err error)
}

// Requests reads the requests of sub-agents and of the sessions that start tasks.
// Package store implements it.
type Requests interface {
	// LastAnswer returns the last text of a request, AnswersIn all texts of the
	// agent in a session.
	LastAnswer(q db.Queryer, sessionID, requestID string) (string, error)
	AnswersIn(q db.Queryer, sessionID string) ([]string, error)
	// ProgressOf returns the progress of a request.
	ProgressOf(q db.Queryer, requestID string) (Progress, error)
	// DepthOf counts the events that led to a request, each caused by the one
	// before; 0 if none did.
	DepthOf(q db.Queryer, requestID string) (int, error)
}

// Commands runs commands.
type Commands interface {
	// Check returns the reason why the command of a task cannot be started, or nil.
	Check(ctx context.Context, o Spec) error
	// Run runs the task's command to its end and writes its output to out. The error
	// is the cause of ctx, or the reason why the command could not be run. No process of
	// the command is left when Run returns.
	Run(ctx context.Context, t Task, out io.Writer) (Exit, error)
}

// Exit describes how a command ended.
type Exit struct {
	Code int
	// Exceeded tells people for which limit the command was killed, or is "".
	Exceeded string
}

// Publish puts an environment event on the bus in the caller's transaction.
type Publish func(tx *db.Tx, e event.EnvEvent) error
