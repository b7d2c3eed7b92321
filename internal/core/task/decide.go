package task

import (
	"fmt"
	"time"

	"lilac/internal/agent/tool"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// Input is a fact that concerns a task.
type Input interface{ input() }

// Start asks for a new task with an unused id.
type Start struct {
	ID     string
	Spec   Spec
	Facts  Facts
	Limits Limits
	// MaxDepth is how many events may cause each other.
	MaxDepth int
}

// Output is the output of a command that ended.
type Output struct {
	Bytes int64
	Tail  string
}

// Exited reports that the command ended by itself, or was killed for a limit.
type Exited struct {
	Exit
	Output
}

// NotRun reports that the command could not be run. Reason is for people.
type NotRun struct {
	Reason string
	Output
}

// Expired reports that the time limit is over.
type Expired struct{ Output }

// Slept reports that the machine was suspended, or that its clock was set ahead, while the
// task ran: time in which nothing works does not count.
type Slept struct{ For time.Duration }

// Stop reports that a person or the agent stopped the task.
type Stop struct {
	By Actor
	Output
}

// Lost reports that the process ended while the task ran.
type Lost struct{ Output }

// Answered reports that the sub-agent's request ended.
type Answered struct {
	State event.RequestState
	// Text is the last answer, and Detail the reason of a failure.
	Text, Detail string
	// Unreadable is the reason why the last answer cannot be read.
	Unreadable string
}

func (Start) input()    {}
func (Exited) input()   {}
func (NotRun) input()   {}
func (Expired) input()  {}
func (Slept) input()    {}
func (Stop) input()     {}
func (Lost) input()     {}
func (Answered) input() {}

// Effect is one thing to do in the transaction of a decision.
type Effect interface{ effect() }

// Refuse returns the reason why a task was not started to the caller.
type Refuse struct{ Err error }

// Prompt starts the request of the sub-agent.
type Prompt struct{}

// PublishStart publishes the event of the task's start.
type PublishStart struct{}

// Follow tracks the task after the commit, and runs its command.
type Follow struct{ Limits Limits }

// PublishEnd publishes the event of the task's end.
type PublishEnd struct{}

// CancelRequest cancels the request of the sub-agent.
type CancelRequest struct{}

func (Refuse) effect()        {}
func (Prompt) effect()        {}
func (PublishStart) effect()  {}
func (Follow) effect()        {}
func (PublishEnd) effect()    {}
func (CancelRequest) effect() {}

const (
	// maxDescription bounds a description, in characters.
	maxDescription = 120
	reasonLost     = "Lilac was stopped or restarted while the command ran, which ended the command."
	reasonStopped  = "It was stopped."
)

// Decide decides what an input means for a task; see [State] for the transitions.
// It is pure. A task that was not started is the zero Task.
func Decide(t Task, in Input, now time.Time) (Task, []Effect) {
	if in, is := in.(Start); is && t.State == "" {
		return start(in, now)
	}
	if t.State != Running {
		return t, nil
	}
	effects := []Effect{PublishEnd{}}
	switch in := in.(type) {
	case Start:
		return t, nil
	case Slept:
		t.Deadline += in.For.Milliseconds()
		return t, nil
	case Exited:
		t = t.withOutput(in.Output)
		t.ExitCode = &in.Code
		t.State = Completed
		switch {
		case in.Exceeded != "":
			t.State, t.Reason, t.ExitCode = Failed, "The command was killed: "+in.Exceeded+".", nil
		case in.Code != 0:
			t.State, t.Reason = Failed, fmt.Sprintf("The command ended with exit code %d.", in.Code)
		}
	case NotRun:
		t = t.withOutput(in.Output)
		t.State, t.Reason = Failed, in.Reason
	case Expired:
		t = t.withOutput(in.Output)
		t.State, t.Reason = Timeout, fmt.Sprintf("It did not end within %s and was stopped.", t.timeLimit())
	case Stop:
		t = t.withOutput(in.Output)
		t.State, t.Reason, t.StoppedBy = Stopped, reasonStopped, in.By
	case Lost:
		if t.Kind != Command {
			return t, nil // its request continues
		}
		t = t.withOutput(in.Output)
		t.State, t.Reason = Failed, reasonLost
	case Answered:
		t.Result = in.Text
		switch {
		case in.State == event.StateDone && in.Unreadable != "":
			t.State, t.Reason = Failed, "The sub-agent's answer cannot be read: "+in.Unreadable
		case in.State == event.StateDone:
			t.State = Completed
		case in.State == event.StateCancelled:
			// A person cancelled the request instead of the task.
			t.State, t.Reason, t.StoppedBy = Stopped, reasonStopped, ByPerson
		default:
			t.State, t.Reason = Failed, "The sub-agent's request failed: "+in.Detail
		}
	}
	if _, answered := in.(Answered); t.Kind == Agent && !answered {
		effects = append(effects, CancelRequest{})
	}
	t.EndedAt = now.UnixMilli()
	return t, effects
}

func start(in Start, now time.Time) (Task, []Effect) {
	if err := Admit(in.Spec, in.Facts, in.Limits, in.MaxDepth); err != nil {
		return Task{}, []Effect{Refuse{err}}
	}
	t := newTask(in, now)
	if t.Kind == Agent {
		return t, []Effect{Prompt{}, PublishStart{}, Follow{in.Limits}}
	}
	return t, []Effect{PublishStart{}, Follow{in.Limits}}
}

func newTask(in Start, now time.Time) Task {
	o := in.Spec
	t := Task{
		ID: in.ID, Key: o.Key,
		SessionID: o.SessionID, RequestID: o.RequestID, Client: o.Client, Depth: in.Facts.Depth + 1,
		Kind: Command, Command: o.Command, Dir: o.Dir, State: Running, CreatedAt: now.UnixMilli(),
		Description: o.Description, Grant: o.Grant,
	}
	if o.Prompt != "" {
		t.Kind, t.Prompt, t.Agent = Agent, o.Prompt, o.Agent
		t.ChildSession = SessionPrefix + t.ID
		t.ChildRequest = event.RequestID{Surface: Client, Session: o.SessionID, Specific: t.ID}.String()
	}
	if t.Description == "" {
		t.Description = o.Command + o.Prompt
	}
	t.Description = tool.Line(t.Description, maxDescription)
	allowed := o.Time
	if allowed <= 0 {
		allowed = in.Limits.Time
	}
	t.Deadline = now.Add(allowed).UnixMilli()
	return t
}

func (t Task) withOutput(p Output) Task {
	if t.Kind == Command {
		t.Result, t.Printed = p.Tail, p.Bytes
	}
	return t
}

// timeLimit returns how long the task may run.
func (t Task) timeLimit() time.Duration {
	return (time.Duration(t.Deadline-t.CreatedAt) * time.Millisecond).Round(time.Second)
}

// Facts are what the decision about a start needs to know.
type Facts struct {
	// InSession and InAll count the running tasks.
	InSession, InAll int
	// Sub reports that a sub-agent wants to start the task.
	Sub bool
	// Depth counts the events that led to the request.
	Depth int
}

// Admit returns the reason why a task must not be started now, or nil.
func Admit(o Spec, s Facts, l Limits, maxDepth int) error {
	switch {
	case (o.Command == "") == (o.Prompt == ""):
		return fault.InvalidField("command", "Set either a command or a prompt to start.")
	case o.Agent != "" && o.Prompt == "":
		return fault.InvalidField("agent", "An agent needs a prompt that says what it is to do.")
	case o.Time < 0 || o.Time > l.MaxTime:
		return fault.InvalidField("timeout", "A task may run for at most %s.", l.MaxTime)
	case s.Sub:
		return fault.New(fault.Denied, "A sub-agent cannot start background tasks. Do the work here.")
	case s.Depth >= maxDepth:
		return fault.New(fault.LimitReached, "This request was caused by a chain of %d events that caused each other, so the end of another task could not be reported. Ask a person whether to continue.", maxDepth)
	case s.InSession >= l.PerSession:
		return fault.New(fault.LimitReached, "%d background tasks run in this conversation, the maximum. Wait for one to end, or stop one.", s.InSession)
	case s.InAll >= l.Total:
		return fault.New(fault.LimitReached, "%d background tasks run in all conversations together, the maximum. Try again when one has ended.", s.InAll)
	}
	return nil
}
