package workflow

import (
	"slices"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/grant"
)

// State is the state of a workflow or a task. These are the legal transitions of a
// workflow; an input that is not listed changes at most its tasks:
//
//	state    input                        condition               next
//	(zero)   Create                       valid                   waiting
//	(zero)   Create                       cancelled before        cancelled
//	(zero)   Create                       invalid, or a limit     (zero), Refuse
//	(zero)   Add, Cancel                  before the Create       (zero)
//	(zero)   Tick                         no Create in 10 min     failed
//	waiting  Cancel                       -                       cancelled
//	waiting  Reply, MessagePosted,        completes the workflow  resolved, Wake
//	         Occurred, Sent, Tick
//	waiting  the same                     the chain is too deep   failed, EndChain
//	waiting  Tick                         no task in 10 min       failed
//	waiting  Tick, schedule               a run is due            waiting, Wake
//	waiting  Tick, schedule               it was the last run     resolved, Wake
//	waiting  Tick, schedule               the session is gone     cancelled, Abandon
//
// A task is waiting until it has a result (resolved), or until its workflow ends
// without it (cancelled).
type State string

// The states. All but Waiting are final. The zero State is a workflow whose commands
// arrived before the one that creates it.
const (
	Waiting   State = "waiting"
	Resolved  State = "resolved"
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

// Damaged is the state, in a list, of a workflow whose row cannot be read. Only its
// ID and, in Detail, the reason are known.
const Damaged State = "damaged"

// Completion says when a workflow is over.
type Completion string

// A workflow is over when all of its tasks have a result, or any one.
const (
	All Completion = "all"
	Any Completion = "any"
)

// Workflow is a set of tasks that the agent waits for.
type Workflow struct {
	ID      string `json:"id"`
	State   State  `json:"state"`
	Summary string `json:"summary"`
	// Detail is the reason why it failed or was cancelled.
	Detail     string     `json:"detail,omitempty"`
	Completion Completion `json:"completion"`
	// Origin is the request that created it. Resume is the conversation in which the
	// agent continues.
	Origin Origin `json:"origin"`
	Resume Target `json:"resumeTarget"`
	// Payer is the rule whose budget its requests count for.
	Payer Payer `json:"payer,omitzero"`
	// Grant is what the requests that created it and its tasks may use, and so its own
	// requests.
	Grant grant.Grant `json:"grant,omitempty"`
	Tasks []Task      `json:"tasks"`
	// Resumes counts the requests that it made.
	Resumes int `json:"resumes"`
	// CreatedAt and EndedAt are Unix milliseconds.
	CreatedAt int64 `json:"createdAt"`
	EndedAt   int64 `json:"endedAt,omitempty"`
	// Early reports that it was cancelled before it was created.
	Early bool `json:"early,omitempty"`
	// Facts are loaded for each decision and never saved.
	Facts Facts `json:"-"`
}

// Facts are what a decision needs to know besides the workflow. With the zero
// value, everything is as it should be.
type Facts struct {
	// SessionGone reports that the session to resume does not exist any more.
	SessionGone bool
	// Disconnected lists the platforms of the tasks that Lilac is not connected
	// to: nothing can be sent there.
	Disconnected []string
}

// Origin is the request that created a workflow.
type Origin struct {
	RequestID string `json:"requestId"`
	SessionID string `json:"sessionId"`
	Client    string `json:"client"`
}

func originOf(h event.Headers) Origin {
	return Origin{RequestID: h.RequestID(), SessionID: h.SessionID(), Client: h.Client()}
}

func (o Origin) headers() event.Headers {
	return event.RequestHeaders(o.RequestID, o.SessionID, o.Client)
}

// Cause describes what led to a request.
type Cause struct {
	// Depth is the number of events that caused each other before it, since the last
	// message of a person.
	Depth int
	// Payer is the rule that caused it.
	Payer Payer
	// Grant is what it may use.
	Grant grant.Grant
}

// Payer is a rule and the session in which it acted. The zero value is none.
type Payer struct {
	Rule      string `json:"rule"`
	SessionID string `json:"sessionId"`
}

// Target is the conversation in which the agent continues.
type Target struct {
	SessionID string `json:"sessionId"`
	Client    string `json:"client"`
	// Mention is the platform's id of the person whom the answer mentions.
	Mention string `json:"mentionUserId,omitempty"`
}

// Task is one thing to wait for.
type Task struct {
	ID          string `json:"id"`
	Kind        string `json:"kind"`
	Description string `json:"description"`
	State       State  `json:"state"`
	Wait        Wait   `json:"wait"`
	// Depth is the number of events that caused each other before the request that
	// added it.
	Depth int `json:"depth,omitempty"`
	// Due is the time that it waits for, or its timeout, in Unix milliseconds; zero
	// for never.
	Due int64 `json:"due,omitempty"`
	// Sending reports that its message has no id yet.
	Sending bool `json:"sending,omitempty"`
	// Runs counts the runs of a schedule.
	Runs       int     `json:"runs,omitempty"`
	CreatedAt  int64   `json:"createdAt"`
	ResolvedAt int64   `json:"resolvedAt,omitempty"`
	Result     *Result `json:"result,omitempty"`
}

// Wait describes what a task waits for. Its kind determines which fields are used.
type Wait struct {
	Kind WaitKind `json:"way"`
	// Platform, ChannelID, MessageID, and UserID identify the reply. If Text is set,
	// the workflow sends the message itself, and its MessageID comes later.
	Platform  string `json:"platform,omitempty"`
	ChannelID string `json:"channelId,omitempty"`
	MessageID string `json:"messageId,omitempty"`
	UserID    string `json:"userId,omitempty"`
	ReplyTo   string `json:"replyTo,omitempty"`
	Text      string `json:"text,omitempty"`
	// Types, SessionID, and If select the event.
	Types     []string `json:"types,omitempty"`
	SessionID string   `json:"sessionId,omitempty"`
	If        string   `json:"if,omitempty"`
	// Cron, Zone, Skip, and Until are the schedule: Skip omits missed runs, and Until
	// is the end in Unix milliseconds.
	Cron  string `json:"cron,omitempty"`
	Zone  string `json:"timezone,omitempty"`
	Skip  bool   `json:"skipMissed,omitempty"`
	Until int64  `json:"until,omitempty"`
}

// WaitKind is the kind of a wait.
type WaitKind string

// The kinds of waits. A reply answers one message. In a conversation without
// replies, the next message of a person counts instead.
const (
	ForReply   WaitKind = "reply"
	ForMessage WaitKind = "message"
	ForMoment  WaitKind = "moment"
	ForEvent   WaitKind = "event"
	BySchedule WaitKind = "schedule"
	replyKind           = ".wait_for_reply"
	sendKind            = ".send_and_wait"
)

// Outcome is the outcome of a wait.
type Outcome string

// The outcomes.
const (
	Replied   Outcome = "reply"
	Reached   Outcome = "reached"
	Happened  Outcome = "event"
	TimedOut  Outcome = "timeout"
	NotSent   Outcome = "notSent"
	Abandoned Outcome = "cancelled"
	Finished  Outcome = "finished"
)

// Result is the result of a task. A timeout is a result, too.
type Result struct {
	Outcome Outcome `json:"outcome"`
	// MessagePosted is what a person wrote, Event what happened.
	Message *HumanMessage   `json:"message,omitempty"`
	Event   *event.EnvEvent `json:"event,omitempty"`
	// Depth is the position of the event in its chain of causes.
	Depth int `json:"depth,omitempty"`
	// Grant is what requests that the event causes may use.
	Grant grant.Grant `json:"grant,omitempty"`
	// Reason is the reason why a message was not sent.
	Reason string `json:"reason,omitempty"`
}

// HumanMessage is a message of a person. Text is truncated to 8 KiB.
type HumanMessage struct {
	MessageID string `json:"messageId"`
	UserID    string `json:"userId,omitempty"`
	UserName  string `json:"userName,omitempty"`
	Text      string `json:"text"`
	At        int64  `json:"at"` // Unix milliseconds
}

// Ended reports whether the state is final.
func (s State) Ended() bool { return s == Resolved || s == Failed || s == Cancelled }

// Task returns a task by its id.
func (w Workflow) Task(id string) (Task, bool) {
	i := slices.IndexFunc(w.Tasks, func(t Task) bool { return t.ID == id })
	if i < 0 {
		return Task{}, false
	}
	return w.Tasks[i], true
}

// Due returns when the workflow is due next, in Unix milliseconds; zero for never.
func (w Workflow) Due() (due int64) {
	earlier := func(at int64) {
		if at > 0 && (due == 0 || at < due) {
			due = at
		}
	}
	switch {
	case w.State.Ended() || w.CreatedAt == 0:
		return 0
	case w.State == "" || len(w.Tasks) == 0:
		return w.CreatedAt + loneLimit.Milliseconds()
	}
	for _, t := range w.Tasks {
		if t.State == Waiting {
			earlier(t.Due)
		}
	}
	return due
}

// PersonInvolved reports whether a message of a person is among the results. Then
// that person, and no event, causes what follows.
func (w Workflow) PersonInvolved() bool {
	return slices.ContainsFunc(w.Tasks, func(t Task) bool { return t.Result != nil && t.Result.Message != nil })
}

// Depth returns the position, in the chain of causes, of what the workflow causes. A
// time that is reached adds one, so that waiting again and again ends; a schedule
// adds one however often it runs. An event has a position of its own. A message of a
// person starts a new chain.
func (w Workflow) Depth() (depth int) {
	if w.PersonInvolved() {
		return 0
	}
	for _, t := range w.Tasks {
		switch r := t.Result; {
		case t.Wait.Kind == BySchedule: // also after it is cancelled, for its last run
			depth = max(depth, t.Depth+1)
		case r == nil || r.Outcome == Abandoned:
		case r.Event != nil:
			depth = max(depth, t.Depth, r.Depth)
		default:
			depth = max(depth, t.Depth+1)
		}
	}
	return depth
}

// grantNow returns what the next request may use: what the workflow may, restricted by
// the events that are among the results.
func (w Workflow) grantNow() grant.Grant {
	g := w.Grant
	for _, t := range w.Tasks {
		if t.Result != nil {
			g = g.And(t.Result.Grant)
		}
	}
	return g
}

// isWaiting reports whether the task and its workflow still wait.
func (w Workflow) isWaiting(t Task) bool { return w.State == Waiting && t.State == Waiting }
