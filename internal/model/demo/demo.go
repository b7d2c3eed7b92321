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

// Info describes the model. Its price is zero rather than unknown, so that a limit on
// money doesn't refuse it.
func (m *Model) Info() llm.Info {
	return llm.Info{
		Provider: "demo", Name: "demo", ContextTokens: 100_000, MaxOutputTokens: 20_000,
		Price: &llm.Price{},
	}
}

// Stream answers req.
func (m *Model) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if promptSize(req) > 4*m.Info().ContextTokens {
			yield(llm.Chunk{}, &fault.Error{
				Kind: fault.Invalid, Code: llm.CodeContextLength,
				Message: "The conversation is too long for the demo model.",
			})
			return
		}
		a := answer(req)
		s := streamer{ctx: ctx, delay: m.delay, yield: yield}
		if a.slow {
			s.delay *= slowness
		}
		if !s.stream(llm.ChunkReasoning, a.reasoning) || !s.stream(llm.ChunkText, a.text) {
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
			if !s.send(start) || !s.send(input) {
				return
			}
		}
		usage := chat.Usage{
			InputTokens:  int64(promptSize(req)/4) + 1,
			OutputTokens: int64(len(strings.Fields(a.text))+len(strings.Fields(a.reasoning))) + 1,
		}
		s.send(llm.Chunk{Kind: llm.ChunkDone, Message: message, Usage: usage, Stop: stop})
	}
}

// streamer yields chunks until the caller stops reading or the context ends.
type streamer struct {
	ctx   context.Context
	delay time.Duration
	yield func(llm.Chunk, error) bool
}

func (s *streamer) send(c llm.Chunk) bool {
	if s.ctx.Err() != nil {
		s.yield(llm.Chunk{}, llm.ContextError(s.ctx))
		return false
	}
	return s.yield(c, nil)
}

// stream sends text word by word. Each piece includes the space before its word, so
// that the pieces join to the text.
func (s *streamer) stream(kind llm.ChunkKind, text string) bool {
	for text != "" {
		end := wordEnd(text)
		if s.delay > 0 {
			// send reports the end of ctx.
			_ = llm.Sleep(s.ctx, s.delay)
		}
		if !s.send(llm.Chunk{Kind: kind, Text: text[:end]}) {
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

// promptSize returns the size of the prompt in bytes.
func promptSize(req llm.Request) int {
	n := len(req.System)
	for _, m := range req.Messages {
		for _, p := range m.Parts {
			n += len(p.Text) + len(p.Input) + len(p.Output)
		}
	}
	return n
}
