package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lilac/internal/agent"
	"lilac/internal/agent/tool"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

// long is a conversation of n turns with tool calls, well over the small window.
func long(n int) []chat.Message {
	var out []chat.Message
	for i := range n {
		id := fmt.Sprint("c", i)
		out = append(out,
			chat.Text(chat.User, fmt.Sprintf("request %d %s", i, strings.Repeat("word ", 40))),
			chat.Message{Role: chat.Assistant, Parts: []chat.Part{call(id, "echo", `{"n":1}`)}},
			chat.Message{Role: chat.Tool, Parts: []chat.Part{chat.ToolResult(id, "echo", strings.Repeat("out ", 200), false)}},
			chat.Text(chat.Assistant, "done"))
	}
	return append(out, chat.Text(chat.User, "the last request"))
}

var small = llm.Info{ContextTokens: 4_000, MaxOutputTokens: 500}

func TestCompaction(t *testing.T) {
	good := func(llm.Request) reply { return say("They asked for things and got them.") }
	tooLong := func(llm.Request) reply { return say(strings.Repeat("blah ", 5_000)) }
	refused := &fault.Error{Kind: fault.Invalid, Code: "context_length", Message: "Too long."}
	cases := map[string]struct {
		info      llm.Info
		messages  []chat.Message
		summary   func(llm.Request) reply
		script    []reply
		summaries int
		head      string // of the first message that the model sees last
		kind      fault.Kind
	}{
		"a short conversation is left alone": {info: small, messages: long(1), script: []reply{say("Hi")}, head: "request 0"},
		"older messages are summarised": {
			info: small, messages: long(30), summary: good, script: []reply{say("Hi")},
			summaries: 1, head: "Summary of the conversation so far",
		},
		"without the model's help it is mechanical": {
			info: small, messages: long(30), script: []reply{say("Hi")},
			summaries: 1, head: "Older messages were removed",
		},
		"a summary that is too long is not taken": {
			info: small, messages: long(30), summary: tooLong, script: []reply{say("Hi")},
			summaries: 1, head: "Older messages were removed",
		},
		"a model that says the prompt is too long is asked again with less": {
			messages: long(30), summary: good, script: []reply{{err: refused}, say("Hi")},
			summaries: 1, head: "Summary of the conversation so far",
		},
		"but only once": {
			messages: long(30), summary: good, script: []reply{{err: refused}, {err: refused}},
			summaries: 1, head: "Summary of the conversation so far", kind: fault.Invalid,
		},
		"what cannot become smaller is told": {
			messages: []chat.Message{chat.Text(chat.User, "hi")}, script: []reply{{err: refused}, say("never")},
			head: "hi", kind: fault.TooLarge,
		},
		"several messages that wait for an answer stay": {
			info: small, messages: append(long(30), chat.Text(chat.User, strings.Repeat("before it ", 200))), summary: good,
			script: []reply{say("Hi")}, summaries: 1, head: "Summary of the conversation so far",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := &model{info: c.info, script: c.script, summary: c.summary}
			h := newHost()
			in := question()
			in.Messages = c.messages
			out := play(t, t.Context(), m, agent.Config{System: "the operator's instructions"}, in, h)
			if fault.KindOf(out.Err) != c.kind {
				t.Fatal(out.Err)
			}
			if h.summaries != c.summaries {
				t.Errorf("%d compactions, want %d", h.summaries, c.summaries)
			}
			last := m.asked[len(m.asked)-1]
			if got := last.Messages[0].Text(); !strings.HasPrefix(got, c.head) {
				t.Errorf("the model sees first: %.80q", got)
			}
			if last.System != "the operator's instructions" {
				t.Error("the operator's instructions were touched")
			}
			before, after := agent.EstimateTokens(c.messages), agent.EstimateTokens(last.Messages)
			if c.summaries > 0 && after >= before {
				t.Errorf("%d tokens before, %d after", before, after)
			}
			if c.info.ContextTokens > 0 && after > c.info.ContextTokens*3/4 {
				t.Errorf("%d tokens in a window of %d", after, c.info.ContextTokens)
			}
			if c.summaries > 0 && len(c.messages) > 1 && !strings.Contains(fmt.Sprint(last.Messages), "the last request") {
				t.Error("the last request is lost")
			}
		})
	}
}

func TestASummaryWithoutReportedUsageIsCounted(t *testing.T) {
	m := &model{
		info: small, summary: func(llm.Request) reply { return say("They asked for things and got them.") },
		script: []reply{{chunks: []string{"Hi"}, usage: chat.Usage{InputTokens: 1}}},
	}
	in := question()
	in.Messages = long(30)
	if out := play(t, t.Context(), m, agent.Config{}, in, newHost()); out.Usage.InputTokens < 100 {
		t.Errorf("used %+v", out.Usage)
	}
}

func TestCompactionInALongRunKeepsTheHostInStep(t *testing.T) {
	big := named("big", func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Text: strings.Repeat("line of output\n", 200)}, nil
	})
	m := &model{info: small}
	for i := range 40 {
		m.script = append(m.script, calls(fmt.Sprint("step ", i), call("x", "big", `{}`)))
	}
	m.script = append(m.script, say("Done."))
	h := newHost()
	if out := play(t, t.Context(), m, agent.Config{Tools: []tool.Tool{big}}, question(), h); out.Err != nil {
		t.Fatal(out.Err)
	}
	if h.summaries < 3 {
		t.Errorf("%d compactions", h.summaries)
	}
	for i, req := range m.asked {
		if n := agent.EstimateTokens(req.Messages); n > small.ContextTokens*3/4 {
			t.Errorf("call %d: %d tokens", i, n)
		}
	}
	// The last prompt is what the host has, but for the answer that came then.
	want, _ := json.Marshal(agent.Repair(h.history[:len(h.history)-1]))
	got, _ := json.Marshal(m.asked[len(m.asked)-1].Messages)
	if string(want) != string(got) {
		t.Error("the host's history is not what the model saw")
	}
}

func TestDigestIsWithinItsBoundAndKeepsTheEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages := conversation(t)
		bound := rapid.IntRange(40, 3_000).Draw(t, "bound")
		d := agent.Digest(messages, bound)
		if n := agent.EstimateTokens([]chat.Message{d}); n > bound {
			t.Fatalf("%d tokens, bound %d", n, bound)
		}
	})
}

func TestKeepFromNeverSeparatesACallFromItsResult(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages := agent.Repair(conversation(t))
		tokens := rapid.IntRange(0, 3_000).Draw(t, "tokens")
		keep := agent.KeepFrom(messages, tokens)
		if len(messages) == 0 {
			return
		}
		if keep < 1 || keep > len(messages) {
			t.Fatalf("keep %d of %d", keep, len(messages))
		}
		for _, half := range [][]chat.Message{messages[:keep], messages[keep:]} {
			if p := malformed(half); p != "" {
				t.Fatal(p)
			}
		}
		if agent.EstimateTokens(messages[keep:]) > tokens {
			t.Fatal("more than asked for")
		}
	})
}

// unanswered returns the messages that the model has not seen: the last step and what
// follows it.
func unanswered(messages []chat.Message) []chat.Message {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == chat.Assistant {
			return messages[i:]
		}
	}
	return messages
}

// shrinking is a host that compares the removed messages with their summary.
type shrinking struct {
	*host
	t *rapid.T
}

func (s *shrinking) Compacted(ctx context.Context, summary chat.Message, keep int) error {
	gone, left := agent.EstimateTokens(s.history[:keep]), agent.EstimateTokens([]chat.Message{summary})
	if left >= gone {
		s.t.Errorf("a summary of %d tokens stands for %d", left, gone)
	}
	for _, half := range [][]chat.Message{s.history[:keep], s.history[keep:]} {
		if p := malformed(half); p != "" {
			s.t.Errorf("compacted at %d: %s", keep, p)
		}
	}
	return s.host.Compacted(ctx, summary, keep)
}

// Whatever the conversation, the window and the model's summaries are like: a
// compaction shrinks, the prompt fits, and neither the operator's instructions
// nor the request are lost.
func TestEveryCompactionShrinksAndLosesNoRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const instructions = "the operator's instructions"
		window := rapid.IntRange(2_000, 20_000).Draw(t, "window")
		in := question()
		in.Messages = append(agent.Repair(conversation(t)), chat.Text(chat.User, "the last request"))
		summary := map[string]func(llm.Request) reply{
			"none": nil,
			"good": func(llm.Request) reply { return say("They talked.") },
			"long": func(llm.Request) reply { return say(strings.Repeat("blah ", 5_000)) },
			"void": func(llm.Request) reply { return say(" \n") },
			"cut":  func(llm.Request) reply { return reply{chunks: []string{"They"}, stop: llm.StopLength} },
			"fail": func(llm.Request) reply { return reply{err: &fault.Error{Kind: fault.Unavailable, Message: "Busy."}} },
		}[rapid.SampledFrom([]string{"none", "good", "long", "void", "cut", "fail"}).Draw(t, "summary")]
		m := &model{info: llm.Info{ContextTokens: window, MaxOutputTokens: window / 8}, script: []reply{say("Hi")}, summary: summary}
		if rapid.Bool().Draw(t, "refused") {
			m.script = []reply{{err: &fault.Error{Kind: fault.Invalid, Code: "context_length", Message: "Too long."}}, say("Hi")}
		}
		h := &shrinking{host: newHost(), t: t}
		h.history = append(h.history, in.Messages...)
		out := agent.Run(t.Context(), agent.Config{Model: m, System: instructions}, in, all(h))
		if out.Err != nil && fault.KindOf(out.Err) != fault.TooLarge {
			t.Fatal(out.Err)
		}
		for _, p := range h.problems {
			t.Error(p)
		}
		for i, req := range m.asked {
			if req.System != instructions {
				t.Errorf("call %d: the operator's instructions were touched", i)
			}
			// What was not answered yet may take more than the share of the window, but not the room of the answer.
			n, most := agent.EstimateTokens(req.Messages), window*3/4
			if agent.EstimateTokens(unanswered(in.Messages)) > most/2 {
				most = window
			}
			if n > most || n+req.MaxOutputTokens > window {
				t.Errorf("call %d: %d tokens and room for %d in a window of %d", i, n, req.MaxOutputTokens, window)
			}
			if p := malformed(req.Messages); p != "" {
				t.Errorf("call %d: %s", i, p)
			}
			if !strings.Contains(fmt.Sprint(req.Messages), "the last request") {
				t.Errorf("call %d: the request is lost", i)
			}
		}
	})
}
