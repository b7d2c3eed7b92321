package agent_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/agent"
	"lilac/internal/agent/tool"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
)

const unknown = "The process was restarted while this ran. Its outcome is unknown: check before repeating."

func TestResume(t *testing.T) {
	pending := func(cs ...chat.Part) chat.Message {
		return chat.Message{Role: chat.Assistant, Parts: append([]chat.Part{chat.TextPart("One.")}, cs...)}
	}
	abc := pending(call("a", "echo", `{}`), call("b", "count", `{}`), call("c", "echo", `{}`))
	cases := map[string]struct {
		in      func(*agent.Input)
		log     string
		text    string
		results []string
		counted int
	}{
		"results that are known are kept, a started call is unknown, the rest runs": {
			in: func(in *agent.Input) {
				in.Pending = &agent.PendingStep{
					Message: abc,
					Results: map[string]chat.Part{"a": chat.ToolResult("a", "echo", "kept", false)},
					Started: map[string]bool{"b": true},
				}
			},
			log:  "end b, start c, end c, step 1, before 2, model 2, step 2, would end",
			text: "One.\n\nTwo.", results: []string{"kept", unknown, "echo {}"},
		},
		"a started call of an idempotent tool is run again": {
			in: func(in *agent.Input) {
				in.Pending = &agent.PendingStep{Message: pending(call("a", "again", `{}`)), Started: map[string]bool{"a": true}}
			},
			log:  "start a, end a, step 1, before 2, model 2, step 2, would end",
			text: "One.\n\nTwo.", results: []string{"again"}, counted: 1,
		},
		"a started call of a tool that is gone is unknown": {
			in: func(in *agent.Input) {
				in.Pending = &agent.PendingStep{Message: pending(call("a", "gone", `{}`)), Started: map[string]bool{"a": true}}
			},
			log:  "end a, step 1, before 2, model 2, step 2, would end",
			text: "One.\n\nTwo.", results: []string{unknown},
		},
		"calls that never started run": {
			in:   func(in *agent.Input) { in.Pending = &agent.PendingStep{Message: abc} },
			log:  "start a, end a, start b, end b, start c, end c, step 1, before 2, model 2, step 2, would end",
			text: "One.\n\nTwo.", results: []string{"echo {}", "counted", "echo {}"}, counted: 1,
		},
		"an answer without tools whose step was not appended ends": {
			in:  func(in *agent.Input) { in.Pending = &agent.PendingStep{Message: pending()} },
			log: "step 1, would end", text: "One.",
		},
		"an interrupted answer whose step was not appended goes on": {
			in:  func(in *agent.Input) { in.Pending = &agent.PendingStep{Message: pending(), Interrupted: true} },
			log: "step 1, before 2, model 2, step 2, would end", text: "One.\n\nTwo.",
		},
		"a run that had ended but was not closed": {
			in: func(in *agent.Input) {
				in.Ended = true
				in.Messages = append(in.Messages, pending())
			},
			log: "would end", text: "One.",
		},
		"between two steps": {
			in:  func(in *agent.Input) { in.Messages = append(in.Messages, pending()) },
			log: "before 2, model 2, step 2, would end", text: "One.\n\nTwo.",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			counted := 0
			count := named("count", func(context.Context, tool.Call) (tool.Result, error) {
				counted++
				return tool.Result{Text: "counted"}, nil
			})
			again := named("again", func(context.Context, tool.Call) (tool.Result, error) {
				counted++
				return tool.Result{Text: "again"}, nil
			})
			again.spec.Idempotent = true
			in := question()
			in.Step, in.Text, in.Offset = 1, "One.", 4
			in.Usage = chat.Usage{InputTokens: 5}
			c.in(&in)
			h := newHost()
			h.streamed = []byte("One.")
			h.journal = []agent.Step{{Number: 1, Message: pending(), Offset: 4}}
			m := &model{script: []reply{{chunks: []string{"Two."}, usage: chat.Usage{InputTokens: 5}}}}
			out := play(t, t.Context(), m, agent.Config{Tools: []tool.Tool{echo(), count, again}}, in, h)
			if d := cmp.Diff(c.log, strings.Join(h.log, ", ")); d != "" {
				t.Error(d)
			}
			if out.Err != nil || out.Text != c.text || counted != c.counted || out.Usage.InputTokens != int64(5*len(h.journal)) {
				t.Errorf("%+v, counted %d", out, counted)
			}
			if d := cmp.Diff(c.results, allResults(h)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestCountersContinueAfterARestart(t *testing.T) {
	in := question()
	in.Step = 3
	in.Usage = chat.Usage{InputTokens: 50, CostMicros: 70}
	for name, budget := range map[string]func(int, chat.Usage) error{"steps": atMost(3, 0, 0), "tokens": atMost(9, 50, 0), "money": atMost(9, 0, 70)} {
		h := newHost()
		h.budget = budget
		out := play(t, t.Context(), &model{script: []reply{say("never")}}, agent.Config{}, in, h)
		if fault.KindOf(out.Err) != fault.LimitReached {
			t.Errorf("%s: %v", name, out.Err)
		}
	}
	if out := play(t, t.Context(), &model{script: []reply{say("ever")}}, agent.Config{}, in, newHost()); out.Err != nil || out.Steps != 4 {
		t.Errorf("control without limits: %+v", out)
	}
}

func TestCancelOfAPendingStepStillGivesEveryCallAResult(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(agent.ErrCancelled)
	in := question()
	in.Step = 1
	in.Pending = &agent.PendingStep{
		Message: chat.Message{Role: chat.Assistant, Parts: []chat.Part{call("a", "echo", `{}`), call("b", "echo", `{}`)}},
		Started: map[string]bool{"a": true},
	}
	h := newHost()
	out := play(t, ctx, &model{}, agent.Config{Tools: []tool.Tool{echo()}}, in, h)
	if out.Err != agent.ErrCancelled {
		t.Error(out.Err)
	}
	if d := cmp.Diff("end a, step 1", strings.Join(h.log, ", ")); d != "" {
		t.Error(d)
	}
}
