package task

import (
	"context"
	"io"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

// Client is the surface of the sessions and requests of sub-agents.
const Client = "sub"

// Kind is what a task runs.
type Kind string

// The kinds.
const (
	Command Kind = "command"
	Agent   Kind = "agent"
)

// State is where a task stands. All but Running are final.
type State string

// The states.
const (
	Running   State = "running"
	Completed State = "completed"
	Failed    State = "failed"
	Timeout   State = "timeout"
	Stopped   State = "stopped"
)

// Damaged is the state that a list gives a task that cannot be read: its ID is
// known and, in Reason, what is wrong.
const Damaged State = "damaged"

// Valid reports whether s is one of the states.
func (s State) Valid() bool {
	switch s {
	case Running, Completed, Failed, Timeout, Stopped:
		return true
	}
	return false
}

// Task is a piece of background work. Times are Unix milliseconds.
type Task struct {
	ID string `json:"id"`
	// Key names the act that started it.
	Key string `json:"key,omitempty"`
	// SessionID is the session that is told, RequestID the request that started
	// it there.
	SessionID string `json:"sessionId"`
	RequestID string `json:"requestId"`
	Client    string `json:"client"`
	// Depth is the place of its end in a chain of events that set each other off.
	Depth int `json:"depth"`

	Kind        Kind   `json:"kind"`
	Description string `json:"description"`
	// Command and Dir are those of a command.
	Command string `json:"command,omitempty"`
	Dir     string `json:"dir,omitempty"`
	// Prompt is what a sub-agent works on, in a session and a request of its own.
	Prompt       string `json:"prompt,omitempty"`
	ChildSession string `json:"childSession,omitempty"`
	ChildRequest string `json:"childRequest,omitempty"`

	State State `json:"state"`
	// Reason says why it ended otherwise than completed, for people.
	Reason string `json:"reason,omitempty"`
	// ExitCode is that of a command that ended by itself.
	ExitCode *int `json:"exitCode,omitempty"`
	// StoppedBy says who stopped it.
	StoppedBy By `json:"stoppedBy,omitempty"`
	// Result is the end of what a command printed, or a sub-agent's answer.
	Result string `json:"result,omitempty"`
	// Printed is how much a command printed, in bytes.
	Printed int64 `json:"printed,omitempty"`

	CreatedAt int64 `json:"createdAt"`
	// Deadline is when its time is up.
	Deadline int64 `json:"deadline"`
	EndedAt  int64 `json:"endedAt,omitempty"`
}

// By is who stops a task.
type By string

// Those who stop tasks.
const (
	ByAgent  By = "agent"
	ByPerson By = "person"
)

// Order is what is to be started: a command or a prompt.
type Order struct {
	// Key names the act; ordered again, it is the same task. Empty is an act of
	// its own.
	Key                          string
	SessionID, RequestID, Client string
	Description                  string
	Command, Dir                 string
	Prompt                       string
	// Time is how long it may run; zero means the default.
	Time time.Duration
}

// Limits bound what runs.
type Limits struct {
	// PerSession and Total are how many tasks may run at a time.
	PerSession, Total int
	// Time is how long a task may run that does not say, MaxTime how long one
	// may ask for.
	Time, MaxTime time.Duration
	// OutputBytes is how much of what a command prints is kept.
	OutputBytes int64
}

// Work is how far a task has got.
type Work struct {
	// Amount only grows: what a command printed, in bytes, or how much was
	// recorded of a sub-agent's request.
	Amount int64
	// Steps are those of a sub-agent.
	Steps int
	// Line says what it did last.
	Line string
}

// Store is what the service needs of the tables. An unknown id is a
// fault.NotFound.
type Store interface {
	// AddTask inserts a task and writes into the story of its request that it
	// was started.
	AddTask(tx *db.Tx, t Task) error
	SaveTask(tx *db.Tx, t Task) error
	Task(q db.Queryer, id string) (Task, error)
	// TaskByKey and TaskByChild find the task of an act, and that of a child
	// session.
	TaskByKey(q db.Queryer, key string) (Task, error)
	TaskByChild(q db.Queryer, sessionID string) (Task, error)
	// RunningTasks lists what runs, the oldest first; an empty session means all.
	RunningTasks(q db.Queryer, sessionID string) ([]Task, error)
	// Tasks lists the newest first, older than the one named by before; an
	// empty session means all. One that cannot be read is Damaged.
	Tasks(q db.Queryer, sessionID string, limit int, before string) ([]Task, error)
	// TrimTasks removes some of the tasks that ended before a time.
	TrimTasks(tx *db.Tx, before time.Time) (more bool, err error)
	// LastAnswer is what a request said last, AnswersIn all that was said to it.
	LastAnswer(q db.Queryer, sessionID, requestID string) (string, error)
	AnswersIn(q db.Queryer, sessionID string) ([]string, error)
	// WorkOf is how far a request has got.
	WorkOf(q db.Queryer, requestID string) (Work, error)
	// DepthOf counts the events that led to a request, each set off by the one
	// before; 0 if none did.
	DepthOf(q db.Queryer, requestID string) (int, error)
}

// Commands runs commands.
type Commands interface {
	// Check says what is wrong with a command before it is started.
	Check(command, dir string) error
	// Run runs the task's command to its end and hands what it prints to out.
	// The error is the end of ctx (its cause), or why it could not be run; no
	// process of it is left.
	Run(ctx context.Context, t Task, out io.Writer) (Exit, error)
}

// Exit is how a command ended.
type Exit struct {
	Code int
	// Exceeded says for people which limit it was killed for, or "".
	Exceeded string
}

// Publish puts an environment event on the bus in the caller's transaction.
type Publish func(tx *db.Tx, e event.EnvEvent) error
