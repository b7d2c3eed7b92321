package task

import (
	"time"

	"lilac/internal/foundation/grant"
)

// Client is the surface of the sessions and requests of sub-agents.
const Client = "sub"

// Kind is the kind of a task.
type Kind string

// The kinds.
const (
	Command Kind = "command"
	Agent   Kind = "agent"
)

// State is the state of a task. All but Running are final. These are the legal
// transitions; an input that is not listed changes nothing:
//
//	state    input     condition                           next       effects
//	-        Start     refused by a limit                  -          Refuse
//	-        Start     a command                           running    PublishStart, Follow
//	-        Start     a sub-agent                         running    Prompt, PublishStart, Follow
//	running  Exited    exit code 0                         completed  PublishEnd
//	running  Exited    another exit code, or over a limit  failed     PublishEnd
//	running  NotRun    -                                   failed     PublishEnd
//	running  Slept     -                                   running    -
//	running  Expired   -                                   timeout    PublishEnd, CancelRequest
//	running  Stop      -                                   stopped    PublishEnd, CancelRequest
//	running  Lost      a command                           failed     PublishEnd
//	running  Answered  the request is done                 completed  PublishEnd
//	running  Answered  cancelled                           stopped    PublishEnd
//	running  Answered  failed, or cannot be read           failed     PublishEnd
//
// CancelRequest is only for sub-agents.
type State string

// The states.
const (
	Running   State = "running"
	Completed State = "completed"
	Failed    State = "failed"
	Timeout   State = "timeout"
	Stopped   State = "stopped"
)

// Damaged is the state, in a list, of a task whose row cannot be read. Only its ID and,
// in Reason, the reason are known.
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
	// Key identifies the tool call that started it.
	Key string `json:"key,omitempty"`
	// SessionID is the session that receives the end, and RequestID the request that
	// started the task there.
	SessionID string `json:"sessionId"`
	RequestID string `json:"requestId"`
	Client    string `json:"client"`
	// Grant is what the request that started it may use, and so the task.
	Grant grant.Grant `json:"grant,omitempty"`
	// Depth is the position of its end in a chain of events that cause each other.
	Depth int `json:"depth"`

	Kind        Kind   `json:"kind"`
	Description string `json:"description"`
	// Command and Dir are for commands.
	Command string `json:"command,omitempty"`
	Dir     string `json:"dir,omitempty"`
	// Agent is the configured agent that the sub-agent is, or "".
	Agent string `json:"agent,omitempty"`
	// Prompt is the task of a sub-agent, which has a session and a request of its own.
	Prompt       string `json:"prompt,omitempty"`
	ChildSession string `json:"childSession,omitempty"`
	ChildRequest string `json:"childRequest,omitempty"`

	State State `json:"state"`
	// Reason tells people why the task did not complete.
	Reason string `json:"reason,omitempty"`
	// ExitCode is set for a command that ended by itself.
	ExitCode *int `json:"exitCode,omitempty"`
	// StoppedBy is set if the task was stopped.
	StoppedBy Actor `json:"stoppedBy,omitempty"`
	// Result is the end of a command's output, or a sub-agent's answer.
	Result string `json:"result,omitempty"`
	// Printed is the size of a command's output, in bytes.
	Printed int64 `json:"printed,omitempty"`

	CreatedAt int64 `json:"createdAt"`
	// Deadline is the end of its time limit.
	Deadline int64 `json:"deadline"`
	EndedAt  int64 `json:"endedAt,omitempty"`
}

// Actor is the kind of user that stops a task.
type Actor string

// The actors.
const (
	ByAgent  Actor = "agent"
	ByPerson Actor = "person"
)

// Spec describes a task to start: a command or a prompt.
type Spec struct {
	// Key identifies the tool call: starting again with it returns the same task. An
	// empty key is always new.
	Key                          string
	SessionID, RequestID, Client string
	Description                  string
	Command, Dir                 string
	Prompt                       string
	// Agent is the configured agent that does what Prompt says; "" means one like the agent that
	// starts the task.
	Agent string
	// Time is the time limit; zero means the default.
	Time time.Duration
	// Grant is what the request may use.
	Grant grant.Grant
}

// Limits bound the running tasks.
type Limits struct {
	// PerSession and Total bound the number of running tasks.
	PerSession, Total int
	// Time is the default time limit, and MaxTime the longest one.
	Time, MaxTime time.Duration
	// OutputBytes bounds the kept output of a command.
	OutputBytes int64
}

// Progress is the progress of a task.
type Progress struct {
	// Amount only grows: the bytes that a command printed, or the number of journal
	// entries of a sub-agent's request.
	Amount int64
	// Steps counts the steps of a sub-agent.
	Steps int
	// LastLine is the last line of output, or the last activity.
	LastLine string
}
