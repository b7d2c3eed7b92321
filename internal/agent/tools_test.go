package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/agent"
	"lilac/internal/agent/tool"
	"lilac/internal/foundation/chat"
)

func TestToolEndings(t *testing.T) {
	cases := map[string]struct {
		run    func(ctx context.Context, c tool.Call) (tool.Result, error)
		want   string
		failed bool
	}{
		"a result": {func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{Text: "ok"}, nil }, "ok", false},
		"a failure": {func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{Text: "no", Failed: true}, nil
		}, "no", true},
		"an error": {func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{}, errors.New("boom") }, "The tool failed: boom", true},
		"a panic":  {func(context.Context, tool.Call) (tool.Result, error) { panic("ouch") }, "The tool crashed: ouch", true},
		"a time-out": {func(ctx context.Context, _ tool.Call) (tool.Result, error) {
			<-ctx.Done()
			return tool.Result{}, ctx.Err()
		}, "stopped after 1m0s", true},
		"a deaf one": {func(context.Context, tool.Call) (tool.Result, error) {
			time.Sleep(time.Hour)
			return tool.Result{}, nil
		}, "stopped after 1m0s", true},
		"too much": {func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{Text: strings.Repeat("é", 1<<20)}, nil
		}, "ééé", false},
		"partial output of a killed command": {func(ctx context.Context, _ tool.Call) (tool.Result, error) {
			<-ctx.Done()
			return tool.Result{Text: "line 1", Failed: true}, nil
		}, "line 1", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost()
				m := &model{script: []reply{calls("", call("a", "t", `{}`)), say("Ok.")}}
				out := play(t, t.Context(), m, agent.Config{Tools: []tool.Tool{named("t", c.run)}, ToolTimeout: time.Minute}, question(), h)
				text, failed := h.results["a"].OutputText()
				if h.results["a"].Type == "" {
					text, failed = h.history[2].ToolResults()[0].OutputText()
				}
				if out.Err != nil || failed != c.failed || !strings.Contains(text, c.want) || len(text) > 300_000 {
					t.Errorf("%v: %v %.100q", out.Err, failed, text)
				}
				time.Sleep(2 * time.Hour) // the deaf one ends
			})
		})
	}
}

func TestParallelSafeToolsRunInParallelAndTheOthersInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		var alone atomic.Bool
		alone.Store(true)
		safe := named("safe", func(context.Context, tool.Call) (tool.Result, error) {
			n := now.Add(1)
			defer now.Add(-1)
			for {
				m := most.Load()
				if n <= m || most.CompareAndSwap(m, n) {
					break
				}
			}
			time.Sleep(time.Second)
			return tool.Result{Text: "s"}, nil
		})
		safe.spec.ParallelSafe = true
		unsafe := named("unsafe", func(context.Context, tool.Call) (tool.Result, error) {
			if now.Load() != 0 {
				alone.Store(false)
			}
			time.Sleep(time.Second)
			return tool.Result{Text: "u"}, nil
		})
		var cs []chat.Part
		for i := range 10 {
			cs = append(cs, call(fmt.Sprint("a", i), "safe", `{}`))
		}
		cs = append(cs, call("u1", "unsafe", `{}`), call("u2", "unsafe", `{}`), call("z", "safe", `{}`))
		h := newHost()
		begun := time.Now()
		play(t, t.Context(), &model{script: []reply{calls("", cs...), say("Ok.")}}, agent.Config{Tools: []tool.Tool{safe, unsafe}}, question(), h)
		if most.Load() != 8 || !alone.Load() {
			t.Errorf("%d side by side; unsafe ran alone: %v", most.Load(), alone.Load())
		}
		if took := time.Since(begun); took != 5*time.Second {
			t.Errorf("took %s: 10 safe ones in two rounds, two unsafe ones, one safe one", took)
		}
		if h.index("end a9") > h.index("start u1") || h.index("end u1") > h.index("start u2") || h.index("end u2") > h.index("start z") {
			t.Error("out of order:", h.log)
		}
	})
}

func TestToolsGetTheirCallAndShowProgress(t *testing.T) {
	var got tool.Call
	spy := named("spy", func(_ context.Context, c tool.Call) (tool.Result, error) {
		got = c
		c.Progress("half way")
		return tool.Result{Text: "ok"}, nil
	})
	h := newHost()
	m := &model{script: []reply{calls("", call("a", "spy", `{"x":1}`)), say("Ok.")}}
	play(t, t.Context(), m, agent.Config{Tools: []tool.Tool{spy}, Workspace: "/ws"}, question(), h)
	if got.ID != "a" || string(got.Input) != `{"x":1}` || got.RequestID != "web:s:1" || got.SessionID != "s" || got.Client != "web" || got.Workspace != "/ws" {
		t.Errorf("call %+v", got)
	}
	if i := h.index("progress a half way"); i < h.index("start a") || i > h.index("end a") {
		t.Error(h.log)
	}
}

func TestToolsCallTheHostOneAtATime(t *testing.T) {
	safe := named("safe", func(_ context.Context, c tool.Call) (tool.Result, error) {
		c.Progress("at work")
		return tool.Result{Text: "s"}, nil
	})
	safe.spec.ParallelSafe = true
	var cs []chat.Part
	for i := range 50 {
		cs = append(cs, call(fmt.Sprint("a", i), "safe", `{}`))
	}
	h := newHost()
	h.on = func(string) {
		for range 100 {
			runtime.Gosched()
		}
	}
	play(t, t.Context(), &model{script: []reply{calls("", cs...), say("Ok.")}}, agent.Config{Tools: []tool.Tool{safe}}, question(), h)
	var begun []string
	for _, e := range h.log {
		if id, is := strings.CutPrefix(e, "start "); is {
			begun = append(begun, id)
		}
	}
	for i, id := range begun {
		if id != cs[i].ToolCallID {
			t.Fatalf("they began in the order %v", begun)
		}
	}
}

// An answer that calls more tools than run is no mistake of the protocol: those
// beyond are answered, so that the model can call them again.
func TestCallsBeyondTheMaximumDoNotRun(t *testing.T) {
	const n, run = 150, 128
	var all []chat.Part
	for i := range n {
		all = append(all, call(fmt.Sprint("c", i), "count", `{}`))
	}
	var ran atomic.Int64
	count := named("count", func(context.Context, tool.Call) (tool.Result, error) {
		ran.Add(1)
		return tool.Result{Text: "ok"}, nil
	})
	h := newHost()
	out := play(t, t.Context(), &model{script: []reply{calls("", all...), say("Done.")}}, agent.Config{Tools: []tool.Tool{count}}, question(), h)
	results := h.history[2].ToolResults()
	if out.Err != nil || ran.Load() != run || len(results) != n {
		t.Fatalf("%v: %d ran, %d have a result", out.Err, ran.Load(), len(results))
	}
	for i, r := range results {
		text, failed := r.OutputText()
		if failed != (i >= run) || failed && !strings.Contains(text, "only the first 128 run") {
			t.Errorf("the call %d: %q", i, text)
		}
	}
}

// JSON escapes these characters when it is stored, so a call that was sent as the model wrote
// it would change between two requests.
func TestACallIsSentAsItIsStored(t *testing.T) {
	m, h := &model{script: []reply{calls("", call("c1", "echo", `{"text":"<a> & <b>"}`)), say("Done.")}}, newHost()
	out := play(t, t.Context(), m, agent.Config{Tools: []tool.Tool{echo()}}, question(), h)
	if out.Err != nil || len(m.asked) != 2 {
		t.Fatalf("%d calls: %v", len(m.asked), out.Err)
	}
	for _, sent := range m.asked[1].Messages {
		data, err := json.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		var stored chat.Message
		if err := json.Unmarshal(data, &stored); err != nil {
			t.Fatal(err)
		}
		for i, p := range sent.Parts {
			if got, want := string(p.Input), string(stored.Parts[i].Input); got != want {
				t.Errorf("sent the input %s, stored %s", got, want)
			}
			if got, want := string(p.Output), string(stored.Parts[i].Output); got != want {
				t.Errorf("sent the output %s, stored %s", got, want)
			}
		}
	}
}
