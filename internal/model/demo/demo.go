package demo

import (
	"context"
	"iter"
	"strings"
	"time"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

// DefaultDelay is the pause before each word: fast enough to read along.
const DefaultDelay = 30 * time.Millisecond

// Options of the demo model; the zero value works.
type Options struct {
	// Delay is the pause before each word; 0 means [DefaultDelay], a negative
	// one none.
	Delay time.Duration
}

// Model is the demo model.
type Model struct{ delay time.Duration }

// New returns the demo model.
func New(o Options) *Model {
	if o.Delay == 0 {
		o.Delay = DefaultDelay
	}
	return &Model{delay: o.Delay}
}

// Info describes the model. It costs nothing, and a limit on money must not
// refuse it, so it has a price of zero rather than none.
func (m *Model) Info() llm.Info {
	return llm.Info{
		Provider: "demo", Name: "demo", ContextTokens: 100_000, MaxOutputTokens: 20_000,
		Price: &llm.Price{},
	}
}

// Stream answers req.
func (m *Model) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if size(req) > 4*m.Info().ContextTokens {
			yield(llm.Chunk{}, &fault.Error{
				Kind: fault.Invalid, Code: llm.CodeContextLength,
				Message: "The conversation is too long for the demo model.",
			})
			return
		}
		a := answer(req)
		s := speaker{ctx: ctx, delay: m.delay, yield: yield}
		if !s.say(llm.ChunkReasoning, a.reasoning) || !s.say(llm.ChunkText, a.text) {
			return
		}
		message := chat.Message{Role: chat.Assistant, Parts: []chat.Part{}}
		if a.reasoning != "" {
			message.Parts = append(message.Parts, chat.Part{Type: chat.TypeReasoning, Text: a.reasoning})
		}
		if a.text != "" {
			message.Parts = append(message.Parts, chat.TextPart(a.text))
		}
		stop := llm.StopEnd
		for _, call := range a.calls {
			stop = llm.StopTools
			message.Parts = append(message.Parts, call)
			start := llm.Chunk{Kind: llm.ChunkToolStart, ToolCallID: call.ToolCallID, ToolName: call.ToolName}
			input := llm.Chunk{Kind: llm.ChunkToolInput, ToolCallID: call.ToolCallID, ToolName: call.ToolName, Text: string(call.Input)}
			if !s.hand(start) || !s.hand(input) {
				return
			}
		}
		usage := chat.Usage{
			InputTokens:  int64(size(req)/4) + 1,
			OutputTokens: int64(len(strings.Fields(a.text))+len(strings.Fields(a.reasoning))) + 1,
		}
		s.hand(llm.Chunk{Kind: llm.ChunkDone, Message: message, Usage: usage, Stop: stop})
	}
}

// speaker hands chunks on until the reader leaves or the context ends.
type speaker struct {
	ctx   context.Context
	delay time.Duration
	yield func(llm.Chunk, error) bool
}

func (s *speaker) hand(c llm.Chunk) bool {
	if s.ctx.Err() != nil {
		s.yield(llm.Chunk{}, llm.Stopped(s.ctx))
		return false
	}
	return s.yield(c, nil)
}

// say streams text word by word; a word brings the space before it along, so
// that the pieces join to the text.
func (s *speaker) say(kind llm.ChunkKind, text string) bool {
	for text != "" {
		end := wordEnd(text)
		if s.delay > 0 {
			// The end of ctx is reported by hand.
			_ = llm.Sleep(s.ctx, s.delay)
		}
		if !s.hand(llm.Chunk{Kind: kind, Text: text[:end]}) {
			return false
		}
		text = text[end:]
	}
	return true
}

func wordEnd(s string) int {
	i := 0
	for i < len(s) && (s[i] == ' ' || s[i] == '\n') {
		i++
	}
	for i < len(s) && s[i] != ' ' && s[i] != '\n' {
		i++
	}
	return i
}

// size is how many bytes the model reads.
func size(req llm.Request) int {
	n := len(req.System)
	for _, m := range req.Messages {
		for _, p := range m.Parts {
			n += len(p.Text) + len(p.Input) + len(p.Output)
		}
	}
	return n
}
