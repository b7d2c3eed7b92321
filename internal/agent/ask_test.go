package agent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/agent"
	"lilac/internal/agent/tool"
	"lilac/internal/foundation/chat"
)

// A run that needs an answer ends before the call and keeps the step open; another run
// continues with that call.
func TestARunStopsBeforeACallThatNeedsAnAnswer(t *testing.T) {
	var ran []string
	var asks bool
	permit := func(_ context.Context, c chat.Part) (agent.Permit, error) {
		if c.ToolName == "bash" {
			return agent.Permit{Ask: asks, Once: !asks}, nil
		}
		return agent.Permit{}, nil
	}
	named := func(name string) tool.Tool {
		return named(name, func(_ context.Context, c tool.Call) (tool.Result, error) {
			ran = append(ran, c.ID)
			return tool.Result{Text: name}, nil
		})
	}
	cfg := agent.Config{Tools: []tool.Tool{named("write"), named("bash")}, Permit: permit}
	asks = true
	h := newHost()
	m := &model{script: []reply{calls("One.", call("a", "write", `{}`), call("b", "bash", `{}`), call("c", "write", `{}`))}}
	out := play(t, t.Context(), m, cfg, question(), h)
	if !errors.Is(out.Err, agent.ErrAsk) || !slices.Equal(ran, []string{"a"}) {
		t.Fatalf("ended with %v after %v", out.Err, ran)
	}
	if got := strings.Join(h.log, ", "); got != "before 1, model 1, start a, end a" {
		t.Errorf("the host got %s", got)
	}

	asks = false
	h.log = nil
	in := question()
	in.Step, in.Text, in.Offset = 1, "One.", 4
	in.Pending = &agent.PendingStep{
		Message: chat.Message{Role: chat.Assistant, Parts: []chat.Part{chat.TextPart("One."), call("a", "write", `{}`), call("b", "bash", `{}`), call("c", "write", `{}`)}},
		Results: map[string]chat.Part{"a": chat.ToolResult("a", "write", "write", false)}, Started: map[string]bool{},
	}
	out = play(t, t.Context(), &model{script: []reply{say("Two.")}}, cfg, in, h)
	if out.Err != nil || !slices.Equal(ran, []string{"a", "b", "c"}) {
		t.Errorf("ended with %v after %v", out.Err, ran)
	}
}

// An approved call never runs twice, even if its tool is idempotent. The control is a call
// that needed no approval.
func TestAnApprovedCallThatWasStartedDoesNotRunAgain(t *testing.T) {
	for name, c := range map[string]struct {
		permit agent.Permit
		want   string
	}{
		"approved":                      {agent.Permit{Once: true}, unknown},
		"asked again":                   {agent.Permit{Ask: true}, unknown},
		"control: without approval":     {agent.Permit{}, "again"},
		"an answer is returned again":   {agent.Permit{Answer: "blue"}, "blue"},
		"a refusal is returned as such": {agent.Permit{Refusal: "no"}, "no"},
	} {
		t.Run(name, func(t *testing.T) {
			again := fakeTool{tool.Spec{Name: "again", Idempotent: true}, func(context.Context, tool.Call) (tool.Result, error) {
				return tool.Result{Text: "again"}, nil
			}}
			cfg := agent.Config{Tools: []tool.Tool{again}, Permit: func(context.Context, chat.Part) (agent.Permit, error) { return c.permit, nil }}
			in := question()
			in.Step = 1
			in.Pending = &agent.PendingStep{
				Message: chat.Message{Role: chat.Assistant, Parts: []chat.Part{call("a", "again", `{}`)}},
				Results: map[string]chat.Part{}, Started: map[string]bool{"a": true},
			}
			h := newHost()
			if out := play(t, t.Context(), &model{script: []reply{say("Two.")}}, cfg, in, h); out.Err != nil {
				t.Fatal(out.Err)
			}
			var got []string
			for _, m := range h.history {
				if m.Role == chat.Tool {
					text, _ := m.Parts[0].OutputText()
					got = append(got, text)
				}
			}
			if diff := cmp.Diff([]string{c.want}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A stop that comes while a run is about to ask ends the step as usual.
func TestAStopBeforeTheQuestionEndsTheStep(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	h := newHost()
	cfg := agent.Config{Tools: []tool.Tool{echo()}, Permit: func(context.Context, chat.Part) (agent.Permit, error) {
		cancel(agent.ErrCancelled)
		return agent.Permit{Ask: true}, nil
	}}
	out := play(t, ctx, &model{script: []reply{calls("One.", call("a", "echo", `{}`))}}, cfg, question(), h)
	if !errors.Is(out.Err, agent.ErrCancelled) || !strings.HasSuffix(strings.Join(h.log, ", "), "step 1") {
		t.Errorf("ended with %v: %v", out.Err, h.log)
	}
}
