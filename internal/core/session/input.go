package session

import (
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
)

// Input is something that happened to a session. The set of inputs is closed:
// [Message], [Cancel], [StepBoundary], [WouldEnd], [Ended], [LimitReached], [Asked], [ApprovalNeeded],
// [ApprovalUsed], [FormNeeded], [FormsUsed], [StandingRevoked], [Expired], [DayOver], [Drained], [Recovered], [TurnCame], [TrialPassed], [Progressed],
// [SlotFree], [RowDamaged] and [DamagedQueue].
//
// Facts that the decider needs and the state does not hold are fields of the
// input; the service loads them before the decision, in the same transaction.
type Input interface{ input() }

// Message is a cmd.request.message.
type Message struct {
	MessageID, RequestID, Client string
	// Author is the platform's user id of the author, if known.
	Author string
	// Rule is the rule that delivers an event with the message, or "".
	Rule          string
	Queue         event.Queue
	ElseRequestID string
	AnyActive     bool
	// Duplicate reports that the mailbox has had this message before.
	Duplicate bool
	// Unusable lists those of the requests it names that have ended, are damaged
	// or belong to another session.
	Unusable []string
	// Answer is how the message reads as an answer to the open pause, Reply the answer
	// to a question of the agent, and By the name of the person who answers, if known.
	Answer Answer
	Reply  string
	By     string
	// AnswersPause is the number of the pause that the message answers; the
	// message is ignored if that pause is over. 0 means an ordinary message.
	AnswersPause int
	// Used is the current consumption of the budget whose limit paused the request.
	Used int64
	// Grant restricts the request that the message is applied to.
	Grant grant.Grant
	// Agent is the configured agent that the message asks for, or "".
	Agent string
	// NoSlot reports that no further run may start now.
	NoSlot bool
}

// Cancel is a cmd.request.cancel.
type Cancel struct {
	RequestID    string
	CancelQueued bool
	Reason       string
	// AnyActive cancels the active request, or else the first queued one,
	// whatever its id.
	AnyActive bool
}

// StepBoundary reports that the run is about to make its next model call and
// asks for messages.
type StepBoundary struct{ RequestID string }

// WouldEnd reports that the run has nothing left to do.
type WouldEnd struct {
	RequestID string
	NoSlot    bool
}

// Ended reports that the run stopped: it failed or was cancelled.
type Ended struct {
	RequestID string
	State     event.RequestState
	Detail    string
	// Kind is the error kind of a failed run.
	Kind fault.Kind
	// Drop lists queued requests that end together with the run.
	Drop       []string
	DropReason string
	NoSlot     bool
	// Unstarted reports that there is no run: the request cannot be resumed.
	Unstarted bool
}

// RowDamaged reports that a queued request's row is corrupt; the request fails.
type RowDamaged struct {
	RequestID, Detail string
	Kind              fault.Kind
}

// DamagedQueue is an input that arrives while the first requests of the queue
// have corrupt rows. These requests fail before Next is decided.
type DamagedQueue struct {
	Rows []RowDamaged
	Next Input
}

// LimitReached reports that the run stopped before a model call that a limit
// forbids. The decider assigns Pause.Number.
type LimitReached struct {
	RequestID string
	Pause     Pause
	NoSlot    bool
}

// Asked reports that the run stopped before a tool call, because a person has to answer
// first. The decider assigns Pause.Number.
type Asked struct {
	RequestID string
	Pause     Pause
	NoSlot    bool
}

// ApprovalNeeded reports that a running command made a call that needs an approval.
type ApprovalNeeded struct {
	RequestID string
	Call      CallApproval
}

// ApprovalUsed reports that a call that was approved once is about to run.
type ApprovalUsed struct {
	RequestID  string
	Tool, Hash string
}

// FormNeeded reports that a program asks a person during a call.
type FormNeeded struct {
	RequestID string
	Form      CallForm
}

// FormsUsed reports that a call has ended whose forms were answered.
type FormsUsed struct {
	RequestID  string
	Tool, Call string
}

// StandingRevoked ends the standing approvals of a tool; "" means all of them.
type StandingRevoked struct{ Tool string }

// Expired reports that nobody answered a pause in time.
type Expired struct {
	RequestID string
	Pause     int
	NoSlot    bool
}

// DayOver reports that the day of the daily limit that paused the request has ended.
type DayOver struct {
	RequestID string
	Pause     int
}

// Drained reports that the process is shutting down and the run will continue
// after a restart.
type Drained struct{ RequestID string }

// Recovered reports that the process has started and found this session
// unfinished, or that a run could not write and is resumed.
type Recovered struct {
	NoSlot bool
	// Culprit reports that the active request stopped the process, as far as is
	// known, or that its run could not write.
	Culprit bool
	// Turn is whether the request is resumed at once, on trial, or later.
	Turn Turn
	// Uptime is how long the process has run when a trial that begins now is over.
	Uptime time.Duration
	// Unusable is as in [Message], for pending messages that move to other
	// requests.
	Unusable []string
}

// TurnCame reports that a request that waited after an unclean stop is resumed
// now, on trial. Uptime and Unusable are as in [Recovered].
type TurnCame struct {
	RequestID string
	Uptime    time.Duration
	NoSlot    bool
	Unusable  []string
}

// TrialPassed reports that the process did not stop during the request's trial.
type TrialPassed struct{ RequestID string }

// Progressed reports that a model call was journaled after a recovery.
type Progressed struct{ RequestID string }

// SlotFree reports that another run may start.
type SlotFree struct{}

func (Message) input()         {}
func (Cancel) input()          {}
func (StepBoundary) input()    {}
func (WouldEnd) input()        {}
func (Ended) input()           {}
func (RowDamaged) input()      {}
func (DamagedQueue) input()    {}
func (LimitReached) input()    {}
func (Asked) input()           {}
func (ApprovalNeeded) input()  {}
func (ApprovalUsed) input()    {}
func (FormNeeded) input()      {}
func (FormsUsed) input()       {}
func (StandingRevoked) input() {}
func (Expired) input()         {}
func (DayOver) input()         {}
func (Drained) input()         {}
func (Recovered) input()       {}
func (TurnCame) input()        {}
func (TrialPassed) input()     {}
func (Progressed) input()      {}
func (SlotFree) input()        {}
