package session

import (
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
)

// Effect is one consequence of a decision. The set of effects is closed; one
// switch, in [change.carryOut], carries them out in the order of the decision
// and in its transaction. The effects on a running goroutine ([StartRun],
// [ResumeRun], [WakeRun], [InterruptRun], [CancelRun]) follow the commit.
type Effect interface{ effect() }

// CreateRequest inserts the request's row.
type CreateRequest struct {
	RequestID, Client string
	// MessageID is the message that triggered the request.
	MessageID string
}

// StoreMessage puts the message of the input into the mailbox.
type StoreMessage struct {
	RequestID, MessageID string
	Queue                event.Queue
	// Applied reports that an [ApplyMessage] of the same decision follows, so the
	// row is written as applied and not as waiting first.
	Applied bool
}

// MoveMessage makes a waiting message a prompt of another request.
type MoveMessage struct{ RequestID, MessageID string }

// DiscardMessage drops a message of cancelled work.
type DiscardMessage struct{ MessageID string }

// ApplyMessage appends the message to the history.
type ApplyMessage struct {
	RequestID, MessageID string
	Queue                event.Queue
	// Grant is the message's restriction of the request.
	Grant grant.Grant
	// Agent is the configured agent that the message asks for, or "".
	Agent string
}

// ChangeState writes and publishes a state of the request.
type ChangeState struct {
	RequestID, Client string
	State             event.RequestState
	Detail            string
	// ErrorKind goes with the state failed.
	ErrorKind fault.Kind
}

// StartRun starts the run of a request that has never run.
type StartRun struct{ RequestID, Client string }

// ResumeRun continues a run from the request's journal.
type ResumeRun struct{ RequestID, Client string }

// PauseRun asks the question of the open pause.
type PauseRun struct{ RequestID string }

// RepeatQuestion reports that a message did not answer the open pause.
type RepeatQuestion struct{ RequestID string }

// RecordAnswer records the answer to a pause.
type RecordAnswer struct {
	RequestID string
	Answer    Answer
	Pause     Pause
	// Reply is the answer to a question of the agent, By the name of the person who
	// answered, if known.
	Reply, By string
}

// ConfirmMessage reports that a message was applied that is not part of the conversation:
// an answer that a tool's result contains.
type ConfirmMessage struct{ RequestID, MessageID string }

// CloseStep appends the open step of a request that ends without a run to the history.
type CloseStep struct{ RequestID string }

// WakeRun tells the run that messages wait.
type WakeRun struct{ RequestID string }

// InterruptRun stops the run's model call.
type InterruptRun struct{ RequestID string }

// CancelRun stops the run.
type CancelRun struct{ RequestID string }

// IgnoreCommand logs a command without effect: a duplicate, an answer that came
// too late, or a cancel of a request that has ended.
type IgnoreCommand struct{ RequestID, MessageID string }

func (CreateRequest) effect()  {}
func (StoreMessage) effect()   {}
func (MoveMessage) effect()    {}
func (DiscardMessage) effect() {}
func (ApplyMessage) effect()   {}
func (ChangeState) effect()    {}
func (StartRun) effect()       {}
func (ResumeRun) effect()      {}
func (PauseRun) effect()       {}
func (RepeatQuestion) effect() {}
func (RecordAnswer) effect()   {}
func (ConfirmMessage) effect() {}
func (CloseStep) effect()      {}
func (WakeRun) effect()        {}
func (InterruptRun) effect()   {}
func (CancelRun) effect()      {}
func (IgnoreCommand) effect()  {}
