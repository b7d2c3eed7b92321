package llm

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"lilac/internal/foundation/chat"
)

// Model is a language model that streams.
type Model interface {
	// Info describes the model; it does no I/O.
	Info() Info
	// Stream makes one call. The sequence yields chunks in order and ends
	// after a ChunkDone, or with one error (a *fault.Error whose kind says
	// whether a retry makes sense: RateLimited, Unavailable, Timeout; Invalid
	// and Unauthenticated do not; code "context_length" marks a prompt that
	// is too long). It obeys ctx. Before the first chunk was yielded the
	// adapter itself may retry (429, 5xx, 529, broken connection); afterwards
	// it never does.
	Stream(ctx context.Context, req Request) iter.Seq2[Chunk, error]
}

// Ask makes a call with one message and without tools, and returns the text of the answer and its usage
// with the cost.
func Ask(ctx context.Context, m Model, system, prompt string, maxOutput int) (answer string, used chat.Usage, err error) {
	req := Request{System: system, Messages: []chat.Message{chat.Text(chat.User, prompt)}, MaxOutputTokens: maxOutput}
	for chunk, err := range m.Stream(ctx, req) {
		if err != nil {
			return "", used, err
		}
		if chunk.Kind == ChunkDone {
			answer, used = chunk.Message.Text(), chunk.Usage
		}
	}
	if used.CostMicros == 0 {
		used.CostMicros = m.Info().Price.Cost(used)
	}
	return answer, used, nil
}

// Prepare lets a model find out, before its first call, what [Model.Info] does not know yet: the size
// of the window on a server of one's own. It returns when ctx ends, at the latest.
func Prepare(ctx context.Context, m Model) {
	if m, ok := m.(interface{ Prepare(ctx context.Context) }); ok {
		m.Prepare(ctx)
	}
}

// Info is what is known of a model.
type Info struct {
	Provider string // "anthropic", "openai", "demo", or a configured name
	Name     string
	// ContextTokens is the size of the context window.
	ContextTokens int
	// MaxOutputTokens is asked for on each call.
	MaxOutputTokens int
	// Images says that the model sees images.
	Images bool
	// Audio says that the model hears recordings.
	Audio bool
	// Effort is how much the model is asked to think, "" if it chooses.
	Effort string
	// Price is in US dollars per million tokens; nil when unknown.
	Price *Price
}

// Price of a model, in US dollars per million tokens.
type Price struct {
	Input, Output, CacheRead, CacheWrite float64
}

// Request is one call of a model.
type Request struct {
	// System is the operator's instructions.
	System   string
	Messages []chat.Message
	Tools    []ToolSpec
	// MaxOutputTokens overrides the model's; 0 keeps it.
	MaxOutputTokens int
	// Session makes prompt-cache keys and the demo's behaviour stable.
	Session string
	// SilenceLimit bounds how long the provider may send nothing, in addition to the
	// limits of the model; 0 means no further bound.
	SilenceLimit time.Duration
}

// MaxParts bounds the parts of one answer, whatever protocol it came by.
const MaxParts = 1024

// ToolSpec tells the model about a tool.
type ToolSpec struct {
	Name        string
	Description string
	// Schema is the JSON Schema of the input, an object.
	Schema json.RawMessage
}

// ChunkKind says what a chunk carries.
type ChunkKind int

// The kinds of chunks.
const (
	// ChunkText and ChunkReasoning carry Text, whole runes.
	ChunkText ChunkKind = iota
	ChunkReasoning
	// ChunkToolStart announces a tool call: ToolCallID, ToolName.
	ChunkToolStart
	// ChunkToolInput carries a piece of its input in Text.
	ChunkToolInput
	// ChunkDone carries the whole assistant Message, Usage and Stop.
	ChunkDone
)

// Chunk is a piece of a model's answer.
type Chunk struct {
	Kind       ChunkKind
	Text       string
	ToolCallID string
	ToolName   string
	// Message is the finished assistant message with text, reasoning (with its
	// provider data) and tool-call parts in the order the model made them. A
	// tool call whose input is no JSON object has Input {} and the text it
	// sent in ProviderOptions {"lilac":{"invalidInput":"…"}}.
	Message chat.Message
	Usage   chat.Usage
	Stop    StopReason
	// Model is what the provider says answered, empty if it does not say.
	Model string
	// WithoutThinking says that the provider refused the thinking of earlier
	// answers, and that the call was repeated without it.
	WithoutThinking bool
}

// StopReason says why a model stopped.
type StopReason string

// The stop reasons.
const (
	StopEnd     StopReason = "end"
	StopTools   StopReason = "tools"
	StopLength  StopReason = "length"
	StopRefusal StopReason = "refusal"
	StopOther   StopReason = "other"
)
