package session

import (
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// Input is something that happened to a session.
type Input interface{ input() }

// Message is a cmd.request.message.
type Message struct {
	MessageID, RequestID, Client string
	// Author is the platform's user id of who wrote it, where that is known.
	Author        string
	Queue         event.Queue
	ElseRequestID string
	AnyActive     bool
	// Seen says that the store has had this message before, Over names the
	// requests that it knows to be over or to belong elsewhere.
	Seen bool
	Over []string
	// Answer is what it says to a request that waits at a limit. Answers is the
	// number of the pause that it is meant for: it is dropped when that is
	// over; 0 means that it is a message like any other.
	Answer  Answer
	Answers int
	// Used is what is used by now of what the limit is for.
	Used int64
	// Hold says that no further run may start now.
	Hold bool
}

// Cancel is a cmd.request.cancel.
type Cancel struct {
	RequestID    string
	CancelQueued bool
	Reason       string
	// AnyActive means what runs, or would run next, whatever its id.
	AnyActive bool
}

// StepBoundary is the run asking for messages before its next model call.
type StepBoundary struct{ RequestID string }

// WouldEnd is the run having nothing left to do.
type WouldEnd struct {
	RequestID string
	Hold      bool
}

// Ended is the run having stopped in a way that was not its own choice.
type Ended struct {
	RequestID string
	State     event.RequestState
	Detail    string
	// Kind is that of the error of a failed run.
	Kind fault.Kind
	// Drop are requests that wait and end with it.
	Drop       []string
	DropReason string
	Hold       bool
}

// Unreadable is the row of a request that waits being damaged: it ends.
type Unreadable struct {
	RequestID, Detail string
	Kind              fault.Kind
}

// LimitReached is the run having stopped before a model call. Pause.Number is
// for the decider to say.
type LimitReached struct {
	RequestID string
	Pause     Pause
	Hold      bool
}

// Expired is nobody having answered to a pause in time.
type Expired struct {
	RequestID string
	Pause     int
	Hold      bool
}

// Drained is the process stopping in good order while the run goes on later.
type Drained struct{ RequestID string }

// Recovered is the process having started again. Exhausted says that the
// active run was taken up too often without getting anywhere.
type Recovered struct {
	Hold      bool
	Exhausted bool
	// Over is as in Message, for pending messages that have to move.
	Over []string
}

// Room is the service having room for another run.
type Room struct{}

func (Message) input()      {}
func (Cancel) input()       {}
func (StepBoundary) input() {}
func (WouldEnd) input()     {}
func (Ended) input()        {}
func (Unreadable) input()   {}
func (LimitReached) input() {}
func (Expired) input()      {}
func (Drained) input()      {}
func (Recovered) input()    {}
func (Room) input()         {}

// EffectKind says what is to be done.
type EffectKind string

// The effects of a decision, carried out in order in one transaction; the
// last three concern the running goroutine, after the commit.
const (
	// EffectCreate makes the request's row.
	EffectCreate EffectKind = "create"
	// EffectKeep says that the message waits for RequestID.
	EffectKeep EffectKind = "keep"
	// EffectMove says that the message now waits for another request.
	EffectMove EffectKind = "move"
	// EffectLifecycle publishes a state of the request.
	EffectLifecycle EffectKind = "lifecycle"
	// EffectApply puts the message into the history, for good.
	EffectApply EffectKind = "apply"
	// EffectDiscard drops a message of cancelled work.
	EffectDiscard EffectKind = "discard"
	// EffectDrop ignores a duplicate, or a cancel of nothing.
	EffectDrop EffectKind = "drop"
	// EffectStart starts the run, EffectResume takes it up again.
	EffectStart  EffectKind = "start"
	EffectResume EffectKind = "resume"
	// EffectPause lets the run wait for an answer, EffectAsk asks again,
	// EffectAnswered says that it goes on.
	EffectPause    EffectKind = "pause"
	EffectAsk      EffectKind = "ask"
	EffectAnswered EffectKind = "answered"
	// EffectWake tells the run that messages wait, EffectInterrupt stops its
	// model now, EffectCancel stops it.
	EffectWake      EffectKind = "wake"
	EffectInterrupt EffectKind = "interrupt"
	EffectCancel    EffectKind = "cancel"
)

// Effect is one thing to do.
type Effect struct {
	Kind      EffectKind
	RequestID string
	MessageID string
	Client    string
	Queue     event.Queue
	State     event.RequestState
	Detail    string
	// ErrorKind goes with the state failed.
	ErrorKind fault.Kind
	// Answer and Pause are what was answered, and to which question.
	Answer Answer
	Pause  Pause
}
