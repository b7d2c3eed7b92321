package workflow

import (
	"slices"

	"lilac/internal/foundation/event"
)

// State is where a workflow or a task is in its life.
type State string

// The states. Waiting is the only one that is not an end; the zero State is a
// workflow whose commands came before the one that creates it.
const (
	Waiting   State = "waiting"
	Resolved  State = "resolved"
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

// Damaged is the state that a list gives a workflow that cannot be read: its ID is
// known and, in Detail, what is wrong.
const Damaged State = "damaged"

// Completion says when a workflow is over.
type Completion string

// A workflow is over when all of its tasks have a result, or any one.
const (
	All Completion = "all"
	Any Completion = "any"
)

// Workflow is something that the agent waits for, with all that is known of it.
type Workflow struct {
	ID      string `json:"id"`
	State   State  `json:"state"`
	Summary string `json:"summary"`
	// Detail says why it failed or was cancelled.
	Detail     string     `json:"detail,omitempty"`
	Completion Completion `json:"completion"`
	// Origin is the request that asked for it, Resume where the agent goes on.
	Origin Origin `json:"origin"`
	Resume Target `json:"resumeTarget"`
	// Payer is the rule that pays for what it sets off.
	Payer Payer  `json:"payer,omitzero"`
	Tasks []Task `json:"tasks"`
	// Resumes counts the requests that it made.
	Resumes int `json:"resumes"`
	// CreatedAt and EndedAt are Unix milliseconds.
	CreatedAt int64 `json:"createdAt"`
	EndedAt   int64 `json:"endedAt,omitempty"`
	// Early says that it was cancelled before it was created.
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

// Origin is the request that asked for a workflow.
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

// Cause is what led to a request.
type Cause struct {
	// Depth is how many events set each other off up to it, none of them a
	// person's doing.
	Depth int
	// Payer is the rule that set it off.
	Payer Payer
}

// Payer is a rule and the session for which it acted; zero is none.
type Payer struct {
	Rule      string `json:"rule"`
	SessionID string `json:"sessionId"`
}

// Target is the conversation in which the agent goes on.
type Target struct {
	SessionID string `json:"sessionId"`
	Client    string `json:"client"`
	// Mention is the person whom the answer mentions, as the platform's id.
	Mention string `json:"mentionUserId,omitempty"`
}

// Task is one thing that is waited for.
type Task struct {
	ID          string `json:"id"`
	Kind        string `json:"kind"`
	Description string `json:"description"`
	State       State  `json:"state"`
	Wait        Wait   `json:"wait"`
	// Depth is how many events set each other off up to the request that asked
	// for it.
	Depth int `json:"depth,omitempty"`
	// Due is when something happens by itself: its moment, or its time-out;
	// Unix milliseconds, zero for never.
	Due int64 `json:"due,omitempty"`
	// Sending says that its message is on the way and has no id yet.
	Sending bool `json:"sending,omitempty"`
	// Runs counts what a schedule has set off.
	Runs       int     `json:"runs,omitempty"`
	CreatedAt  int64   `json:"createdAt"`
	ResolvedAt int64   `json:"resolvedAt,omitempty"`
	Result     *Result `json:"result,omitempty"`
}

// Wait is what a task waits for; which fields are used depends on its way.
type Wait struct {
	Kind WaitKind `json:"way"`
	// Platform, ChannelID, MessageID and UserID name the reply. A message that
	// is still to be sent has Text, and its MessageID comes later.
	Platform  string `json:"platform,omitempty"`
	ChannelID string `json:"channelId,omitempty"`
	MessageID string `json:"messageId,omitempty"`
	UserID    string `json:"userId,omitempty"`
	ReplyTo   string `json:"replyTo,omitempty"`
	Text      string `json:"text,omitempty"`
	// Types, SessionID and If choose the event.
	Types     []string `json:"types,omitempty"`
	SessionID string   `json:"sessionId,omitempty"`
	If        string   `json:"if,omitempty"`
	// Cron, Zone, Skip and Until are the calendar: Skip leaves out what was
	// missed, Until is its end in Unix milliseconds.
	Cron  string `json:"cron,omitempty"`
	Zone  string `json:"timezone,omitempty"`
	Skip  bool   `json:"skipMissed,omitempty"`
	Until int64  `json:"until,omitempty"`
}

// WaitKind is how a task waits.
type WaitKind string

// The ways. A reply answers one message; a message is the next that a person
// writes in a conversation that has no replies.
const (
	ForReply   WaitKind = "reply"
	ForMessage WaitKind = "message"
	ForMoment  WaitKind = "moment"
	ForEvent   WaitKind = "event"
	BySchedule WaitKind = "schedule"
	replyKind           = ".wait_for_reply"
	sendKind            = ".send_and_wait"
)

// Outcome says what a wait came to.
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

// Result is what a task came to. A time-out is one, too.
type Result struct {
	Outcome Outcome `json:"outcome"`
	// MessagePosted is what a person wrote, Event what happened.
	Message *HumanMessage   `json:"message,omitempty"`
	Event   *event.EnvEvent `json:"event,omitempty"`
	// Depth is the place of the event among those that set each other off.
	Depth int `json:"depth,omitempty"`
	// Reason says why a message was not sent.
	Reason string `json:"reason,omitempty"`
}

// HumanMessage is what a person wrote. Text is cut to a bounded length.
type HumanMessage struct {
	MessageID string `json:"messageId"`
	UserID    string `json:"userId,omitempty"`
	UserName  string `json:"userName,omitempty"`
	Text      string `json:"text"`
	At        int64  `json:"at"` // Unix milliseconds
}

// Ended reports whether nothing happens to it any more.
func (s State) Ended() bool { return s == Resolved || s == Failed || s == Cancelled }

// Task returns a task by its id.
func (w Workflow) Task(id string) (Task, bool) {
	i := slices.IndexFunc(w.Tasks, func(t Task) bool { return t.ID == id })
	if i < 0 {
		return Task{}, false
	}
	return w.Tasks[i], true
}

// Due is when something of the workflow is due next, Unix milliseconds; zero
// for never.
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

// Spoken reports whether something that a person wrote is among the results:
// what the workflow sets off is then that person's doing.
func (w Workflow) PersonInvolved() bool {
	return slices.ContainsFunc(w.Tasks, func(t Task) bool { return t.Result != nil && t.Result.Message != nil })
}

// Depth is the place of what the workflow sets off among the events that set
// each other off. Time that passes is one more after the request that waited for
// it, so that nothing goes on by waiting again and again; a schedule is that one
// however often it runs. An event has a place of its own. A person begins anew.
func (w Workflow) Depth() (depth int) {
	if w.PersonInvolved() {
		return 0
	}
	for _, t := range w.Tasks {
		switch r := t.Result; {
		case t.Wait.Kind == BySchedule: // also cancelled, while its last run goes on
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

// waits reports whether the task still waits, in a workflow that does.
func (w Workflow) isWaiting(t Task) bool { return w.State == Waiting && t.State == Waiting }
