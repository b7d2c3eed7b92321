package agent

import (
	"context"
	"errors"
	"time"

	"lilac/internal/agent/tool"
	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
)

// Causes with which the context of a run is cancelled.
var (
	// ErrCancelled ends the run; what was said is kept.
	ErrCancelled = errors.New("cancelled")
	// ErrDrain stops the run so that another process takes it up: nothing more is recorded.
	ErrDrain = errors.New("draining")
)

// Config is what a run needs beside its conversation.
type Config struct {
	Model     llm.Model
	Tools     []tool.Tool
	System    string
	Workspace string
	// Retries is how often a failed model call is repeated, with Backoff.
	Retries int
	Backoff func(retry int) time.Duration
	// ToolTimeout bounds a tool call (the tools have smaller limits of their own).
	ToolTimeout time.Duration
	// CompactAt is the share of the context window that the prompt may fill
	// before older messages are summarised; 0 means [DefaultCompactAt].
	CompactAt float64
}

// Input is where a run starts; after a crash, where it goes on.
type Input struct {
	RequestID, SessionID, Client string
	// Messages is the conversation so far, well formed (every tool call has its
	// result). It ends with what this request is about and the steps of it for
	// which StepDone was recorded; Pending is not in it.
	Messages []chat.Message
	// Pending is the assistant message of a journaled step whose tool calls
	// have not all got a result; nil at a fresh start.
	Pending *PendingStep
	// Ended is set when the journal's last step called no tools but the run
	// had not been closed: the loop goes on with WouldEnd.
	Ended bool
	// Step and Usage continue the counters. Step is how many model calls of
	// this request are journaled, Pending included: the next one has the number
	// Step+1, the first one of a request is number 1.
	Step  int
	Usage chat.Usage
	// Offset is the byte length of the request's text so far (of journaled
	// steps, Pending included). What was streamed after it is the host's to
	// reset before it calls Run.
	Offset int64
	// Text is the request's text so far, len(Text) == Offset: the texts of its
	// journaled steps joined with [JoinText]. It becomes the start of Outcome.Text.
	Text string
}

// PendingStep is a journaled model answer for which StepDone was not recorded:
// with open tool calls, or with none when the crash came between the two.
type PendingStep struct {
	Message chat.Message
	// Results holds what is known, by tool call id.
	Results map[string]chat.Part
	// Started holds the calls that had been started and have no result: their outcome is unknown.
	Started map[string]bool
	// Interrupted is that of the journaled Step: such an answer does not end the run.
	Interrupted bool
}

// Injected is a message that was taken into the run.
type Injected struct {
	MessageID string
	Messages  []chat.Message
}

// Step is a finished model call.
type Step struct {
	Number  int
	Message chat.Message
	// Usage is of this call and of the calls since the last step whose answers
	// were thrown away (repeated after an error, summaries). What a call that
	// was stopped in the middle used is an estimate.
	Usage chat.Usage
	Stop  llm.StopReason
	// Interrupted says that the call was stopped in the middle and Message is what had been said.
	Interrupted bool
	// Offset is the byte length of the request's text including this step.
	Offset    int64
	ModelTime time.Duration
}

// Outcome is how a run ended. State is done, failed or cancelled in the sense of the catalog.
type Outcome struct {
	// Err is nil when the run is done; ErrCancelled; ErrDrain; or what failed
	// (a *fault.Error with a sentence for a person).
	Err   error
	Text  string
	Usage chat.Usage
	Steps int
}

// Host is what a run reports to and asks. Every method that records returns
// when the record is durable; an error from it ends the run at once (the
// process has lost its store or its ownership).
//
// A run calls one method at a time. The contexts it passes to recording methods
// outlive a cancelled run by a few seconds, so that what was said is kept, and
// end at once when the run drains.
//
// The order for a step is: BeforeModel, (ResetText, ModelFailed, BeforeModel)*,
// ModelDone, (ToolStarted, ToolEnded) for each call that runs, StepDone. A call
// that never ran because the run was stopped has its result in StepDone only,
// behind those of all that ran;
// a call that had been started before a crash has ToolEnded without another
// ToolStarted, unless its tool is idempotent and is simply started again.
type Host interface {
	// BeforeModel takes the steers and interrupts that wait, before model call
	// number step. used is what the request has used so far, thrown away
	// answers included: it is here that the host keeps its budgets. An error
	// ends the run before the call is made.
	BeforeModel(ctx context.Context, step int, used chat.Usage) ([]Injected, error)
	// Interrupts returns the signal that is raised when an interrupt waits.
	Interrupts() *Signal
	// Text and Reasoning stream; they never block for long and cannot fail.
	Text(delta string)
	Reasoning(delta string)
	// ResetText cuts the streamed text back to offset: the step is repeated.
	ResetText(ctx context.Context, offset int64) error
	// ModelFailed records a failed model call that will be repeated after delay.
	ModelFailed(ctx context.Context, step int, err error, delay time.Duration) error
	// ModelDone records a finished (or interrupted) model call.
	ModelDone(ctx context.Context, s Step) error
	// ToolStarted records that a call is about to run.
	ToolStarted(ctx context.Context, step int, call chat.Part, display string) error
	// ToolProgress shows a line; it cannot fail.
	ToolProgress(call chat.Part, line string)
	// ToolEnded records a call's result.
	ToolEnded(ctx context.Context, step int, call chat.Part, result chat.Part, display string) error
	// StepDone appends the step to the session's history: the assistant
	// message and, when it called tools, one tool message with exactly one
	// result for each call.
	StepDone(ctx context.Context, step int, messages []chat.Message) error
	// WouldEnd is asked when the model called no tools. It returns the
	// followUps (and late steers) that wait, or none: then the host has closed
	// the run durably in the same transaction, with outcome as its end.
	WouldEnd(ctx context.Context, outcome Outcome) ([]Injected, error)
	// Compacted records that the messages before keep were replaced by summary.
	// keep is an index into the conversation as the run had it at this moment:
	// Input.Messages, then every injected message and the messages of every
	// StepDone in the order of the calls, with earlier compactions applied
	// (afterwards the conversation is summary, then what stood from keep on).
	// 1 ≤ keep ≤ its length, and no tool call is parted from its result.
	Compacted(ctx context.Context, summary chat.Message, keep int) error
}
