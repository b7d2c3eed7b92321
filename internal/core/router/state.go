package router

import (
	"slices"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/foundation/event"
)

// The life of a request, as the router sees it:
//
//	         forwarded, or queued elsewhere
//	(none) ──────────────────────────────────> starting ──┐
//	  │                                           │       │ ended, deleted, or
//	  │ running                           running │       │ not seen for an hour
//	  └───────────────────────────────────────────┴──> running ── ended ──> (none)
//
// The life of a burst in an active session, and of forwards without words in a private one:
//
//	(none) ── message ──> buffered ── due ──> forwarded      without a gate, or
//	                       │    │                            while a request runs
//	                       │    └── due ──> gating ── yes ──> forwarded
//	                       │                   └── no or error ──> dropped
//	                       └── mention ──> forwarded with the mention

// Mode is how a session listens.
type Mode string

// The modes of a session.
const (
	// Direct is a private conversation: every message is for the agent.
	Direct Mode = "dm"
	// Mention sessions listen to mentions of the agent and replies to it.
	Mention Mode = "mention"
	// Active sessions are conversations in which the agent takes part.
	Active Mode = "active"
)

// Modes are the configured modes of a platform's channels.
type Modes struct {
	Default  Mode
	Channels map[string]Mode
}

// Of returns the mode of a channel: its own, that of the channel to which a
// thread belongs, or the default.
func (m Modes) Of(s surface.Session) Mode {
	for _, id := range []string{s.ChannelID, s.ParentChannelID} {
		if mode := m.Channels[id]; mode != "" {
			return mode
		}
	}
	return m.Default
}

const (
	// maxOutputs bounds the known messages of one running answer.
	maxOutputs = 200
	// maxBuffered bounds a burst; a longer one is forwarded at once.
	maxBuffered = 50
	// maxRequests bounds the known requests of a session.
	maxRequests = 100
	// maxAcknowledged bounds the acknowledged messages of a request.
	maxAcknowledged = 100
	// maxDelivered bounds the known deliveries of a queued request.
	maxDelivered = 200
	// maxDropped bounds the messages that were deleted before they were answered, and droppedFor
	// is how long they are known.
	maxDropped = 5
	droppedFor = time.Minute
	// maxTold bounds the people who were told that a session is closed.
	maxTold = 100
	// maxPrograms is how many messages of programs may wake the agent within
	// programWindow unless a person does in between: two programs that answer each
	// other stop soon, and a busy monitor is heard again later.
	maxPrograms   = 5
	programWindow = 10 * time.Minute
	// commentWait is the time that a forward in a private conversation waits for a comment. Discord's
	// client sends the comment as a second message at once.
	commentWait = 2 * time.Second
	// staleAfter is when a request that was never seen to run is forgotten.
	staleAfter = time.Hour
)

// State is what the router knows about a session. The zero State is a session
// without requests and bursts.
type State struct {
	// Requests are those that run or will run, in that order.
	Requests []Request `json:"requests,omitempty"`
	// Buffer holds the burst that waits for the debounce, oldest first. First is
	// when it began and Due when it is forwarded (Unix milliseconds).
	Buffer []string `json:"buffer,omitempty"`
	First  int64    `json:"first,omitempty"`
	Due    int64    `json:"due,omitempty"`
	// Gating is the burst that the gate is judging.
	Gating []string `json:"gating,omitempty"`
	// Programs are the times (Unix milliseconds) of the last messages of other
	// programs that woke the agent since a person did.
	Programs []int64 `json:"programs,omitempty"`
	// Dropped are messages that were deleted before they were answered, the last one at DroppedAt
	// (Unix milliseconds). A copy, which is answered in place of one, may come soon.
	Dropped   []string `json:"dropped,omitempty"`
	DroppedAt int64    `json:"droppedAt,omitempty"`
	// Told are the people who were told that nothing can be written in the session.
	Told []string `json:"refused,omitempty"`
}

// Empty reports whether there is nothing to store.
func (s State) Empty() bool {
	return len(s.Requests) == 0 && len(s.Buffer) == 0 && len(s.Gating) == 0 && len(s.Programs) == 0 && s.First == 0 && s.Due == 0 && len(s.Dropped) == 0 && len(s.Told) == 0
}

func (s State) clone() State {
	s.Requests = slices.Clone(s.Requests)
	s.Buffer = slices.Clone(s.Buffer)
	s.Gating = slices.Clone(s.Gating)
	s.Programs = slices.Clone(s.Programs)
	s.Dropped = slices.Clone(s.Dropped)
	s.Told = slices.Clone(s.Told)
	return s
}

// Request is a request that has not ended.
type Request struct {
	ID string `json:"id"`
	// Running is false while the request is starting: it has not been seen to run.
	Running bool `json:"running,omitempty"`
	// Outputs are the messages that show its answer.
	Outputs []string `json:"outputs,omitempty"`
	Since   int64    `json:"since"`
	// Delivered are, while it is starting, the messages that the runner received
	// for it. Joined are those of them whose own event came later and would have
	// begun a request.
	Delivered []string `json:"told,omitempty"`
	// Acknowledged are the messages with an acknowledgment, which is removed when
	// the request ends.
	Acknowledged []string   `json:"acknowledged,omitempty"`
	Joined       []Question `json:"with,omitempty"`
}

// Question is a message with the request that it would begin.
type Question struct {
	ID        string `json:"id"`
	RequestID string `json:"requestId"`
}

// Input is an event together with the facts that its decision depends on.
type Input struct {
	Event Event
	Rules Rules
	// History has the messages that the decision may forward. If it is nil, the
	// decision assumes that all of them can be forwarded; [Service] uses such a
	// decision to learn which messages to load.
	History *History
}

// Rules are the settings of a decision.
type Rules struct {
	Debounce Debounce
	// Gate asks a small model whether a burst is worth an answer.
	Gate bool
}

// Debounce is how long a burst in an active session waits: Wait after its last
// message, but at most Max after its first.
type Debounce struct{ Wait, Max time.Duration }

// History holds facts about messages, by message id.
type History struct {
	// Delivered are the messages that the session's history contains.
	Delivered map[string]bool
	// Chains has, for each message in the cache, its reply chain, oldest first,
	// which ends with the message itself. A deleted message has none.
	Chains map[string][]string
}

// Event is something that happened in a session.
type Event interface{ isEvent() }

// Message is a message that somebody wrote. RequestID is the request that it
// would begin.
type Message struct {
	ID, RequestID string
	Mode          Mode
	// FromSelf and FromBot report that a program wrote it: we, or another one. Claimed reports that a
	// workflow waits or waited for it.
	FromSelf, FromBot, Claimed bool
	// UserID is its author. CopyOf is the message whose place it takes, "" for none.
	UserID, CopyOf string
	// Closed says why an answer could not be shown in the session, "" if it can be.
	Closed string
	// Programs reports that the session listens to other programs. Channel is the channel of a
	// thread, "" elsewhere.
	Programs bool
	Channel  string
	// Delivered reports that the model has received it: with a reply to it whose
	// event came first, or because somebody asked about it.
	Delivered bool
	// ForwardOnly reports that it has no words of its own, which often follow at once.
	ForwardOnly bool
	// FactsMissing reports that the event has no facts from the platform.
	FactsMissing bool
	// Mentions reports that the text contains the agent's literal id, Interrupts
	// that the message asks to interrupt.
	Mentions, Interrupts bool
	// ReplyTo is the message that it replies to and ReplyToUs reports that the
	// agent wrote that. ReplyToRequest is the request whose answer that message
	// shows, if it is known.
	ReplyTo        string
	ReplyToUs      bool
	ReplyToRequest string
}

// SpokeInThread reports that a message was written in a thread of the channel. A program that
// opens a thread for each of its messages is one program.
type SpokeInThread struct {
	MessageID string
	FromBot   bool
}

// Deleted reports that a message was deleted. RequestID is the request that it
// began, if it did.
type Deleted struct{ ID, RequestID string }

// Edited reports that the text of a message changed at At, which tells its edits
// apart. RequestID is the request that it began, if it did.
type Edited struct {
	ID, RequestID string
	At            int64
}

// Lifecycle reports that a request changed its state.
type Lifecycle struct {
	RequestID string
	State     event.RequestState
}

// Output reports that a message shows a request's answer.
type Output struct{ RequestID, MessageID string }

// Delivered reports that the runner received messages for a request outside of a
// decision.
type Delivered struct {
	RequestID  string
	MessageIDs []string
}

// Due reports that the time of the burst has come. RequestID is the request that
// the burst would begin. Direct reports that it was written in a private
// conversation, so that no gate is asked, and Closed why an answer could not be
// shown, see [Message].
type Due struct {
	RequestID string
	Direct    bool
	Closed    string
}

// Gated is the gate's verdict about a burst.
type Gated struct {
	RequestID string
	Forward   bool
}

func (Message) isEvent()       {}
func (SpokeInThread) isEvent() {}
func (Deleted) isEvent()       {}
func (Edited) isEvent()        {}
func (Lifecycle) isEvent()     {}
func (Output) isEvent()        {}
func (Delivered) isEvent()     {}
func (Due) isEvent()           {}
func (Gated) isEvent()         {}

// Effect is an effect of a decision. The types below are the closed set.
type Effect interface{ isEffect() }

// Forward sends messages to the runner, oldest first.
type Forward struct {
	Queue     event.Queue
	RequestID string
	// MessageIDs are the burst or the one message. They are composed together with
	// the reply chain of the last one.
	MessageIDs []string
	// Edited is the time of the edit, for a message that was forwarded before.
	Edited int64
}

// Cancel ends a queued request.
type Cancel struct{ RequestID string }

// Undeliver removes messages from the session's history: the request for which
// the runner received them ended before it ran.
type Undeliver struct{ MessageIDs []string }

// Reanchor moves the request's output below a message once the runner has
// applied it. Inherit keeps the message that the output replies to.
type Reanchor struct {
	RequestID, MessageID string
	Inherit              bool
}

// Acknowledge shows people that a message was noticed and waits.
type Acknowledge struct{ MessageID string }

// Unacknowledge removes the acknowledgments of messages.
type Unacknowledge struct{ MessageIDs []string }

// Ignore reports that a message of a program woke nobody, because there were too
// many.
type Ignore struct{ MessageID string }

// Refuse tells the author of a message that it is not answered, and why: by a reaction or, if the
// platform refuses that, too, in private.
type Refuse struct{ MessageID, UserID, Reason string }

// RefuseBurst tells the authors of a burst in private that it is not answered, and why.
type RefuseBurst struct {
	MessageIDs []string
	Reason     string
}

// AskGate asks the gate about the burst in Gating.
type AskGate struct{ MessageIDs []string }

func (Forward) isEffect()   {}
func (Cancel) isEffect()    {}
func (Undeliver) isEffect() {}
func (Reanchor) isEffect()  {}
func (AskGate) isEffect()   {}

func (Acknowledge) isEffect()   {}
func (Ignore) isEffect()        {}
func (Refuse) isEffect()        {}
func (RefuseBurst) isEffect()   {}
func (Unacknowledge) isEffect() {}
