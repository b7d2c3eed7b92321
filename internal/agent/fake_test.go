package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lilac/internal/agent"
	"lilac/internal/agent/tool"
	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reply is one scripted answer of the fake model.
type reply struct {
	think  string
	chunks []string // text as it is streamed
	calls  []chat.Part
	stop   llm.StopReason
	usage  chat.Usage
	err    error               // after the chunks, instead of an end
	hang   bool                // after the chunks, until the context ends
	during func()              // after the chunks
	final  *chat.Message       // instead of what the chunks make
	check  func(r llm.Request) // looks at what the model was asked
}

func say(chunks ...string) reply { return reply{chunks: chunks, stop: llm.StopEnd} }

func calls(text string, cs ...chat.Part) reply {
	r := reply{calls: cs, stop: llm.StopTools}
	if text != "" {
		r.chunks = []string{text}
	}
	return r
}

func call(id, name, input string) chat.Part {
	return chat.ToolCall(id, name, json.RawMessage(input))
}

// model plays its script; it is used by one run at a time.
type model struct {
	info    llm.Info
	script  []reply
	summary func(r llm.Request) reply // answers requests without tools and with the summariser's instructions
	asked   []llm.Request
}

func (m *model) Info() llm.Info { return m.info }

func (m *model) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		var r reply
		if strings.HasPrefix(req.System, "You summarise") {
			if m.summary == nil {
				yield(llm.Chunk{}, fmt.Errorf("no summaries here"))
				return
			}
			r = m.summary(req)
		} else {
			m.asked = append(m.asked, req)
			if len(m.script) == 0 {
				yield(llm.Chunk{}, fmt.Errorf("the script is over"))
				return
			}
			r, m.script = m.script[0], m.script[1:]
		}
		if r.check != nil {
			r.check(req)
		}
		msg := chat.Message{Role: chat.Assistant}
		if r.think != "" {
			msg.Parts = append(msg.Parts, chat.Part{Type: chat.TypeReasoning, Text: r.think})
			if !yield(llm.Chunk{Kind: llm.ChunkReasoning, Text: r.think}, nil) {
				return
			}
		}
		for _, c := range r.chunks {
			if !yield(llm.Chunk{Kind: llm.ChunkText, Text: c}, nil) {
				return
			}
		}
		if text := strings.Join(r.chunks, ""); text != "" {
			msg.Parts = append(msg.Parts, chat.TextPart(text))
		}
		for _, c := range r.calls {
			msg.Parts = append(msg.Parts, c)
			if !yield(llm.Chunk{Kind: llm.ChunkToolStart, ToolCallID: c.ToolCallID, ToolName: c.ToolName}, nil) {
				return
			}
		}
		if r.during != nil {
			r.during()
		}
		if r.hang {
			<-ctx.Done()
			yield(llm.Chunk{}, ctx.Err())
			return
		}
		if err := ctx.Err(); err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		if r.err != nil {
			yield(llm.Chunk{}, r.err)
			return
		}
		if r.final != nil {
			msg = *r.final
		}
		yield(llm.Chunk{Kind: llm.ChunkDone, Message: msg, Usage: r.usage, Stop: r.stop}, nil)
	}
}

// host records the reports of a run in order and stores what a database would.
type host struct {
	mu         sync.Mutex
	busy       bool // a method runs: they must not overlap
	log        []string
	streamed   []byte
	journal    []agent.Step
	history    []chat.Message
	failAt     string // a method that fails
	steers     []agent.Injected
	followUps  []agent.Injected
	interrupts agent.Signal
	budget     func(step int, used chat.Usage) error
	limit      func(used chat.Usage) error // during a call
	lost       chat.Usage                  // of failed calls
	on         func(event string)          // called outside the lock after each event
	problems   []string
	summaries  int
	failures   []error
	delays     []time.Duration
	results    map[string]chat.Part
	started    map[string]bool
	dirty      bool // streamed past the journal
}

// all returns a host whose parts are one value.
func all[H interface {
	agent.Inbox
	agent.Output
	agent.Recorder
}](h H,
) agent.Host {
	return agent.Host{Inbox: h, Output: h, Recorder: h}
}

func newHost() *host {
	return &host{results: map[string]chat.Part{}, started: map[string]bool{}}
}

// event records one call and answers with the planned error.
func (h *host) event(ctx context.Context, format string, args ...any) error {
	e := fmt.Sprintf(format, args...)
	h.mu.Lock()
	if h.busy {
		h.problems = append(h.problems, "two methods at once: "+e)
	}
	h.busy = true
	h.log = append(h.log, e)
	h.mu.Unlock()
	if h.on != nil {
		h.on(e)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.busy = false
	if ctx != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if h.failAt != "" && strings.HasPrefix(e, h.failAt) {
		return fmt.Errorf("the disk is full")
	}
	return nil
}

func (h *host) BeforeModel(ctx context.Context, step int, used chat.Usage) ([]agent.Injected, error) {
	err := h.event(ctx, "before %d", step)
	if err == nil && h.budget != nil {
		err = h.budget(step, used)
	}
	if err != nil {
		return nil, err
	}
	in := h.steers
	h.steers = nil
	h.append(in)
	return in, nil
}

func (h *host) CheckLimits(_ context.Context, used chat.Usage) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.limit == nil {
		return nil
	}
	return h.limit(used)
}

func (h *host) append(in []agent.Injected) {
	for _, i := range in {
		h.history = append(h.history, i.Messages...)
	}
}

func (h *host) Interrupts() *agent.Signal { return &h.interrupts }

func (h *host) Text(delta string) {
	h.streamed = append(h.streamed, delta...)
	h.dirty = true
}
func (h *host) Reasoning(string) {}

func (h *host) ResetText(ctx context.Context, offset int64) error {
	if offset > int64(len(h.streamed)) {
		h.problems = append(h.problems, "reset beyond the text")
		return nil
	}
	h.streamed = h.streamed[:offset]
	return h.event(ctx, "reset %d", offset)
}

func (h *host) ModelFailed(ctx context.Context, step int, err error, used chat.Usage, delay time.Duration) error {
	h.lost = h.lost.Add(used)
	h.failures, h.delays = append(h.failures, err), append(h.delays, delay)
	return h.event(ctx, "failed %d", step)
}

func (h *host) ModelDone(ctx context.Context, s agent.Step) error {
	what := "model"
	if s.Interrupted {
		what = "partial"
	}
	if err := h.event(ctx, "%s %d", what, s.Number); err != nil {
		return err
	}
	h.journal = append(h.journal, s)
	h.dirty = false
	clear(h.results)
	clear(h.started)
	return nil
}

func (h *host) ToolStarted(ctx context.Context, step int, c chat.Part, display string) error {
	if err := h.event(ctx, "start %s", c.ToolCallID); err != nil {
		return err
	}
	h.started[c.ToolCallID] = true
	return nil
}

func (h *host) ToolProgress(c chat.Part, line string) {
	_ = h.event(context.Background(), "progress %s %s", c.ToolCallID, line)
}

func (h *host) ToolEnded(ctx context.Context, step int, c chat.Part, result chat.Part, display string) error {
	if err := h.event(ctx, "end %s", c.ToolCallID); err != nil {
		return err
	}
	h.results[c.ToolCallID] = result
	return nil
}

func (h *host) StepDone(ctx context.Context, step int, messages []chat.Message) error {
	if err := h.event(ctx, "step %d", step); err != nil {
		return err
	}
	h.history = append(h.history, messages...)
	return nil
}

func (h *host) WouldEnd(ctx context.Context, o agent.Outcome) ([]agent.Injected, error) {
	err := h.event(ctx, "would end")
	if err != nil {
		return nil, err
	}
	in := h.followUps
	h.followUps = nil
	h.append(in)
	return in, nil
}

func (h *host) Compacted(ctx context.Context, summary chat.Message, keep int) error {
	if keep < 1 || keep > len(h.history) {
		h.problems = append(h.problems, fmt.Sprintf("keep %d of %d", keep, len(h.history)))
		return nil
	}
	h.history = append([]chat.Message{summary}, h.history[keep:]...)
	h.summaries++
	return h.event(ctx, "compacted %d", keep)
}

func (h *host) steer(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steers = append(h.steers, injected(text))
}

func (h *host) interrupt(text string) {
	h.steer(text)
	h.interrupts.Raise()
}

func injected(text string) agent.Injected {
	return agent.Injected{MessageID: text, Messages: []chat.Message{chat.Text(chat.User, text)}}
}

// index returns where the event is in the log, or -1.
func (h *host) index(e string) int { return slices.Index(h.log, e) }

// fakeTool is a tool made of a function.
type fakeTool struct {
	spec tool.Spec
	run  func(ctx context.Context, c tool.Call) (tool.Result, error)
}

func (t fakeTool) Spec() tool.Spec { return t.spec }
func (t fakeTool) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	return t.run(ctx, c)
}

func named(name string, run func(ctx context.Context, c tool.Call) (tool.Result, error)) fakeTool {
	return fakeTool{spec: tool.Spec{Name: name, Schema: json.RawMessage(`{"type":"object"}`)}, run: run}
}

// echo answers with its input.
func echo() fakeTool {
	return named("echo", func(_ context.Context, c tool.Call) (tool.Result, error) {
		return tool.Result{Text: "echo " + string(c.Input)}, nil
	})
}

// hanging runs until it is stopped, and says when it began.
func hanging(name string, begun chan<- struct{}) fakeTool {
	return named(name, func(ctx context.Context, c tool.Call) (tool.Result, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	})
}

func question() agent.Input {
	return agent.Input{
		RequestID: "web:s:1", SessionID: "s", Client: "web",
		Messages: []chat.Message{chat.Text(chat.User, "hello")},
	}
}

// play runs a script and checks the invariants of every run.
func play(t *testing.T, ctx context.Context, m *model, cfg agent.Config, in agent.Input, h *host) agent.Outcome {
	t.Helper()
	cfg.Model = m
	if len(h.history) == 0 {
		h.history = slices.Clone(in.Messages)
	}
	out := agent.Run(ctx, cfg, in, all(h))
	checkRun(t, m, h, out)
	return out
}

type failer interface {
	Helper()
	Errorf(format string, args ...any)
}

func checkRun(t failer, m *model, h *host, out agent.Outcome) {
	t.Helper()
	for _, p := range h.problems {
		t.Errorf("host: %s", p)
	}
	for i, req := range m.asked {
		if p := malformed(req.Messages); p != "" {
			t.Errorf("model call %d: %s", i+1, p)
		}
	}
	if p := malformed(h.history); p != "" {
		t.Errorf("history: %s", p)
	}
	text := ""
	for _, s := range h.journal {
		text = agent.JoinText(text, s.Message.Text())
		if s.Offset != int64(len(text)) {
			t.Errorf("step %d: offset %d, but its text ends at %d", s.Number, s.Offset, len(text))
		}
	}
	if out.Err != agent.ErrDrain && out.Text != string(h.streamed) {
		t.Errorf("outcome's text %q, streamed %q", out.Text, h.streamed)
	}
	if h.failAt == "" && out.Text != text {
		t.Errorf("outcome's text %q, journaled %q", out.Text, text)
	}
}

// malformed returns the reason why a conversation is not well formed, or "".
func malformed(messages []chat.Message) string {
	for i, m := range messages {
		if m.Role == chat.Tool && (i == 0 || len(messages[i-1].ToolCalls()) == 0) {
			return fmt.Sprintf("message %d: results without calls", i)
		}
		if m.Role != chat.Assistant {
			continue
		}
		cs := m.ToolCalls()
		if len(cs) == 0 {
			continue
		}
		if i+1 == len(messages) || messages[i+1].Role != chat.Tool {
			return fmt.Sprintf("message %d: calls without results", i)
		}
		rs := messages[i+1].ToolResults()
		if len(rs) != len(cs) {
			return fmt.Sprintf("message %d: %d calls, %d results", i, len(cs), len(rs))
		}
		for j := range cs {
			if cs[j].ToolCallID != rs[j].ToolCallID {
				return fmt.Sprintf("message %d: result %d is of %s, want %s", i, j, rs[j].ToolCallID, cs[j].ToolCallID)
			}
		}
	}
	return ""
}
