package task

import "time"

// Client is the surface of the sessions and requests of sub-agents.
const Client = "sub"

// Kind is what a task runs.
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
//	-        Start     a command                           running    PublishStart, Launch
//	-        Start     a sub-agent                         running    Prompt, PublishStart, Launch
//	running  Exited    exit code 0                         completed  PublishEnd
//	running  Exited    another exit code, or over a limit  failed     PublishEnd
//	running  Broken    -                                   failed     PublishEnd
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
	StoppedBy Actor `json:"stoppedBy,omitempty"`
	// Result is the end of what a command printed, or a sub-agent's answer.
	Result string `json:"result,omitempty"`
	// Output is how much a command printed, in bytes.
	Printed int64 `json:"printed,omitempty"`

	CreatedAt int64 `json:"createdAt"`
	// Deadline is when its time is up.
	Deadline int64 `json:"deadline"`
	EndedAt  int64 `json:"endedAt,omitempty"`
}

// Actor is who stops a task.
type Actor string

// Those who stop tasks.
const (
	ByAgent  Actor = "agent"
	ByPerson Actor = "person"
)

// Spec is what is to be started: a command or a prompt.
type Spec struct {
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

// Progress is how far a task has got.
type Progress struct {
	// Amount only grows: what a command printed, in bytes, or how much was
	// recorded of a sub-agent's request.
	Amount int64
	// Steps are those of a sub-agent.
	Steps int
	// Line says what it did last.
	LastLine string
}
