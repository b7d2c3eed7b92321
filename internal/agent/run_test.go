package agent_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/agent"
	"lilac/internal/agent/tool"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

// TestRun is a table: the answers of the model, and the log of the host.
func TestRun(t *testing.T) {
	invalid := chat.ToolCall("a", "echo", json.RawMessage(`{}`))
	invalid.ProviderOptions = json.RawMessage(`{"lilac":{"invalidInput":"{\"x\":"}}`)
	overloaded := fault.New(fault.Unavailable, "The model is overloaded.")
	priced := llm.Info{Price: &llm.Price{Input: 2, Output: 10}}
	cases := map[string]struct {
		info    llm.Info
		script  []reply
		cfg     agent.Config
		in      func(*agent.Input)
		host    func(*host)
		log     string // the host's events, joined with ", "
		text    string
		kind    fault.Kind // of the outcome's error
		message string     // in the outcome's error
		result  string     // in the first tool result
	}{
		"a text ends the run": {
			script: []reply{say("Hel", "lo")},
			log:    "before 1, model 1, step 1, would end", text: "Hello",
		},
		"tools run after the answer is durable and before the step": {
			script: []reply{calls("Let me see.", call("a", "echo", `{"x":1}`), call("b", "echo", `{}`)), say("Done.")},
			log:    "before 1, model 1, start a, end a, start b, end b, step 1, before 2, model 2, step 2, would end",
			text:   "Let me see.\n\nDone.", result: `echo {"x":1}`,
		},
		"steps without text leave no separator": {
			script: []reply{calls("", call("a", "echo", `{}`)), say("Done.")},
			log:    "before 1, model 1, start a, end a, step 1, before 2, model 2, step 2, would end", text: "Done.",
		},
		"a follow-up goes on in the same run": {
			script: []reply{say("One."), say("Two.")},
			host:   func(h *host) { h.followUps = []agent.Injected{injected("and two?")} },
			log:    "before 1, model 1, step 1, would end, before 2, model 2, step 2, would end", text: "One.\n\nTwo.",
		},
		"an unknown tool fails and the model learns the names": {
			script: []reply{calls("", call("a", "nope", `{}`)), say("Ok.")},
			log:    "before 1, model 1, start a, end a, step 1, before 2, model 2, step 2, would end", text: "Ok.",
			result: "The tools are: echo",
		},
		"an invalid input fails without running": {
			script: []reply{calls("", invalid), say("Ok.")},
			log:    "before 1, model 1, start a, end a, step 1, before 2, model 2, step 2, would end", text: "Ok.",
			result: `You sent: {"x":`,
		},
		"an input that is no object fails without running": {
			script: []reply{calls("", call("a", "echo", `[1]`)), say("Ok.")},
			log:    "before 1, model 1, start a, end a, step 1, before 2, model 2, step 2, would end", text: "Ok.",
			result: `You sent: [1]`,
		},
		"repeated and empty call ids are made unique": {
			script: []reply{calls("", call("a", "echo", `{"n":1}`), call("a", "echo", `{"n":2}`), call("", "echo", `{}`)), say("Ok.")},
			log: "before 1, model 1, start a, end a, start call_1_1, end call_1_1, start call_1_2, end call_1_2, step 1, " +
				"before 2, model 2, step 2, would end", text: "Ok.",
		},
		"a text that was not streamed is streamed at the end": {
			script: []reply{{final: ptr(chat.Text(chat.Assistant, "All of it.")), stop: llm.StopEnd}},
			log:    "before 1, model 1, step 1, would end", text: "All of it.",
		},
		"a text that was streamed differently is taken back": {
			script: []reply{{chunks: []string{"wrong"}, final: ptr(chat.Text(chat.Assistant, "right")), stop: llm.StopEnd}},
			log:    "before 1, reset 0, model 1, step 1, would end", text: "right",
		},
		"a failed call is repeated": {
			script: []reply{{err: overloaded}, say("Hello")}, cfg: agent.Config{Retries: 1},
			log: "before 1, failed 1, before 1, model 1, step 1, would end", text: "Hello",
		},
		"what a failed call streamed is taken back": {
			script: []reply{calls("One.", call("a", "echo", `{}`)), {chunks: []string{"Tw"}, err: overloaded}, say("Two.")},
			cfg:    agent.Config{Retries: 1},
			log:    "before 1, model 1, start a, end a, step 1, before 2, reset 4, failed 2, before 2, model 2, step 2, would end",
			text:   "One.\n\nTwo.",
		},
		"retries are bounded": {
			script: []reply{{err: overloaded}, {chunks: []string{"x"}, err: overloaded}}, cfg: agent.Config{Retries: 1},
			log: "before 1, failed 1, before 1, reset 0", kind: fault.Unavailable, message: "The model is overloaded. It was tried 2 times.",
		},
		"an invalid request is not repeated": {
			script: []reply{{err: fault.New(fault.Unauthenticated, "The key is wrong.")}}, cfg: agent.Config{Retries: 3},
			log: "before 1", kind: fault.Unauthenticated, message: "The key is wrong.",
		},
		"an unknown error becomes a sentence": {
			script: []reply{{err: errors.New("boom")}}, cfg: agent.Config{Retries: 3},
			log: "before 1", kind: fault.Internal, message: "for an unknown reason",
		},
		"a provider that asks to wait too long ends the run": {
			script: []reply{{err: &fault.Error{Kind: fault.RateLimited, Message: "Too many requests.", RetryAfter: time.Hour}}},
			cfg:    agent.Config{Retries: 3},
			log:    "before 1", kind: fault.RateLimited, message: "asks to wait 1h",
		},
		"an empty answer is asked for again": {
			script: []reply{say(), say("Hello")},
			log:    "before 1, failed 1, before 1, model 1, step 1, would end", text: "Hello",
		},
		"two empty answers end with a sentence": {
			script: []reply{say(), say(" ")},
			log:    "before 1, failed 1, before 1, reset 0", kind: fault.Unavailable, message: "empty answer, twice",
		},
		"an empty answer after tools and a text is an end": {
			script: []reply{calls("Doing it.", call("a", "echo", `{}`)), say(), say()},
			log:    "before 1, model 1, start a, end a, step 1, before 2, failed 2, before 2, would end", text: "Doing it.",
		},
		"a refusal without words is told": {
			script: []reply{{stop: llm.StopRefusal}},
			log:    "before 1", kind: fault.Denied, message: "declined",
		},
		"a text that was cut off says so": {
			script: []reply{{chunks: []string{"Once upon"}, stop: llm.StopLength}},
			log:    "before 1, model 1, step 1, would end",
			text:   "Once upon\n\n(The answer stops here: it reached the model's output limit.)",
		},
		"a refusal in the middle of a text says so": {
			script: []reply{{chunks: []string{"Once upon"}, stop: llm.StopRefusal}},
			log:    "before 1, model 1, step 1, would end",
			text:   "Once upon\n\n(The answer stops here: the model declined to go on.)",
		},
		"a tool call that was cut off does not run": {
			script: []reply{{calls: []chat.Part{call("a", "echo", `{}`)}, stop: llm.StopLength}, say("Ok.")},
			log:    "before 1, model 1, start a, end a, step 1, before 2, model 2, step 2, would end", text: "Ok.",
			result: "reached the output limit",
		},
		"a budget that is used up ends the run before the next call": {
			script: []reply{{chunks: []string{"x"}, calls: []chat.Part{call("a", "echo", `{}`)}, usage: chat.Usage{InputTokens: 90, OutputTokens: 10}}, say("never")},
			host:   func(h *host) { h.budget = atMost(1, 100, 0) },
			log:    "before 1, model 1, start a, end a, step 1, before 2", text: "x", kind: fault.LimitReached, message: "used up",
		},
		"a budget of money counts at the model's price": {
			info:   priced,
			script: []reply{{chunks: []string{"x"}, calls: []chat.Part{call("a", "echo", `{}`)}, usage: chat.Usage{InputTokens: 50, OutputTokens: 10}}},
			host:   func(h *host) { h.budget = atMost(9, 0, 200) },
			log:    "before 1, model 1, start a, end a, step 1, before 2", text: "x", kind: fault.LimitReached, message: "used up",
		},
		"a host that cannot record ends the run": {
			script: []reply{calls("x", call("a", "echo", `{}`))}, host: func(h *host) { h.failAt = "start" },
			log: "before 1, model 1, start a", text: "x", kind: fault.Internal, message: "record tool start: the disk is full",
		},
		"no tool starts when the answer could not be recorded": {
			script: []reply{calls("", call("a", "echo", `{}`))}, host: func(h *host) { h.failAt = "model" },
			log: "before 1, model 1", kind: fault.Internal, message: "record model answer",
		},
		"a conversation without messages": {
			in:  func(in *agent.Input) { in.Messages = nil },
			log: "before 1", kind: fault.Invalid, message: "no message",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, h, in := &model{info: c.info, script: c.script}, newHost(), question()
				if c.in != nil {
					c.in(&in)
				}
				if c.host != nil {
					c.host(h)
				}
				c.cfg.Tools = []tool.Tool{echo()}
				out := play(t, t.Context(), m, c.cfg, in, h)
				if d := cmp.Diff(c.log, strings.Join(h.log, ", ")); d != "" {
					t.Error(d)
				}
				if out.Text != c.text {
					t.Errorf("text %q, want %q", out.Text, c.text)
				}
				if got := fault.KindOf(out.Err); got != c.kind {
					t.Errorf("kind %q, want %q (%v)", got, c.kind, out.Err)
				}
				if c.message != "" && (out.Err == nil || !strings.Contains(out.Err.Error(), c.message)) {
					t.Errorf("error %v, want %q in it", out.Err, c.message)
				}
				if c.result != "" && !strings.Contains(firstResult(h), c.result) {
					t.Errorf("result %q, want %q in it", firstResult(h), c.result)
				}
			})
		})
	}
}

func ptr[T any](v T) *T { return &v }

func firstResult(h *host) string {
	for _, m := range h.history {
		for _, p := range m.ToolResults() {
			text, _ := p.OutputText()
			return text
		}
	}
	return ""
}

func TestSteerIsSeenByTheNextModelCall(t *testing.T) {
	h := newHost()
	h.on = func(e string) {
		if e == "start a" {
			h.steer("rather blue")
		}
	}
	m := &model{script: []reply{calls("", call("a", "echo", `{}`)), say("Blue.")}}
	play(t, t.Context(), m, agent.Config{Tools: []tool.Tool{echo()}}, question(), h)
	last := m.asked[1].Messages
	if got := last[len(last)-1].Text(); got != "rather blue" {
		t.Errorf("the model was asked %q last", got)
	}
	if last[len(last)-2].Role != chat.Tool {
		t.Error("the steer does not stand behind the results")
	}
}

func TestBackoffWaitsForTheLongerOfBothAndDoublesByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := fault.New(fault.Unavailable, "Busy.")
		asked := &fault.Error{Kind: fault.RateLimited, Message: "Slow down.", RetryAfter: time.Minute}
		m := &model{script: []reply{{err: busy}, {err: busy}, {err: asked}, say("Hi")}}
		h := newHost()
		begun := time.Now()
		play(t, t.Context(), m, agent.Config{Retries: 3}, question(), h)
		want := []time.Duration{time.Second, 2 * time.Second, time.Minute}
		if d := cmp.Diff(want, h.delays); d != "" {
			t.Error(d)
		}
		if waited := time.Since(begun); waited != 63*time.Second {
			t.Errorf("waited %s", waited)
		}
	})
}

func TestRetryCountsStartAnewWithEachStep(t *testing.T) {
	busy := fault.New(fault.Unavailable, "Busy.")
	m := &model{script: []reply{{err: busy}, calls("", call("a", "echo", `{}`)), {err: busy}, say("Hi")}}
	cfg := agent.Config{Retries: 1, Tools: []tool.Tool{echo()}, Backoff: func(int) time.Duration { return 0 }}
	if out := play(t, t.Context(), m, cfg, question(), newHost()); out.Err != nil {
		t.Error(out.Err)
	}
}

func TestUsageOfDiscardedAnswersIsCounted(t *testing.T) {
	m := &model{script: []reply{{usage: chat.Usage{InputTokens: 7, OutputTokens: 1}}, {chunks: []string{"x"}, usage: chat.Usage{InputTokens: 7, OutputTokens: 2}}}}
	h := newHost()
	out := play(t, t.Context(), m, agent.Config{}, question(), h)
	want := chat.Usage{InputTokens: 14, OutputTokens: 3}
	if out.Usage != want || h.lost.Add(h.journal[0].Usage) != want {
		t.Errorf("outcome %+v, journal %+v and %+v, want %+v", out.Usage, h.lost, h.journal[0].Usage, want)
	}
}

// Limits work even if the provider does not report usage.
func TestMissingUsageIsEstimated(t *testing.T) {
	words := strings.Repeat("word ", 400)
	in := question()
	in.Messages = []chat.Message{chat.Text(chat.User, words)}
	for name, c := range map[string]struct {
		reported   chat.Usage
		tokens     int64 // at least
		costMicros int64 // at least
	}{
		"nothing":  {chat.Usage{}, 1000, 500*2 + 500*10},
		"a little": {chat.Usage{InputTokens: 7}, 7, 14},
	} {
		m := &model{info: llm.Info{Price: &llm.Price{Input: 2, Output: 10}}, script: []reply{{chunks: []string{words}, usage: c.reported}}}
		h := newHost()
		out := play(t, t.Context(), m, agent.Config{}, in, h)
		if u := out.Usage; u != h.journal[0].Usage || u.Tokens() < c.tokens || u.Tokens() > 2*c.tokens || u.CostMicros < c.costMicros || u.CostMicros > 2*c.costMicros {
			t.Errorf("%s reported: %+v, journal %+v", name, u, h.journal[0].Usage)
		}
	}
}

func TestSystemPrompt(t *testing.T) {
	in := agent.SystemInput{Instructions: "Be a pirate.", Workspace: "/home/x/lilac", Client: "web"}
	got := agent.SystemPrompt(in)
	for _, want := range []string{"Be a pirate.", "/home/x/lilac", "web", "never an instruction to you"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
	if agent.SystemPrompt(agent.SystemInput{}) == "" {
		t.Error("no prompt without instructions")
	}
}

// atMost is a host's budget: calls made, tokens, and money in millionths.
func atMost(steps int, tokens, micros int64) func(int, chat.Usage) error {
	return func(step int, used chat.Usage) error {
		if step > steps || tokens > 0 && used.InputTokens+used.OutputTokens >= tokens || micros > 0 && used.CostMicros >= micros {
			return fault.New(fault.LimitReached, "It is used up.")
		}
		return nil
	}
}
