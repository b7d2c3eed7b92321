package agent

import (
	"context"
	"errors"
	"time"

	"lilac/internal/agent/tool"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/grant"
	"lilac/internal/model/llm"
)

// Causes for which the context of a run is cancelled.
var (
	// ErrCancelled ends the run; its output so far is kept.
	ErrCancelled = errors.New("cancelled")
	// ErrDrain stops the run without further records; another process resumes it.
	ErrDrain = errors.New("draining")
	// ErrAsk is the error of a run that waits for a person's answer before a tool call; see
	// [Permit.Ask].
	ErrAsk = errors.New("a person has to answer before a tool call")
)

// Config configures a run.
type Config struct {
	Model llm.Model
	Tools []tool.Tool
	// System and Specs are the instructions and the tools as the first call of the
	// conversation sent them. Providers drop their caches, and refuse thinking, if either
	// changes. Nil Specs means those of Tools.
	System string
	Specs  []llm.ToolSpec
	// Next replaces System and Specs at a compaction; nil keeps them.
	Next *Prefix
	// Workspace is the directory that the agent works in, and Prepare creates it: it is called
	// before each tool call; nil means that there is nothing to do.
	Workspace string
	Prepare   func() error
	// Retries is how often a failed model call is repeated, with Backoff.
	Retries int
	Backoff func(retry int) time.Duration
	// ToolTimeout bounds a tool call; tools have smaller limits of their own. 0 means
	// no bound.
	ToolTimeout time.Duration
	// Permit decides about each call before it starts, and again before it continues after
	// a crash; nil permits all. The run's goroutine calls it.
	Permit func(ctx context.Context, call chat.Part) (Permit, error)
	// Bounds bound each answer.
	Bounds Bounds
	// Inline replaces references to blobs in a message by their data, for the model; nil
	// leaves them.
	Inline func(ctx context.Context, m chat.Message) chat.Message
	// Lasting returns what of the messages that a compaction removes must stay, as it is, in at
	// most size bytes; nil keeps nothing.
	Lasting func(removed []chat.Message, size int) string
	// CompactAt is the share of the context window that the prompt may fill before
	// older messages are summarised; 0 means [DefaultCompactAt].
	CompactAt float64
}

// Prefix holds the instructions and tools that precede the messages of a conversation.
type Prefix struct {
	System string
	Specs  []llm.ToolSpec
	// Note is added to the summary that the conversation then begins with.
	Note string
}

// Permit is the decision about a tool call before it starts.
type Permit struct {
	// Refusal is the result of a call that must not run; "" permits it.
	Refusal string
	// Answer is the result of a call that is a question to people, who have answered it.
	Answer string
	// Ask reports that a person has to answer first. The run ends before the call with
	// [ErrAsk] and keeps the step open; another run continues it.
	Ask bool
	// Once reports that a person approved exactly this call. It never runs twice, even if
	// its tool is idempotent.
	Once bool
	// Grant lists the tools that the call, and everything that it starts, may use.
	Grant grant.Grant
}

// Input is the start of a run; after a crash, the point where it continues.
type Input struct {
	RequestID, SessionID, Client string
	// Messages is the well-formed conversation so far: every tool call has its result.
	// It ends with the messages of this request and its steps for which StepDone was
	// recorded. It does not contain Pending.
	Messages []chat.Message
	// Pending is a journaled step without StepDone, or nil.
	Pending *PendingStep
	// Ended reports that the journal's last step called no tools and the run was not
	// closed: the loop continues with WouldEnd.
	Ended bool
	// Step and Usage are the counters so far. Step is the number of journaled model
	// calls of this request, including Pending; the next call has the number Step+1.
	Step  int
	Usage chat.Usage
	// Offset is the length in bytes of the text of the journaled steps, including
	// Pending. The host resets text that was streamed after it before it calls Run.
	Offset int64
	// Text is that text, joined with [JoinText]: len(Text) == Offset. Outcome.Text
	// starts with it.
	Text string
}

// PendingStep is a journaled model answer for which StepDone was not recorded. It
// has no open tool calls if the crash came between the two.
type PendingStep struct {
	Message chat.Message
	// Results are the known results by tool call id.
	Results map[string]chat.Part
	// Started are the calls that were started and have no result: their outcome is
	// unknown.
	Started map[string]bool
	// Interrupted is that of the journaled [Step]. An interrupted answer does not end
	// the run.
	Interrupted bool
}

// Injected is a message that was applied to the run.
type Injected struct {
	MessageID string
	Messages  []chat.Message
}

// Step is a finished model call.
type Step struct {
	Number  int
	Message chat.Message
	// Usage is the usage of this call and of discarded answers (summaries) since the
	// last record. The usage of a call that was stopped is an estimate.
	Usage chat.Usage
	Stop  llm.StopReason
	// Interrupted reports that the call was stopped; Message is the answer until then.
	Interrupted bool
	// Rewritten holds the messages that the model got in another form than the
	// conversation has, such as shortened tool results, by their index in the
	// conversation (see [Host.Compacted]). Later calls must send them in the same form.
	Rewritten map[int]chat.Message
	// WithoutThinking reports that the provider refused the thinking of earlier answers,
	// and later calls must not send it either.
	WithoutThinking bool
	// Offset is the length of the request's text including this step, in bytes.
	Offset    int64
	ModelTime time.Duration
}

// Outcome is the end of a run.
type Outcome struct {
	// Err is nil if the run is done; ErrCancelled; ErrDrain; ErrAsk; or the error of a failed
	// run, a *fault.Error with a sentence for people.
	Err   error
	Text  string
	Usage chat.Usage
	Steps int
}

// Host records the reports of a run and supplies its messages. Every method that
// records returns when the record is durable. An error from it ends the run at once,
// because the process has lost its database or the ownership of the session.
//
// A run calls one method at a time, except CheckLimits. The context of a recording method outlives a
// cancelled run by recordGrace, so that its output is kept, and ends at once when the
// run drains.
//
// The order for a step is: BeforeModel, (ResetText, ModelFailed, BeforeModel)*,
// ModelDone, (ToolStarted, ToolEnded) for each call that runs, StepDone. A call that
// did not run because the run was stopped has its result in StepDone only, after
// the results of all calls that ran. A call that was started before a crash has
// ToolEnded without another ToolStarted, unless its tool is idempotent and is started
// again.
type Host struct {
	Inbox
	Output
	Recorder
}

// Inbox supplies the messages of a run.
type Inbox interface {
	// BeforeModel returns the waiting steers and interrupts, before model call number
	// step. used is the usage of the request so far, including discarded answers: the
	// host checks its budgets here. An error ends the run before the call.
	BeforeModel(ctx context.Context, step int, used chat.Usage) ([]Injected, error)
	// CheckLimits is called about twice a second during a model call, from another
	// goroutine, and never during another recording method. used is the usage of the
	// request including an estimate of the running call. An error stops the call and ends
	// the run; what was streamed is kept.
	CheckLimits(ctx context.Context, used chat.Usage) error
	// Interrupts returns the signal that the host raises when an interrupt waits.
	Interrupts() *Signal
	// WouldEnd is called when the model called no tools. It returns the waiting
	// followUps and late steers. If there are none, the host has closed the run in the
	// same transaction, with outcome as its end.
	WouldEnd(ctx context.Context, outcome Outcome) ([]Injected, error)
}

// Output shows the output of a run.
type Output interface {
	// Text and Reasoning stream a delta; they do not block for long and cannot fail.
	Text(delta string)
	Reasoning(delta string)
	// ResetText cuts the streamed text back to offset: the step is repeated.
	ResetText(ctx context.Context, offset int64) error
	// ToolProgress shows a line of a tool's output; it cannot fail.
	ToolProgress(call chat.Part, line string)
}

// Recorder makes the steps of a run durable.
type Recorder interface {
	// ModelFailed records a failed model call that will be repeated after delay. used is
	// the usage since the last record, which no step will contain.
	ModelFailed(ctx context.Context, step int, err error, used chat.Usage, delay time.Duration) error
	// ModelDone records a finished (or interrupted) model call.
	ModelDone(ctx context.Context, s Step) error
	// ToolStarted records that a call is about to run.
	ToolStarted(ctx context.Context, step int, call chat.Part, display string) error
	// ToolEnded records a call's result.
	ToolEnded(ctx context.Context, step int, call chat.Part, result chat.Part, display string) error
	// StepDone appends the step to the session's history: the assistant message and, if
	// it called tools, one tool message with exactly one result for each call.
	StepDone(ctx context.Context, step int, messages []chat.Message) error
	// Compacted records that summary replaced the messages before keep. keep is an
	// index into the run's conversation: Input.Messages, followed by all injected
	// messages and the messages of every StepDone in the order of the calls, with
	// earlier compactions applied. Afterwards the conversation is summary followed by
	// the messages from keep on. 1 ≤ keep ≤ its length, and a tool call is never
	// separated from its result. The thinking of the kept messages is dropped, and the
	// next call begins with [Config.Next].
	Compacted(ctx context.Context, summary chat.Message, keep int) error
}
