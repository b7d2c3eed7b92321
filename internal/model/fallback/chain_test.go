package fallback_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/fallback"
	"lilac/internal/model/llm"
)

// fake is a model that fails with the next of its errors; nil means that it answers.
type fake struct {
	name  string
	errs  []error
	late  bool // it fails in the middle of its answer
	hears bool
	calls int
}

func (f *fake) Info() llm.Info { return llm.Info{Provider: "p", Name: f.name, Audio: f.hears} }

func (f *fake) Stream(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		var err error
		if f.calls < len(f.errs) {
			err = f.errs[f.calls]
		}
		f.calls++
		if (err == nil || f.late) && !yield(llm.Chunk{Kind: llm.ChunkText, Text: f.name}, nil) {
			return
		}
		if err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		yield(llm.Chunk{Kind: llm.ChunkDone, Message: chat.Text(chat.Assistant, f.name)}, nil)
	}
}

type world struct {
	breakers fallback.Breakers
	now      time.Time
	switches []fallback.Switch
}

func (w *world) chain(models ...*fake) *fallback.Chain {
	var candidates []fallback.Candidate
	for i, m := range models {
		candidates = append(candidates, fallback.Candidate{Model: m, Name: "p/" + m.name, Key: m.name + string(rune('0'+i))})
	}
	c := fallback.New(candidates, &w.breakers, func() time.Time { return w.now })
	c.OnSwitch(func(s fallback.Switch) error {
		w.switches = append(w.switches, s)
		return nil
	})
	return c
}

func call(t *testing.T, c *fallback.Chain) (text string, err error) {
	t.Helper()
	for chunk, failed := range c.Stream(t.Context(), llm.Request{}) {
		text, err = text+chunk.Text, failed
	}
	return text, err
}

func broken(kind fault.Kind, message string, after time.Duration) error {
	return &fault.Error{Kind: kind, Message: message, RetryAfter: after}
}

func TestTheNextModelTakesOver(t *testing.T) {
	w := &world{now: start}
	a, b := &fake{name: "a", errs: []error{broken(fault.Unavailable, "A is down.", 0)}}, &fake{name: "b"}
	c := w.chain(a, b)
	if text, err := call(t, c); text != "b" || err != nil || c.Info().Name != "b" {
		t.Fatalf("%q, %v, %s", text, err, c.Info().Name)
	}
	if len(w.switches) != 1 || w.switches[0] != (fallback.Switch{From: "p/a", To: "p/b", Reason: "A is down."}) {
		t.Errorf("switches: %+v", w.switches)
	}
	// The chain keeps the model that works; the next request begins at the first again.
	if text, _ := call(t, c); text != "b" || a.calls != 1 {
		t.Errorf("the next call: %q", text)
	}
	if text, _ := call(t, w.chain(a, b)); text != "a" {
		t.Errorf("the next request: %q", text)
	}
}

func TestAnotherKeyIsTriedBeforeAnotherModel(t *testing.T) {
	w := &world{now: start}
	limited := &fake{name: "a", errs: []error{broken(fault.RateLimited, "Slow down.", time.Minute)}}
	second, other := &fake{name: "a"}, &fake{name: "b"}
	if text, err := call(t, w.chain(limited, second, other)); text != "a" || err != nil || second.calls != 1 || len(w.switches) != 0 {
		t.Errorf("%q, %v, %+v", text, err, w.switches)
	}
	// An endpoint that is down is not asked again with another key.
	w = &world{now: start}
	down := &fake{name: "a", errs: []error{broken(fault.Unavailable, "Down.", 0)}}
	second = &fake{name: "a"}
	if text, _ := call(t, w.chain(down, second, other)); text != "b" || second.calls != 0 {
		t.Errorf("%q after %d calls with the second key", text, second.calls)
	}
}

func TestADemandedWaitIsObeyedByAllRequests(t *testing.T) {
	w := &world{now: start}
	a, b := &fake{name: "a", errs: []error{broken(fault.RateLimited, "Slow down.", time.Minute)}}, &fake{name: "b"}
	_, _ = call(t, w.chain(a, b))
	w.now = start.Add(59 * time.Second)
	if text, _ := call(t, w.chain(a, b)); text != "b" || a.calls != 1 {
		t.Errorf("%q, a was called %d times", text, a.calls)
	}
	alone := w.chain(a)
	_, err := call(t, alone)
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind != fault.RateLimited || f.RetryAfter != time.Second || !strings.Contains(f.Message, "Slow down") || a.calls != 1 {
		t.Errorf("alone: %+v", err)
	}
	w.now = start.Add(time.Minute)
	if text, err := call(t, alone); text != "a" || err != nil {
		t.Errorf("after the wait: %q, %v", text, err)
	}
}

func TestIfEveryModelFailsTheErrorSaysWhyForEach(t *testing.T) {
	w := &world{now: start}
	a := &fake{name: "a", errs: []error{broken(fault.Denied, "No credit left.", 0)}}
	b := &fake{name: "b", errs: []error{broken(fault.Unavailable, "B is overloaded.", 0)}}
	c := w.chain(a, b)
	_, err := call(t, c)
	said := fault.ToWire(err).Message
	if !strings.Contains(said, "p/a: No credit left.") || !strings.Contains(said, "p/b: B is overloaded.") || !fault.KindOf(err).Retryable() {
		t.Errorf("%v: %s", fault.KindOf(err), said)
	}
	// The caller may repeat the call; then every model is called again.
	if text, err := call(t, c); err != nil || text == "" {
		t.Errorf("the next call: %q, %v", text, err)
	}
	for kind, retryable := range map[fault.Kind]bool{fault.Denied: false, fault.Invalid: false, fault.Timeout: true} {
		w := &world{now: start}
		_, err := call(t, w.chain(&fake{name: "a", errs: []error{broken(kind, "x", 0)}}, &fake{name: "b", errs: []error{broken(fault.Invalid, "y", 0)}}))
		if fault.KindOf(err).Retryable() != retryable {
			t.Errorf("%s and invalid: %v", kind, err)
		}
	}
}

func TestAnAnswerIsNotContinuedByAnotherModel(t *testing.T) {
	w := &world{now: start}
	a, b := &fake{name: "a", late: true, errs: []error{broken(fault.Unavailable, "Broke off.", 0)}}, &fake{name: "b"}
	c := w.chain(a, b)
	if text, err := call(t, c); text != "a" || err == nil || b.calls != 0 {
		t.Fatalf("%q, %v", text, err)
	}
	if text, err := call(t, c); text != "b" || err != nil || len(w.switches) != 1 || w.switches[0].Reason != "Broke off." {
		t.Errorf("repeated: %q, %v, %+v", text, err, w.switches)
	}
}

func TestARefusalThatTheAgentRepairsIsReturned(t *testing.T) {
	w := &world{now: start}
	tooLong := &fault.Error{Kind: fault.Invalid, Code: llm.CodeContextLength, Message: "Too long."}
	a, b := &fake{name: "a", errs: []error{tooLong}}, &fake{name: "b"}
	if _, err := call(t, w.chain(a, b)); !errors.Is(err, tooLong) || b.calls != 0 {
		t.Errorf("%v", err)
	}
}

func TestASwitchThatCannotBeRecordedEndsTheCall(t *testing.T) {
	w := &world{now: start}
	b := &fake{name: "b"}
	c := w.chain(&fake{name: "a", errs: []error{broken(fault.Unavailable, "Down.", 0)}}, b)
	failed := errors.New("disk full")
	c.OnSwitch(func(fallback.Switch) error { return failed })
	if _, err := call(t, c); !errors.Is(err, failed) || b.calls != 0 {
		t.Errorf("%v", err)
	}
}

// silent is a model that is silent until its own limit or that of the request ends.
type silent struct {
	fake
	world *world
	limit time.Duration
	asked []time.Duration
}

func (s *silent) Stream(_ context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		limit := s.limit
		if req.SilenceLimit > 0 {
			limit = min(limit, req.SilenceLimit)
		}
		s.asked = append(s.asked, req.SilenceLimit)
		s.world.now = s.world.now.Add(limit)
		yield(llm.Chunk{}, &fault.Error{Kind: fault.Timeout, Code: llm.CodeSilent, Message: "Silent."})
	}
}

func TestTheSilenceOfAWholeChainIsBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		limits []time.Duration // of the models
		asked  int             // how many are called
	}{
		"two":                   {[]time.Duration{2 * time.Minute, 2 * time.Minute}, 2},
		"four":                  {[]time.Duration{2 * time.Minute, 2 * time.Minute, 2 * time.Minute, 2 * time.Minute}, 3},
		"a patient one first":   {[]time.Duration{10 * time.Minute, time.Minute}, 1},
		"a patient one at last": {[]time.Duration{2 * time.Minute, 10 * time.Minute}, 2},
	} {
		w := &world{now: start}
		var candidates []fallback.Candidate
		var models []*silent
		for i, limit := range tt.limits {
			m := &silent{fake: fake{name: string(rune('a' + i))}, world: w, limit: limit}
			models = append(models, m)
			candidates = append(candidates, fallback.Candidate{Model: m, Name: "p/" + m.name, Key: m.name})
		}
		_, err := call(t, fallback.New(candidates, &w.breakers, func() time.Time { return w.now }))
		asked := 0
		for _, m := range models {
			asked += len(m.asked)
		}
		if took := w.now.Sub(start); took > max(llm.MaxSilence, tt.limits[0]) || asked != tt.asked || !llm.IsSilent(err) {
			t.Errorf("%s: %d models were silent for %v: %v", name, asked, took, err)
		}
	}
}

func TestDemandedWaitsOutliveTheProcess(t *testing.T) {
	saved := map[string]fallback.State{}
	save := func(key string, s fallback.State) {
		if saved[key] = s; s == (fallback.State{}) {
			delete(saved, key)
		}
	}
	w := &world{now: start}
	w.breakers.Keep(nil, save)
	long := &fake{name: "a", errs: []error{broken(fault.RateLimited, "Come back later.", time.Hour)}}
	short := &fake{name: "b", errs: []error{broken(fault.RateLimited, "Slow down.", time.Second)}}
	down := &fake{name: "c", errs: []error{broken(fault.Unavailable, "Down.", 0)}}
	_, _ = call(t, w.chain(long, short, down))
	if len(saved) != 1 || saved["a0"].Reason != "Come back later." {
		t.Fatalf("saved %+v", saved)
	}
	// The next process does not call it before the time is over, and forgets the wait then.
	next := &world{now: start.Add(59 * time.Minute)}
	next.breakers.Keep(saved, save)
	again, other := &fake{name: "a"}, &fake{name: "b"}
	if text, err := call(t, next.chain(again, other)); text != "b" || again.calls != 0 {
		t.Errorf("%q, %v", text, err)
	}
	next.now = start.Add(time.Hour)
	if text, err := call(t, next.chain(again, other)); text != "a" || len(saved) != 0 {
		t.Errorf("%q, %v, saved %+v", text, err, saved)
	}
	// Control: without its breakers, it calls at once.
	forgetful := &world{now: start.Add(time.Minute)}
	if text, _ := call(t, forgetful.chain(again, other)); text != "a" {
		t.Errorf("without the breakers: %q", text)
	}
}

// The same messages go to every model, so a recording stays one only if all of them hear it.
func TestAChainHearsIfAllItsModelsDo(t *testing.T) {
	var w world
	hears, deaf := &fake{name: "a", hears: true}, &fake{name: "b"}
	for _, c := range []struct {
		chain *fallback.Chain
		want  bool
	}{
		{w.chain(hears), true},
		{w.chain(hears, hears), true},
		{w.chain(hears, deaf), false},
		{w.chain(deaf, hears), false},
	} {
		if got := c.chain.Info().Audio; got != c.want {
			t.Errorf("it hears: %v, want %v", got, c.want)
		}
	}
}
