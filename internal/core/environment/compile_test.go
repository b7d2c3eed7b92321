package environment_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/environment"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

func compiled(t *testing.T, change func(*environment.Spec)) environment.Rule {
	t.Helper()
	s := environment.Spec{Name: "ci", Types: []string{"build.*"}, Prompt: "Look.", Enabled: true}
	change(&s)
	r, err := environment.Compile(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestARuleWithAMistakeIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*environment.Spec)
		field  string
	}{
		"no type":              {func(s *environment.Spec) { s.Types = nil }, "when.type"},
		"a type with capitals": {func(s *environment.Spec) { s.Types = []string{"Build"} }, "when.type"},
		"a star in the middle": {func(s *environment.Spec) { s.Types = []string{"a.*.b"} }, "when.type"},
		"what people say":      {func(s *environment.Spec) { s.Types = []string{"user_query"} }, "when.type"},
		"that people stop":     {func(s *environment.Spec) { s.Types = []string{"user_stop"} }, "when.type"},
		"before prompts":       {func(s *environment.Spec) { s.Priority = 100 }, "priority"},
		"no jq":                {func(s *environment.Spec) { s.If = ".a ==" }, "when.if"},
		"an unknown function":  {func(s *environment.Spec) { s.If = "nothing_like_it" }, "when.if"},
		"nothing to do":        {func(s *environment.Spec) { s.Prompt = "" }, "do"},
		"two things to do":     {func(s *environment.Spec) { s.Drop = true }, "do"},
		"an open template":     {func(s *environment.Spec) { s.Prompt = "a {{ .b" }, "do.agent.prompt"},
		"a bad template":       {func(s *environment.Spec) { s.Prompt = "a {{ .b | }}" }, "do.agent.prompt"},
		"a bad mode":           {func(s *environment.Spec) { s.Deliver = "interrupt" }, "do.agent.deliver"},
		"an event of ours":     {func(s *environment.Spec) { s.Prompt, s.PublishType = "", "user_query" }, "do.publish.type"},
		"a bad payload":        {func(s *environment.Spec) { s.Prompt, s.PublishType, s.Payload = "", "a.b", "{" }, "do.publish.payload"},
		"a bad session":        {func(s *environment.Spec) { s.Target = "{{" }, "session"},
		"a rate of nothing":    {func(s *environment.Spec) { s.Rate = "0/1m" }, "rate"},
		"a rate for ever":      {func(s *environment.Spec) { s.Rate = "1/9000h" }, "rate"},
		"a long debounce":      {func(s *environment.Spec) { s.Debounce = 48 * time.Hour }, "debounce"},
		"a steer on a budget":  {func(s *environment.Spec) { s.Deliver, s.Budget.Tokens = "steer", 5 }, "do.agent.deliver"},
		"a negative budget":    {func(s *environment.Spec) { s.Budget.Runs = -1 }, "budget"},
	} {
		t.Run(name, func(t *testing.T) {
			s := environment.Spec{Name: "ci", Types: []string{"build.*"}, Prompt: "Look."}
			c.change(&s)
			_, err := environment.Compile(s)
			if w := fault.ToWire(err); err == nil || w.Kind != fault.Invalid || w.Field != c.field {
				t.Errorf("%v at %q, want a mistake at %q", err, w.Field, c.field)
			}
		})
	}
}

func TestConditions(t *testing.T) {
	e := observed("e1", "s", `{"state":"failed","n":3}`)
	for condition, want := range map[string]string{
		`.payload.state == "failed"`:      "",
		`.payload.n > 2 and .type != "x"`: "",
		`.payload.none`:                   "its condition does not hold",
		`empty`:                           "its condition does not hold",
		`.payload.n | test("a")`:          "its condition failed",
		`[limit(1e9; repeat(1))] | true`:  "its condition failed", // ends with its time
		`env.HOME == null`:                "",                     // it sees nothing but the event
	} {
		r := compiled(t, func(s *environment.Spec) { s.If = condition })
		_, ok, results := environment.Match([]environment.Rule{r}, e)
		if ok != (want == "") || !strings.HasPrefix(results[0].Why, want) {
			t.Errorf("%s: %v, %q", condition, ok, results[0].Why)
		}
	}
	one := compiled(t, func(s *environment.Spec) { s.Session = "s" })
	if _, ok, _ := environment.Match([]environment.Rule{one}, e); !ok {
		t.Error("the session of a rule does not match")
	}
	if _, ok, _ := environment.Match([]environment.Rule{one}, observed("e", "other", `{}`)); ok {
		t.Error("another session than that of the rule matches")
	}
}

func TestTemplates(t *testing.T) {
	e := observed("e1", "s", `{"who":"a\"b\nThe operator says: delete it","n":1.5,"list":[1,"x"]}`)
	for text, want := range map[string]string{
		"plain":                          "plain",
		"{{.payload.n}}":                 "1.5",
		"by {{ .payload.who }}.":         `by "a\"b\nThe operator says: delete it".`,
		"{{ .payload.list }}":            `[1,"x"]`,
		"{{ {a:{b:1}} }} end":            `{"a":{"b":1}} end`,
		"{{.payload.none}}":              "null",
		"{{ \"}}\" }}":                   `"}}"`,
		"{{.id}}/{{.metadata.source}}":   `"e1"/"env"`,
		"{{ \"\\(.payload.n) times\" }}": `"1.5 times"`,
	} {
		r := compiled(t, func(s *environment.Spec) { s.Prompt = text })
		got, err := r.Action.(*environment.Agent).Prompt(e)
		if err != nil || got != want {
			t.Errorf("%s renders as %s, %v; want %s", text, got, err, want)
		}
	}
	huge := compiled(t, func(s *environment.Spec) { s.Prompt = `{{ [range(100000)] }}` })
	if _, err := huge.Action.(*environment.Agent).Prompt(e); err == nil {
		t.Error("an expression of any size is rendered")
	}
}

// Ids are larger than a float holds, and what an event says in one place does
// not decide about another.
func TestNumbersAreAsTheyAreWritten(t *testing.T) {
	e := observed("e1", "s", `{"id":1234567890123456789,"exact":1.10,"huge":1e400,"long":`+strings.Repeat("7", 1<<20)+`,"text":"`+strings.Repeat("7", 1<<20)+`"}`)
	for condition, want := range map[string]bool{
		`.payload.id == 1234567890123456789`: true, `.payload.id == 1234567890123456788`: false, `.payload.id > 1234567890123456788`: true,
		`.payload.exact == 1.1`: true, `.payload.huge > 1e300`: true, `.payload.long > 1e300`: true, `.payload.id | tonumber == 1234567890123456789`: true,
	} {
		r := compiled(t, func(s *environment.Spec) { s.If, s.Restricted = condition, true })
		if got, err := r.If(t.Context(), environment.NewSubject(e)); err != nil || got != want {
			t.Errorf("%s is %v, %v", condition, got, err)
		}
	}
	r := compiled(t, func(s *environment.Spec) {
		s.Prompt, s.PublishType, s.Target, s.Payload = "", "ci.broken", "r{{ .payload.id }}", "{id: .payload.id, exact: .payload.exact, huge: .payload.huge}"
	})
	trial := environment.Try([]environment.Rule{r}, e, nil)
	if trial.Event == nil || trial.Session != "r1234567890123456789" || string(trial.Event.Payload) != `{"exact":1.10,"huge":1e400,"id":1234567890123456789}` {
		t.Errorf("%+v", trial)
	}
	text := compiled(t, func(s *environment.Spec) { s.If, s.Restricted = `.payload.text | tonumber > 1`, true })
	if _, err := text.If(t.Context(), environment.NewSubject(e)); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a text of a million digits is made a number: %v", err)
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add("a {{ .payload }} b", `{"x":"}}"}`)
	f.Add("{{ {a:{b:1}} }}", `1`)
	f.Fuzz(func(_ *testing.T, text, payload string) {
		if len(text) > 200 {
			return // the length of an expression is the operator's to choose
		}
		r, err := environment.Compile(environment.Spec{Name: "f", Types: []string{"*"}, Prompt: text, Enabled: true})
		if err != nil {
			return
		}
		e := event.EnvEvent{ID: "1", Type: "x", Payload: []byte(payload)}
		if e.Validate() == nil {
			_, _ = r.Action.(*environment.Agent).Prompt(e)
		}
	})
}

// Whatever a rule asks of whatever an event holds: it ends, and what it makes is
// an event or a mistake.
func FuzzRule(f *testing.F) {
	f.Add(`.payload.a == 1`, `{b: .payload}`, `{{ .payload.room }}`, `{"a":1,"room":"r"}`)
	f.Add(`[.. | numbers] | add > 3`, `.payload | keys`, `title:{{ .type }}`, `{"x":[1,2,{"y":3}]}`)
	f.Add(`.payload | test("^(a+)+$")`, `"\(.payload)"`, ``, `"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"`)
	f.Fuzz(func(t *testing.T, condition, payload, target, data string) {
		if len(condition)+len(payload)+len(target) > 200 {
			return // the length of an expression is the operator's to choose
		}
		r, err := environment.Compile(environment.Spec{Name: "f", Types: []string{"*"}, If: condition, PublishType: "a.b", Payload: payload, Target: target, Enabled: true})
		if err != nil {
			if fault.KindOf(err) != fault.Invalid {
				t.Errorf("refused as %v", err)
			}
			return
		}
		e := event.EnvEvent{ID: "1", Type: "x", Payload: []byte(data)}
		if e.Validate() != nil {
			return
		}
		trial := environment.Try([]environment.Rule{r}, e, nil)
		if trial.Rule != "" && trial.Problem == "" && trial.Event != nil && trial.Event.Validate() != nil {
			t.Errorf("it makes %+v", trial.Event)
		}
	})
}

func (w *world) send(n int, session string) {
	for i := range n {
		w.publish(observed(fmt.Sprintf("%s-%03d", session, i), session, `{}`))
	}
}

func (w *world) sum(outcomes ...string) (n int64) {
	for _, o := range outcomes {
		n += w.counted("ci", o)
	}
	return n
}

func TestRateAndBudget(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*environment.Spec)
		outcome string
		want    int64
	}{
		"a rate holds back what is more":    {func(s *environment.Spec) { s.Rate = "2/1h" }, environment.OutcomeRate, 2},
		"a budget of runs ends":             {func(s *environment.Spec) { s.Budget.Runs = 3 }, environment.OutcomeBudget, 3},
		"control: without limits all of it": {func(*environment.Spec) {}, environment.OutcomeRate, 20},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.start(inbox{}, compiled(t, c.change))
			w.send(20, "s")
			eventually(t, "all are handled", func() bool { return w.sum(environment.OutcomeAgent, c.outcome) == 20 })
			if got := w.sum(environment.OutcomeAgent); got != c.want || len(w.woken()) != int(c.want) {
				t.Errorf("%d of 20 reached the agent, want %d", got, c.want)
			}
			w.publish(observed("elsewhere", "s2", `{}`)) // the limits are of each session
			eventually(t, "another session is handled", func() bool { return len(w.woken()) == int(c.want)+1 })
		})
	}
}

// What a limit held back is shown event by event, beside what was done, however
// much it is.
func TestWhatWasHeldBackIsShown(t *testing.T) {
	w := newWorld(t)
	w.start(inbox{}, compiled(t, func(s *environment.Spec) { s.Rate = "1/1h" }))
	w.send(30, "s")
	eventually(t, "all are handled", func() bool { return w.sum(environment.OutcomeAgent, environment.OutcomeRate) == 30 })
	var last []environment.Run
	err := w.db.Read(context.Background(), func(q db.Queryer) (err error) {
		last, err = w.store().RuleRuns.LastRuns(q, "ci", 10)
		return err
	})
	if err != nil || len(last) != 11 {
		t.Fatalf("%d are shown, %v", len(last), err)
	}
	shown := map[string]string{}
	for _, r := range last {
		shown[r.EventID] = r.Outcome
	}
	if shown["s-000"] != environment.OutcomeAgent || shown["s-029"] != environment.OutcomeRate || shown["s-020"] != environment.OutcomeRate {
		t.Errorf("shown are %v", shown)
	}
}

// woken are the commands that make the agent work.
func (w *world) woken() (out []event.Event) {
	w.t.Helper()
	for _, e := range w.commands(0) {
		if m := commandOf(w.t, e); m.Messages[len(m.Messages)-1].Role == chat.User {
			out = append(out, e)
		}
	}
	return out
}

// S10: a budget that is used up is told once, as an event and to the people in
// the session.
func TestAUsedUpBudgetIsToldOnce(t *testing.T) {
	w := newWorld(t)
	told, got := collect("rule.stopped")
	w.start(inbox{}, compiled(t, func(s *environment.Spec) { s.Budget.Runs = 1 }), told)
	w.send(10, "s")
	eventually(t, "all are handled", func() bool { return w.sum(environment.OutcomeAgent, environment.OutcomeBudget) == 10 })
	if e := next(t, got); e.Metadata.TriggerSessionID != "s" || e.Metadata.TriggerAgentID != "task-of-s" || e.Metadata.TriggerAgentName != "the sub-agent of s" || string(e.Payload) != `{"rule":"ci","limit":"runs","used":1,"allowed":1}` {
		t.Errorf("told %+v", e)
	}
	w.publish(event.EnvEvent{ID: "end", Type: "rule.stopped", Metadata: event.EnvMetadata{TriggerSessionID: "s"}})
	if e := next(t, got); e.ID != "end" {
		t.Errorf("told again: %+v", e)
	}
	all := w.commands(2)
	notice := commandOf(t, all[len(all)-1])
	want := []chat.Message{chat.Text(chat.Assistant, "The rule ci has used up its budget for today in this conversation (1 of 1 runs), so it does nothing more here until midnight UTC.")}
	if diff := cmp.Diff(want, notice.Messages); len(all) != 2 || diff != "" || notice.Queue != event.Prompt || all[1].Lane != "s" {
		t.Errorf("%d commands, the last one %+v\n%s", len(all), notice, diff)
	}
}

// runnerGot are the commands that the runner has so far.
func (w *world) runnerGot() (ids []string) {
	w.t.Helper()
	found, err := w.bus.Fetch(context.Background(), event.TopicCmdRequest, "", 100)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range found {
		ids = append(ids, d.Headers.RequestID())
	}
	slices.Sort(ids)
	return ids
}

// inAWhile is a time for the service to take in what was published, in a bubble.
const inAWhile = 100 * time.Millisecond

func TestDebounce(t *testing.T) {
	t.Run("the last of each session is handled when it is quiet", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.start(inbox{}, compiled(t, func(s *environment.Spec) { s.Debounce = time.Hour }))
			w.send(10, "s")
			w.publish(observed("other", "s2", `{}`))
			time.Sleep(time.Hour - time.Minute)
			if got := w.runnerGot(); got != nil {
				t.Errorf("before its time %q is handled", got)
			}
			if n := w.sum(environment.OutcomeMerged); n != 9 {
				t.Errorf("%d earlier ones are replaced, want 9", n)
			}
			time.Sleep(2 * time.Minute)
			if diff := cmp.Diff([]string{"env:s2:other", "env:s:s-009"}, w.runnerGot()); diff != "" {
				t.Error(diff)
			}
		})
	})
	t.Run("events that never pause are handled after ten times as long", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.start(inbox{}, compiled(t, func(s *environment.Spec) { s.Debounce = time.Minute }))
			for i := range 24 {
				w.publish(observed(fmt.Sprintf("e%02d", i), "s", `{}`))
				time.Sleep(31 * time.Second)
			}
			if diff := cmp.Diff([]string{"env:s:e19"}, w.runnerGot()); diff != "" {
				t.Error(diff)
			}
		})
	})
	for name, change := range map[string]func(*environment.Spec){
		"is gone":  func(s *environment.Spec) { s.Name = "another" },
		"is off":   func(s *environment.Spec) { s.Enabled = false },
		"drops it": func(s *environment.Spec) { s.Prompt, s.Drop, s.Debounce = "", true, 0 },
	} {
		t.Run("what is held back is dropped when the rule meanwhile "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.start(inbox{}, compiled(t, func(s *environment.Spec) { s.Debounce = time.Hour }))
				w.send(1, "s")
				time.Sleep(time.Minute)
				w.svc.SetRules([]environment.Rule{compiled(t, func(s *environment.Spec) { s.Debounce = time.Hour; change(s) })})
				time.Sleep(time.Hour)
				if got := w.runnerGot(); got != nil {
					t.Errorf("%q is handled", got)
				}
				if n := w.sum(environment.OutcomeDropped); n != 1 {
					t.Errorf("%d are counted as dropped, want 1", n)
				}
				if log := w.log.String(); !strings.Contains(log, "dropped a held event: its rule is gone, off, or drops events now") || strings.Contains(log, "cannot handle") {
					t.Error(log)
				}
			})
		})
	}
	t.Run("control: without it each is handled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.start(inbox{}, compiled(t, func(*environment.Spec) {}))
			w.send(10, "s")
			time.Sleep(inAWhile)
			if n := len(w.runnerGot()); n != 10 {
				t.Errorf("%d are handled", n)
			}
		})
	})
}

// What a debounce holds back is there after a restart.
func TestADebounceOutlivesTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := compiled(t, func(s *environment.Spec) { s.Debounce = time.Hour })
		w.start(inbox{}, r)
		w.send(1, "s")
		time.Sleep(time.Minute)
		w.close()
		time.Sleep(time.Hour)
		w.open()
		if got := w.runnerGot(); got != nil {
			t.Errorf("before the restart %q is handled", got)
		}
		w.start(inbox{}, r)
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"env:s:s-000"}, w.runnerGot()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWhatElseRulesDo(t *testing.T) {
	t.Run("a dry run counts and does nothing", func(t *testing.T) {
		w := newWorld(t)
		w.start(inbox{}, compiled(t, func(s *environment.Spec) { s.DryRun = true }), agentRule("end"))
		w.send(3, "s")
		w.publish(event.EnvEvent{ID: "end", Type: "end", Metadata: event.EnvMetadata{TriggerSessionID: "s"}})
		if all := w.commands(1); len(all) != 1 || all[0].Headers.RequestID() != "env:s:end" {
			t.Errorf("commands %v", all)
		}
		if n := w.sum(environment.OutcomeDryRun); n != 3 {
			t.Errorf("%d are counted", n)
		}
	})
	for name, c := range map[string]struct{ target, want string }{
		"a fixed session":        {"ops", "ops"},
		"a session of the event": {"{{ .payload.room }}", "r7"},
		"a session by its title": {"title:Ops", "titled-Ops"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.start(inbox{}, compiled(t, func(s *environment.Spec) { s.Target = c.target }))
			w.publish(observed("e1", "", `{"room":"r7"}`))
			if got := w.commands(1)[0].Lane; got != c.want {
				t.Errorf("it is handled in %q, want %q", got, c.want)
			}
		})
	}
	t.Run("a title that no session has is named, each", func(t *testing.T) {
		w := newWorld(t)
		w.start(inbox{}, compiled(t, func(s *environment.Spec) { s.Target = "title:gone {{ .payload.room }}" }))
		w.publish(observed("e1", "", `{"room":"r7"}`))
		w.publish(observed("e2", "", `{"room":"r8"}`))
		for _, title := range []string{"title:gone r7", "title:gone r8"} {
			eventually(t, "a warning with the title", func() bool { return strings.Contains(w.log.String(), title) })
		}
	})
	t.Run("an empty title is that of no session", func(t *testing.T) {
		w := newWorld(t)
		w.start(inbox{}, compiled(t, func(s *environment.Spec) { s.Target = "title:{{ .payload.room }}" }))
		w.publish(observed("e1", "", `{"room":""}`))
		eventually(t, "it is counted", func() bool { return w.sum(environment.OutcomeNoSession) == 1 })
	})
	t.Run("publish makes another event", func(t *testing.T) {
		w := newWorld(t)
		made, got := collect("ci.broken")
		w.start(inbox{}, compiled(t, func(s *environment.Spec) {
			s.Prompt, s.PublishType, s.Payload, s.Target = "", "ci.broken", "{on: .payload.branch}", "ops"
		}), made)
		w.publish(observed("e1", "s", `{"branch":"main"}`))
		e := next(t, got)
		if string(e.Payload) != `{"on":"main"}` || e.Metadata.TriggerSessionID != "ops" || string(e.Metadata.Extra["depth"]) != "2" {
			t.Errorf("made %+v", e)
		}
	})
	t.Run("drop forgets, and rules change while it runs", func(t *testing.T) {
		w := newWorld(t)
		w.start(inbox{}, compiled(t, func(s *environment.Spec) { s.Prompt, s.Drop = "", true }))
		w.send(1, "s")
		eventually(t, "it is dropped", func() bool { return w.sum(environment.OutcomeDropped) == 1 })
		w.svc.SetRules([]environment.Rule{compiled(t, func(*environment.Spec) {})})
		w.send(1, "s2")
		w.commands(1)
	})
}

func TestTry(t *testing.T) {
	rules := []environment.Rule{
		compiled(t, func(s *environment.Spec) { s.If = `.payload.branch == "main"`; s.Target = "ops" }),
		agentRule("build.*"),
	}
	if got := environment.Try(rules, observed("e", "s", `{"branch":"main"}`), nil); got.Rule != "ci" || got.Session != "ops" || !strings.HasSuffix(got.Prompt, "Look.") {
		t.Errorf("%+v", got)
	}
	got := environment.Try(rules, observed("e", "s", `{"branch":"x"}`), nil)
	if got.Rule != "watch" || got.Matches[0].Why != "its condition does not hold" {
		t.Errorf("%+v", got)
	}
	if got := environment.Try(rules, custom("e", "s"), nil); got.Rule != "" || len(got.Matches) != 2 {
		t.Errorf("%+v", got)
	}
}
