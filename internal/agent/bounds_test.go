package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/agent"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

// endless is a model whose answer never ends. It counts the bytes that were read.
type endless struct {
	next  func(n int) llm.Chunk
	pause time.Duration
	after int // chunks after which it says nothing more; 0 means never
	read  int
}

func (m *endless) Info() llm.Info {
	return llm.Info{Provider: "test", Name: "endless", ContextTokens: 100_000, MaxOutputTokens: 1000}
}

func (m *endless) Stream(ctx context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for n := 0; ; n++ {
			if m.after > 0 && n >= m.after {
				<-ctx.Done()
			}
			if m.pause > 0 {
				_ = llm.Sleep(ctx, m.pause)
			}
			if ctx.Err() != nil {
				yield(llm.Chunk{}, llm.ContextError(ctx))
				return
			}
			c := m.next(n)
			m.read += len(c.Text)
			if !yield(c, nil) {
				return
			}
		}
	}
}

func word(n int) llm.Chunk { return llm.Chunk{Kind: llm.ChunkText, Text: fmt.Sprintf("word%d ", n)} }

var errOverLimit = errors.New("over the limit")

func runEndless(m *endless, h *host, bounds agent.Bounds) agent.Outcome {
	return agent.Run(context.Background(), agent.Config{Model: m, Bounds: bounds}, agent.Input{Messages: []chat.Message{chat.Text(chat.User, "go")}}, all(h))
}

func TestALimitStopsACallWhileItStreams(t *testing.T) {
	for name, c := range map[string]struct {
		model *endless
		limit func(begun time.Time) func(used chat.Usage) error
		cap   time.Duration // when the limit is reached
	}{
		"tokens": {
			&endless{next: word, pause: 20 * time.Millisecond},
			func(time.Time) func(chat.Usage) error {
				return func(used chat.Usage) error {
					if used.OutputTokens >= 1000 {
						return errOverLimit
					}
					return nil
				}
			}, 11500 * time.Millisecond, // two tokens every 20 ms at first
		},
		"time, and the model says nothing more": {
			&endless{next: word, pause: 20 * time.Millisecond, after: 10},
			func(begun time.Time) func(chat.Usage) error {
				return func(chat.Usage) error {
					if time.Since(begun) >= 10*time.Second {
						return errOverLimit
					}
					return nil
				}
			}, 10 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				h := newHost()
				h.limit = c.limit(begun)
				out := runEndless(c.model, h, agent.Bounds{})
				if took := time.Since(begun); !errors.Is(out.Err, errOverLimit) || took > c.cap+time.Second {
					t.Errorf("ended after %s: %v", took, out.Err)
				}
				if len(h.journal) != 1 || !h.journal[0].Interrupted || h.journal[0].Message.Text() != string(h.streamed) || !strings.HasPrefix(string(h.streamed), "word0 word1 ") {
					t.Errorf("%d steps were kept, with %.40q of %.40q", len(h.journal), out.Text, h.streamed)
				}
			})
		})
	}
}

func TestControlWithoutALimitACallStreamsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(27*time.Minute, func() { cancel(agent.ErrCancelled) })
		begun := time.Now()
		m := &endless{next: word, pause: 20 * time.Millisecond}
		agent.Run(ctx, agent.Config{Model: m}, agent.Input{Messages: []chat.Message{chat.Text(chat.User, "go")}}, all(newHost()))
		if took := time.Since(begun); took < 27*time.Minute {
			t.Errorf("it ended after %s", took)
		}
	})
}

func TestAnAnswerThatIsTooLongIsStoppedAndKept(t *testing.T) {
	const limit = 10_000
	piece := strings.Repeat("ä very long piece of an answer ", 30)
	for name, c := range map[string]struct {
		bounds   agent.Bounds
		chunk    llm.Chunk
		kept     int // bytes of text
		thoughts int
	}{
		"text":                    {agent.Bounds{Text: limit}, llm.Chunk{Kind: llm.ChunkText, Text: piece}, limit, 0},
		"thinking":                {agent.Bounds{Thinking: limit}, llm.Chunk{Kind: llm.ChunkReasoning, Text: piece}, 0, limit},
		"arguments":               {agent.Bounds{Arguments: limit}, llm.Chunk{Kind: llm.ChunkToolInput, ToolCallID: "c", Text: piece}, 0, 0},
		"arguments of many calls": {agent.Bounds{Arguments: limit}, llm.Chunk{Kind: llm.ChunkToolInput, Text: piece}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost()
			m := &endless{next: func(n int) llm.Chunk {
				chunk := c.chunk
				if name == "arguments of many calls" {
					chunk.ToolCallID = fmt.Sprint("c", n)
				}
				return chunk
			}}
			out := runEndless(m, h, c.bounds)
			var f *fault.Error
			if !errors.As(out.Err, &f) || f.Code != agent.CodeTooLong || f.Kind != fault.TooLarge {
				t.Fatalf("ended with %v", out.Err)
			}
			if m.read > 4*limit+len(piece) {
				t.Errorf("%d bytes were read", m.read)
			}
			near := func(got, want int) bool { return got <= want && got >= want-4 }
			if !near(len(out.Text), c.kept) || out.Text != string(h.streamed) {
				t.Errorf("%d bytes of text were kept and %d streamed, want %d", len(out.Text), len(h.streamed), c.kept)
			}
			thoughts := 0
			for _, s := range h.journal {
				for _, p := range s.Message.Parts {
					if p.Type == chat.TypeReasoning {
						thoughts += len(p.Text)
					}
				}
			}
			if !near(thoughts, c.thoughts) {
				t.Errorf("%d bytes of thinking were kept, want %d", thoughts, c.thoughts)
			}
		})
	}
}

func TestAModelThatRepeatsItselfIsStopped(t *testing.T) {
	same := func(text ...string) func(int) llm.Chunk {
		return func(n int) llm.Chunk { return llm.Chunk{Kind: llm.ChunkText, Text: text[n%len(text)]} }
	}
	thinks := func(n int) llm.Chunk { return llm.Chunk{Kind: llm.ChunkReasoning, Text: "Let me check that again. "} }
	for name, c := range map[string]struct {
		next  func(int) llm.Chunk
		stops bool
	}{
		"a sentence":                   {same("I will check", " the file.\n"), true},
		"three sentences in turn":      {same("I check the file. ", "It is not there. ", "So I look again. "), true},
		"thoughts":                     {thinks, true},
		"control: different sentences": {func(n int) llm.Chunk { return llm.Chunk{Text: fmt.Sprintf("This is sentence %d of many. ", n)} }, false},
		"control: lines of code":       {same("\t}\n", "\t});\n"), false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost()
			out := runEndless(&endless{next: c.next}, h, agent.Bounds{Text: 50_000, Thinking: 50_000, Repeats: 20})
			var f *fault.Error
			if !errors.As(out.Err, &f) || (f.Code == agent.CodeRepeats) != c.stops {
				t.Errorf("ended with %v after %d bytes", out.Err, len(h.streamed))
			}
			if c.stops && len(h.journal) != 1 {
				t.Errorf("%d steps were kept", len(h.journal))
			}
		})
	}
}

func TestAModelThatRepeatsItsCallsIsStopped(t *testing.T) {
	const limit = 5
	for name, c := range map[string]struct {
		input func(n int) string
		steps int // steps until it is stopped; 0 means that it is not
	}{
		"one call":                  {func(int) string { return `{"path":"a"}` }, limit + 1},
		"two calls in turn":         {func(n int) string { return fmt.Sprintf(`{"path":"%d"}`, n%2) }, 2*limit + 1},
		"control: different inputs": {func(n int) string { return fmt.Sprintf(`{"path":"%d"}`, n) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var script []reply
			for n := range 4 * limit {
				script = append(script, calls("", call(fmt.Sprint("c", n), "missing", c.input(n))))
			}
			h := newHost()
			m := &model{info: llm.Info{ContextTokens: 100_000}, script: append(script, say("done"))}
			out := agent.Run(context.Background(), agent.Config{Model: m, Bounds: agent.Bounds{Repeats: limit}},
				agent.Input{Messages: []chat.Message{chat.Text(chat.User, "go")}}, all(h))
			var f *fault.Error
			stopped := errors.As(out.Err, &f) && f.Code == agent.CodeRepeats
			if stopped != (c.steps > 0) || stopped && (out.Steps < c.steps || out.Steps > c.steps+1) {
				t.Errorf("ended after %d steps with %v", out.Steps, out.Err)
			}
			if len(h.history) < 2*out.Steps-1 {
				t.Errorf("the history has %d messages of %d steps", len(h.history), out.Steps)
			}
		})
	}
}

// After a restart, the calls before it still count.
func TestRepeatedCallsAreCountedAcrossARestart(t *testing.T) {
	messages := []chat.Message{chat.Text(chat.User, "go")}
	for n := range 5 {
		id := fmt.Sprint("c", n)
		messages = append(messages,
			chat.Message{Role: chat.Assistant, Parts: []chat.Part{chat.ToolCall(id, "missing", json.RawMessage(`{}`))}},
			chat.Message{Role: chat.Tool, Parts: []chat.Part{chat.ToolResult(id, "missing", "no", true)}})
	}
	m := &model{info: llm.Info{ContextTokens: 100_000}, script: []reply{calls("", call("c9", "missing", `{}`)), say("done")}}
	out := agent.Run(context.Background(), agent.Config{Model: m, Bounds: agent.Bounds{Repeats: 5}}, agent.Input{Messages: messages, Step: 5}, all(newHost()))
	var f *fault.Error
	if !errors.As(out.Err, &f) || f.Code != agent.CodeRepeats || out.Steps != 6 {
		t.Errorf("ended after %d steps with %v", out.Steps, out.Err)
	}
}
