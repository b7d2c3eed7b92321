package agent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/agent"
	"lilac/internal/agent/tool"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/demo"
	"lilac/internal/model/llm"
)

// TestStop is a table of interrupts, cancels and drains at different points of a run.
func TestStop(t *testing.T) {
	interrupt := func(h *host, _ context.CancelCauseFunc) { h.interrupt("wait!") }
	cancel := func(_ *host, stop context.CancelCauseFunc) { stop(agent.ErrCancelled) }
	drain := func(_ *host, stop context.CancelCauseFunc) { stop(agent.ErrDrain) }
	busy := fault.New(fault.Unavailable, "Busy.")
	const saying, silent, tooling, waiting = "saying", "silent", "tooling", "waiting"
	cases := map[string]struct {
		where  string
		stop   func(*host, context.CancelCauseFunc)
		log    string
		text   string
		err    error
		result []string // in the results of the tools
	}{
		"an interrupt keeps what was said": {
			where: saying, stop: interrupt, text: "I thin\n\nSorry.",
			log: "before 1, partial 1, step 1, before 2, model 2, step 2, would end",
		},
		"an interrupt of a silent model leaves no message": {
			where: silent, stop: interrupt, text: "Sorry.",
			log: "before 1, before 1, model 1, step 1, would end",
		},
		"an interrupt stops the tools": {
			where: tooling, stop: interrupt, text: "Sorry.",
			log: "before 1, model 1, start a, end a, start b, end b, step 1, before 2, model 2, step 2, would end",
			result: []string{
				"echo {}", "stopped by the user; its outcome is unknown", "not run: the user stopped this step before it started",
			},
		},
		"an interrupt ends the wait before a retry": {
			where: waiting, stop: interrupt, text: "Sorry.",
			log: "before 1, failed 1, before 1, model 1, step 1, would end",
		},
		"a cancel keeps what was said": {
			where: saying, stop: cancel, text: "I thin", err: agent.ErrCancelled, log: "before 1, partial 1, step 1",
		},
		"a cancel of a silent model leaves no message": {
			where: silent, stop: cancel, err: agent.ErrCancelled, log: "before 1",
		},
		"a cancel gives every call a result": {
			where: tooling, stop: cancel, err: agent.ErrCancelled,
			log:    "before 1, model 1, start a, end a, start b, end b, step 1",
			result: []string{"echo {}", "cancelled; its outcome is unknown", "not run: the user stopped this step before it started"},
		},
		"a cancel ends the wait before a retry": {
			where: waiting, stop: cancel, err: agent.ErrCancelled, log: "before 1, failed 1",
		},
		"a drain records nothing of the answer": {
			where: saying, stop: drain, err: agent.ErrDrain, log: "before 1",
		},
		"a drain records nothing of the tools": {
			where: tooling, stop: drain, err: agent.ErrDrain, log: "before 1, model 1, start a, end a, start b",
		},
		"a drain ends the wait before a retry": {
			where: waiting, stop: drain, err: agent.ErrDrain, log: "before 1, failed 1",
		},
		"a context that ends for another reason drains": {
			where: saying, stop: func(_ *host, stop context.CancelCauseFunc) { stop(errors.New("shutdown")) },
			err: agent.ErrDrain, log: "before 1",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				begun := make(chan struct{}, 1)
				first := map[string]reply{
					saying:  {chunks: []string{"I ", "thin"}, calls: []chat.Part{call("x", "echo", "")}, hang: true},
					silent:  {hang: true},
					tooling: calls("", call("a", "echo", `{}`), call("b", "hang", `{}`), call("c", "echo", `{}`)),
					waiting: {err: busy},
				}[c.where]
				m := &model{script: []reply{first, say("Sorry.")}}
				h := newHost()
				cfg := agent.Config{
					Retries: 1, Backoff: func(int) time.Duration { return time.Hour },
					Tools: []tool.Tool{echo(), hanging("hang", begun)},
				}
				done := make(chan agent.Outcome)
				in := question()
				h.history = slices.Clone(in.Messages)
				cfg.Model = m
				go func() { done <- agent.Run(ctx, cfg, in, all(h)) }()
				synctest.Wait()
				at := time.Now()
				c.stop(h, cancel)
				out := <-done
				if late := time.Since(at); late >= time.Second {
					t.Errorf("stopped after %s", late)
				}
				checkRun(t, m, h, out)
				if d := cmp.Diff(c.log, strings.Join(h.log, ", ")); d != "" {
					t.Error(d)
				}
				if out.Text != c.text || !errors.Is(out.Err, c.err) || (c.err == nil) != (out.Err == nil) {
					t.Errorf("text %q, error %v; want %q, %v", out.Text, out.Err, c.text, c.err)
				}
				if d := cmp.Diff(c.result, allResults(h)); d != "" {
					t.Error(d)
				}
				if c.err == nil {
					last := m.asked[len(m.asked)-1].Messages
					if got := last[len(last)-1].Text(); got != "wait!" {
						t.Errorf("after the interrupt the model was asked %q", got)
					}
				}
			})
		})
	}
}

func allResults(h *host) []string {
	var out []string
	for _, m := range h.history {
		for _, p := range m.ToolResults() {
			text, _ := p.OutputText()
			out = append(out, text)
		}
	}
	return out
}

func TestAToolThatIgnoresItsContextDoesNotBlockTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		release := make(chan struct{})
		deaf := named("deaf", func(_ context.Context, c tool.Call) (tool.Result, error) {
			cancel(agent.ErrCancelled)
			<-release
			c.Progress("too late")
			return tool.Result{Text: "too late"}, nil
		})
		h := newHost()
		m := &model{script: []reply{calls("", call("a", "deaf", `{}`))}}
		at := time.Now()
		out := play(t, ctx, m, agent.Config{Tools: []tool.Tool{deaf}}, question(), h)
		if late := time.Since(at); late >= time.Second || !errors.Is(out.Err, agent.ErrCancelled) {
			t.Errorf("%v after %s", out.Err, late)
		}
		close(release)
		synctest.Wait()
		if h.index("progress a too late") >= 0 {
			t.Error("progress of a call that had ended")
		}
	})
}

func TestInterruptsWithoutMessagesCannotSpin(t *testing.T) {
	h := newHost()
	m := &model{}
	for range 20 {
		m.script = append(m.script, reply{during: func() { h.interrupts.Raise(); time.Sleep(time.Millisecond) }, chunks: []string{"x"}})
	}
	out := play(t, t.Context(), m, agent.Config{}, question(), h)
	if out.Err != nil || len(m.asked) > 5 {
		t.Errorf("%v after %d calls", out.Err, len(m.asked))
	}
}

func TestAHangingStoreCannotBlockACancelledRunForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		m := &model{script: []reply{{chunks: []string{"x"}, during: func() { cancel(agent.ErrCancelled) }, hang: true}}}
		h := &slowHost{host: newHost()}
		begun := time.Now()
		out := agent.Run(ctx, agent.Config{Model: m}, question(), all(h))
		if out.Err == nil || time.Since(begun) > time.Minute {
			t.Errorf("%v after %s", out.Err, time.Since(begun))
		}
	})
}

// slowHost has a store that never answers.
type slowHost struct{ *host }

func (h *slowHost) ModelDone(ctx context.Context, _ agent.Step) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestADrainDoesNotWaitForARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		time.AfterFunc(time.Second, func() { cancel(agent.ErrDrain) })
		begun := time.Now()
		out := agent.Run(ctx, agent.Config{Model: &model{script: []reply{say("x")}}}, question(), all(&slowHost{host: newHost()}))
		if out.Err != agent.ErrDrain || time.Since(begun) != time.Second {
			t.Errorf("%v after %s", out.Err, time.Since(begun))
		}
	})
}

// The demo model, whose rules stand for the sense of a language model, heeds the note.
func TestTheDemoModelDoesNotAnswerStoppedWork(t *testing.T) {
	messages := []chat.Message{chat.Text(chat.User, "count to 30"), chat.Text(chat.System, agent.StoppedNote), chat.Text(chat.User, "and you?")}
	answer := ""
	for c, err := range demo.New(demo.Options{Delay: -1}).Stream(t.Context(), llm.Request{Messages: messages}) {
		if err != nil {
			t.Fatal(err)
		}
		answer += c.Text
	}
	if !strings.Contains(answer, "You said: “and you?”.") {
		t.Errorf("the answer is %q", answer)
	}
}
