package workflow

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/lazyregexp"
)

// Limits. Larger inputs are refused with an error that names the limit.
const (
	// MaxTasks bounds the tasks of a workflow. MaxWaitingSession and MaxWaiting bound
	// the waiting workflows of one session and of all.
	MaxTasks          = 32
	MaxWaitingSession = 200
	MaxWaiting        = 10_000
	maxSummary        = 2000
	maxDescription    = 1000
	maxText           = 2000
	maxTypes          = 16
	maxCondition      = 2000
	maxInput          = 16 << 10
	// maxAhead bounds times and timeouts. DefaultTimeout applies to replies and events
	// without a timeout.
	maxAhead       = 366 * 24 * time.Hour
	DefaultTimeout = 30 * 24 * time.Hour
	// loneLimit bounds how long a task waits for its workflow, and a workflow for its
	// first task.
	loneLimit = 10 * time.Minute
)

// The kinds of tasks that need no platform. The others are "<platform>.wait_for_reply"
// and "<platform>.send_and_wait".
const (
	KindMoment   = "wait_until"
	KindDelay    = "delay"
	KindEvent    = "wait_for_event"
	KindSchedule = "schedule"
)

// Definition is the JSON definition of a workflow.
type Definition struct {
	Summary    string     `json:"summary"`
	Completion Completion `json:"completion,omitempty"`
	// Resume is the conversation in which the agent continues; nil means the one that
	// created the workflow.
	Resume *Target `json:"resumeTarget,omitempty"`
	Tasks  []Spec  `json:"tasks,omitempty"`
}

// Spec is the JSON definition of a task.
type Spec struct {
	TaskID      string          `json:"taskId"`
	Kind        string          `json:"kind"`
	Description string          `json:"description"`
	Input       json.RawMessage `json:"input,omitempty"`
}

// TaskInput is the JSON description of what a task waits for. The kind of the task
// determines which fields are needed.
type TaskInput struct {
	// SessionID is the conversation: of the reply, or of the event.
	SessionID string `json:"sessionId,omitempty"`
	MessageID string `json:"messageId,omitempty"`
	UserID    string `json:"userId,omitempty"`
	Text      string `json:"text,omitempty"`
	// ReplyTo is a message that the one to be sent replies to.
	ReplyTo string `json:"replyToMessageId,omitempty"`
	// TimeoutMS, DelayMS are milliseconds, At and Until Unix milliseconds.
	TimeoutMS int64    `json:"timeoutMs,omitempty"`
	DelayMS   int64    `json:"delayMs,omitempty"`
	At        int64    `json:"at,omitempty"`
	Types     []string `json:"types,omitempty"`
	If        string   `json:"if,omitempty"`
	Cron      string   `json:"cron,omitempty"`
	Timezone  string   `json:"timezone,omitempty"`
	// Missed is "once" (the default) or "skip".
	Missed string `json:"missed,omitempty"`
	Until  int64  `json:"until,omitempty"`
}

var validID = lazyregexp.New(`^[A-Za-z0-9_-]{1,64}$`)

// withoutReplies are the surfaces without replies: there, a task waits for the next
// message of the conversation.
var withoutReplies = []string{"web", "terminal", "acp"}

// platformOf returns the platform of a kind with a suffix.
func platformOf(kind, suffix string) (platform string, ok bool) {
	platform, ok = strings.CutSuffix(kind, suffix)
	return platform, ok && platform != "" && !strings.Contains(platform, ".")
}

// newTask validates a spec and returns the task. depth is that of the request.
func newTask(s Spec, depth int, now time.Time) (Task, error) {
	t := Task{ID: s.TaskID, Kind: s.Kind, Description: strings.TrimSpace(s.Description), State: Waiting, Depth: depth, CreatedAt: now.UnixMilli()}
	var in TaskInput
	switch {
	case !validID().MatchString(s.TaskID):
		return t, fault.InvalidField("taskId", "A task needs an id of 1 to 64 letters, digits, - and _.")
	case t.Description == "" || len(t.Description) > maxDescription:
		return t, fault.InvalidField("description", "A task needs a description of at most %d bytes: what it waits for, in words for a person.", maxDescription)
	case len(s.Input) > maxInput:
		return t, fault.InvalidField("input", "The input of the task is larger than %d bytes.", maxInput)
	}
	if len(s.Input) > 0 {
		if err := json.Unmarshal(s.Input, &in); err != nil {
			return t, fault.Wrap(fault.Invalid, err, "The input of the task %s is not an object with the expected fields.", s.TaskID)
		}
	}
	err := t.read(in, now)
	return t, err
}

// read sets what the task waits for.
func (t *Task) read(in TaskInput, now time.Time) error {
	if platform, ok := platformOf(t.Kind, replyKind); ok {
		return t.forReply(platform, in, now)
	}
	if platform, ok := platformOf(t.Kind, sendKind); ok {
		return t.forSent(platform, in, now)
	}
	switch t.Kind {
	case KindMoment, KindDelay:
		return t.forMoment(in, now)
	case KindEvent:
		return t.forEvent(in, now)
	case KindSchedule:
		return t.bySchedule(in, now)
	}
	return fault.InvalidField("kind", "The kind of task %q is unknown. Use <platform>%s, <platform>%s, %s, %s, %s, or %s.",
		t.Kind, replyKind, sendKind, KindMoment, KindDelay, KindEvent, KindSchedule)
}

func (t *Task) forReply(platform string, in TaskInput, now time.Time) error {
	t.Wait = Wait{Kind: ForReply, Platform: platform, ChannelID: in.SessionID, MessageID: in.MessageID, UserID: in.UserID}
	switch {
	case in.SessionID == "":
		return fault.InvalidField("sessionId", "Set the conversation in which to wait for the reply.")
	case slices.Contains(withoutReplies, platform) && (in.MessageID != "" || in.UserID != ""):
		return fault.InvalidField("messageId", "%s has no replies to messages. Omit messageId and userId to wait for the next message of a person.", platform)
	case slices.Contains(withoutReplies, platform):
		t.Wait = Wait{Kind: ForMessage, ChannelID: in.SessionID}
	case in.MessageID == "":
		return fault.InvalidField("messageId", "Set the message whose reply to wait for.")
	}
	return t.until(in, now)
}

func (t *Task) forSent(platform string, in TaskInput, now time.Time) error {
	t.Wait = Wait{Kind: ForReply, Platform: platform, ChannelID: in.SessionID, UserID: in.UserID, Text: in.Text, ReplyTo: in.ReplyTo}
	switch {
	case slices.Contains(withoutReplies, platform):
		return fault.InvalidField("kind", "Messages cannot be sent to a conversation on %s.", platform)
	case in.SessionID == "":
		return fault.InvalidField("sessionId", "Set the conversation to send the message to.")
	case strings.TrimSpace(in.Text) == "":
		return fault.InvalidField("text", "Set the text to send.")
	case utf16Len(in.Text) > maxText:
		return fault.InvalidField("text", "The text is longer than %d characters, the limit of one message. Shorten it.", maxText)
	}
	return t.until(in, now)
}

func (t *Task) forMoment(in TaskInput, now time.Time) error {
	t.Wait = Wait{Kind: ForMoment}
	switch {
	case t.Kind == KindDelay && (in.DelayMS < time.Second.Milliseconds() || in.DelayMS > maxAhead.Milliseconds()):
		return fault.InvalidField("delayMs", "A delay must be between one second and %d days.", int(maxAhead.Hours()/24))
	case t.Kind == KindDelay:
		t.Due = now.UnixMilli() + in.DelayMS
		return nil
	case in.At <= 0:
		return fault.InvalidField("at", "Set the time to wait for, in Unix milliseconds.")
	case in.At > now.Add(maxAhead).UnixMilli():
		return fault.InvalidField("at", "The time is more than %d days away.", int(maxAhead.Hours()/24))
	}
	t.Due = in.At
	return nil
}

func (t *Task) forEvent(in TaskInput, now time.Time) error {
	t.Wait = Wait{Kind: ForEvent, Types: in.Types, SessionID: in.SessionID, If: in.If}
	switch {
	case len(in.Types) == 0 || len(in.Types) > maxTypes:
		return fault.InvalidField("types", "Set the types of events to wait for, at most %d.", maxTypes)
	case len(in.If) > maxCondition:
		return fault.InvalidField("if", "The condition is longer than %d bytes.", maxCondition)
	}
	return t.until(in, now)
}

func (t *Task) bySchedule(in TaskInput, now time.Time) error {
	t.Wait = Wait{Kind: BySchedule, Cron: strings.TrimSpace(in.Cron), Zone: in.Timezone, Skip: in.Missed == "skip", Until: in.Until}
	if in.Missed != "" && in.Missed != "once" && in.Missed != "skip" {
		return fault.InvalidField("missed", "Runs that were missed are done %q or skipped (%q).", "once", "skip")
	}
	next, err := nextRun(t.Wait, now)
	if err != nil {
		return err
	}
	if next.IsZero() {
		return fault.InvalidField("until", "The schedule never runs: its end is before the first run.")
	}
	t.Due = next.UnixMilli()
	return nil
}

// until sets the timeout of a task.
func (t *Task) until(in TaskInput, now time.Time) error {
	timeout := in.TimeoutMS
	if timeout == 0 {
		timeout = DefaultTimeout.Milliseconds()
	}
	if timeout < time.Second.Milliseconds() || timeout > maxAhead.Milliseconds() {
		return fault.InvalidField("timeoutMs", "A timeout must be between one second and %d days.", int(maxAhead.Hours()/24))
	}
	t.Due = now.UnixMilli() + timeout
	return nil
}

// utf16Len returns the length in UTF-16 code units, in which platforms count.
func utf16Len(s string) (n int) {
	for _, r := range s {
		if n++; r > 0xFFFF {
			n++
		}
	}
	return n
}

// newWorkflow validates a definition and returns the workflow, without the tasks that
// arrived before it.
func newWorkflow(id string, from Origin, cause Cause, d Definition, now time.Time) (Workflow, error) {
	w := Workflow{
		ID: id, State: Waiting, Summary: strings.TrimSpace(d.Summary), Completion: d.Completion, Origin: from, Payer: cause.Payer, Grant: cause.Grant,
		Resume: Target{SessionID: from.SessionID, Client: from.Client}, CreatedAt: now.UnixMilli(),
	}
	if w.Completion == "" {
		w.Completion = All
	}
	if d.Resume != nil {
		w.Resume.Mention = d.Resume.Mention
		if d.Resume.SessionID != "" {
			w.Resume = *d.Resume
		}
	}
	switch {
	case !validID().MatchString(id):
		return w, fault.InvalidField("workflowId", "A workflow needs an id of 1 to 64 letters, digits, - and _.")
	case w.Summary == "" || len(w.Summary) > maxSummary:
		return w, fault.InvalidField("summary", "A workflow needs a summary of at most %d bytes: its purpose, so that you know it when the workflow ends.", maxSummary)
	case w.Completion != All && w.Completion != Any:
		return w, fault.InvalidField("completion", "The completion must be %q or %q.", All, Any)
	case w.Resume.Client == "":
		return w, fault.InvalidField("resumeTarget", "The conversation to continue in needs a sessionId and a client.")
	case len(d.Tasks) > MaxTasks:
		return w, fault.InvalidField("tasks", "A workflow can have at most %d tasks.", MaxTasks)
	}
	for _, s := range d.Tasks {
		t, err := newTask(s, cause.Depth, now)
		if err != nil {
			return w, err
		}
		if err := w.checkTask(t); err != nil {
			return w, err
		}
		w.Tasks = append(w.Tasks, t)
	}
	return w, nil
}

// errTooDeep refuses to wait for a time at the end of a chain. The agent can still ask
// a person, whose answer starts a new chain.
var errTooDeep = fault.New(fault.LimitReached, "This request was caused by a chain of %d events that caused each other, and waiting for a time would make the chain too long. Ask a person whether to continue: you can wait for a reply.", event.MaxDepth)

// checkTask reports why a task cannot be added to the workflow.
func (w Workflow) checkTask(t Task) error {
	if _, twice := w.Task(t.ID); twice {
		return fault.InvalidField("taskId", "The workflow already has a task %q.", t.ID)
	}
	if len(w.Tasks) >= MaxTasks {
		return fault.New(fault.LimitReached, "A workflow can have at most %d tasks.", MaxTasks)
	}
	if t.Depth >= event.MaxDepth && (t.Wait.Kind == ForMoment || t.Wait.Kind == BySchedule) {
		return errTooDeep
	}
	for _, other := range w.Tasks {
		if t.Wait.Kind == BySchedule || other.Wait.Kind == BySchedule {
			return fault.InvalidField("kind", "A schedule is the only task of its workflow.")
		}
	}
	return nil
}

// definitionOf decodes the definition of a command.
func definitionOf(c event.WorkflowCreate) (d Definition, err error) {
	if err := json.Unmarshal(c.Definition, &d); err != nil {
		return d, fault.Wrap(fault.Invalid, err, "The definition of the workflow %s is not an object with the expected fields.", c.WorkflowID)
	}
	return d, nil
}
