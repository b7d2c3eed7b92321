package environment_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"lilac/internal/environment"
	"lilac/internal/event"
	"lilac/internal/fault"
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
		_, ok, looks := environment.Match([]environment.Rule{r}, e)
		if ok != (want == "") || !strings.HasPrefix(looks[0].Why, want) {
			t.Errorf("%s: %v, %q", condition, ok, looks[0].Why)
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
		got, err := r.Agent.Prompt(e)
		if err != nil || got != want {
			t.Errorf("%s renders as %s, %v; want %s", text, got, err, want)
		}
	}
	huge := compiled(t, func(s *environment.Spec) { s.Prompt = `{{ [range(100000)] }}` })
	if _, err := huge.Agent.Prompt(e); err == nil {
		t.Error("an expression of any size is rendered")
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
			_, _ = r.Agent.Prompt(e)
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
			if got := w.sum(environment.OutcomeAgent); got != c.want || len(w.commands(int(c.want))) != int(c.want) {
				t.Errorf("%d of 20 reached the agent, want %d", got, c.want)
			}
			w.publish(observed("elsewhere", "s2", `{}`)) // the limits are of each session
			w.commands(int(c.want) + 1)
		})
	}
}

// S10: a budget that is used up is told once.
func TestAUsedUpBudgetIsToldOnce(t *testing.T) {
	w := newWorld(t)
	told, got := collect("rule.stopped")
	w.start(inbox{}, compiled(t, func(s *environment.Spec) { s.Budget.Runs = 1 }), told)
	w.send(10, "s")
	eventually(t, "all are handled", func() bool { return w.sum(environment.OutcomeAgent, environment.OutcomeBudget) == 10 })
	if e := next(t, got); e.Metadata.TriggerSessionID != "s" || string(e.Payload) != `{"limit":"budget","rule":"ci"}` {
		t.Errorf("told %+v", e)
	}
	w.publish(event.EnvEvent{ID: "end", Type: "rule.stopped", Metadata: event.EnvMetadata{TriggerSessionID: "s"}})
	if e := next(t, got); e.ID != "end" {
		t.Errorf("told again: %+v", e)
	}
}

func TestDebounce(t *testing.T) {
	w := newWorld(t)
	w.start(inbox{}, compiled(t, func(s *environment.Spec) { s.Debounce = 5 * time.Second }))
	w.send(10, "s")
	w.publish(observed("other", "s2", `{}`))
	eventually(t, "the earlier ones are replaced", func() bool { return w.sum(environment.OutcomeMerged) == 9 })
	last := map[string]string{}
	for _, e := range w.commands(2) {
		last[e.Lane] = e.Headers.RequestID()
	}
	if last["s"] != "env:s:s-009" || last["s2"] != "env:s2:other" {
		t.Errorf("the last of each session are %v", last)
	}
}

// What a debounce holds back is there after a restart.
func TestADebounceOutlivesTheProcess(t *testing.T) {
	w := newWorld(t)
	r := compiled(t, func(s *environment.Spec) { s.Debounce = 3 * time.Second })
	w.start(inbox{}, r)
	w.send(1, "s")
	eventually(t, "it waits", func() bool {
		groups, err := w.bus.Groups(context.Background())
		return err == nil && len(groups) > 0 && groups[0].Pending+groups[0].Backlog == 0
	})
	w.close()
	w.open()
	w.start(inbox{}, r)
	if all := w.commands(1); all[0].Headers.RequestID() != "env:s:s-000" {
		t.Errorf("commands %v", all)
	}
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
	if got := environment.Try(rules, observed("e", "s", `{"branch":"main"}`)); got.Rule != "ci" || got.Session != "ops" || !strings.HasSuffix(got.Prompt, "Look.") {
		t.Errorf("%+v", got)
	}
	got := environment.Try(rules, observed("e", "s", `{"branch":"x"}`))
	if got.Rule != "watch" || got.Looks[0].Why != "its condition does not hold" {
		t.Errorf("%+v", got)
	}
	if got := environment.Try(rules, custom("e", "s")); got.Rule != "" || len(got.Looks) != 2 {
		t.Errorf("%+v", got)
	}
}
