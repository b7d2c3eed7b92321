package app

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"lilac/internal/core/environment"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

// Each call of the model in these tests uses 100 tokens and 100 millionths of a
// dollar.
const (
	perCall  = 100
	spending = `
model: local/m
providers: {local: {type: openai, baseURL: "%s/v1", apiKey: x}}
models: {local/m: {price: {input: 1, output: 1}}}
rules:
  ci:
    when: {type: build.*}
    do: {agent: {prompt: Look at it.}}
    budget: {%s}
`
)

// spender is the program with one rule, one session, and a model that calls a tool forever or
// answers at once.
type spender struct {
	*running
	model   *llmtest.Server
	session string
}

func newSpender(t *testing.T, loops bool, budget string) *spender {
	t.Helper()
	return spends(t, budget, func(llmtest.Request) llmtest.Script {
		if loops {
			return llmtest.Script{Calls: []llmtest.Call{{ID: "call", Name: "glob", Input: `{"pattern":"*"}`}}}
		}
		return llmtest.Say("It is nothing.")
	})
}

// spends returns a spender with the given model.
func spends(t *testing.T, budget string, model func(llmtest.Request) llmtest.Script) *spender {
	t.Helper()
	s := &spender{session: "s1", model: llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		script := model(r)
		script.Usage = llmtest.Usage{Input: perCall - 10, Output: 10}
		return script
	})}
	s.running = start(t, fmt.Sprintf(spending, s.model.URL, budget))
	s.store(func(tx *db.Tx) error {
		return s.p.store.Sessions.CreateSession(tx, session.Session{ID: s.session, Client: "web", State: "idle"})
	})
	return s
}

// storm publishes n events and waits until the rules have handled them.
func (s *spender) storm(from, n int) {
	s.t.Helper()
	for i := range n {
		_, err := s.p.env.Publish(context.Background(), event.EnvEvent{
			ID: fmt.Sprint("e", from+i), Type: "build.failed", Metadata: event.EnvMetadata{TriggerSessionID: s.session, Source: "env"},
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	s.eventually("the storm is over", func() bool { return s.handled() == int64(from+n) })
}

func (s *spender) handled() (n int64) {
	s.t.Helper()
	err := s.p.db.Read(context.Background(), func(q db.Queryer) error {
		counts, _, err := s.p.store.RuleRuns.CountsOf(q, "ci", time.Now().Add(-48*time.Hour))
		n = counts[environment.OutcomeAgent] + counts[environment.OutcomeBudget]
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// over waits until a workflow ends.
func (s *spender) over(id string) {
	s.t.Helper()
	s.eventually(id+" is over", func() bool {
		w, err := s.p.workflows.Get(context.Background(), id)
		return err == nil && w.State.Ended()
	})
}

// quiet waits until no request runs or is queued in any session. A request ends with an event.
// So all work is done if no event is pending, then no request runs, and no event was published
// in between.
func (s *spender) quiet() {
	s.t.Helper()
	s.eventually("nothing runs any more", func() bool {
		before := s.published()
		groups, err := s.p.bus.Groups(context.Background())
		if err != nil {
			s.t.Fatal(err)
		}
		for _, g := range groups {
			if g.Pending+g.Backlog > 0 {
				return false
			}
		}
		var busy []string
		err = s.p.db.Read(context.Background(), func(q db.Queryer) (err error) {
			busy, err = s.p.store.States.Unfinished(q)
			return err
		})
		if err != nil {
			s.t.Fatal(err)
		}
		return len(busy) == 0 && s.published() == before
	})
}

// published returns the number of published events.
func (s *spender) published() (n int) {
	s.t.Helper()
	err := s.p.db.Read(context.Background(), func(q db.Queryer) error {
		return q.QueryRow("SELECT count(*) FROM bus_log").Scan(&n)
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// told returns how often the session was notified that the rule stopped, by the output of a
// request or by the reason for its end.
func (s *spender) told() (n int) {
	s.t.Helper()
	const sentence = "The rule ci has used up its budget for today in this conversation"
	var requests []session.Request
	err := s.p.db.Read(context.Background(), func(q db.Queryer) (err error) {
		requests, err = s.p.store.Requests.Requests(q, s.session, 0, "")
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, r := range requests {
		if strings.Contains(r.Detail, sentence) {
			n++
		}
		output, err := s.p.bus.Fetch(context.Background(), event.OutputTopic(r.ID), "", 1000)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, d := range output {
			var final event.FinalText
			if d.Type == event.OutputResponseText && json.Unmarshal(d.Data, &final) == nil && strings.Contains(final.FinalText, sentence) {
				n++
			}
		}
	}
	return n
}

// S10: the spending of rules is limited, whatever the model and the events do.
func TestARuleStopsWithinOneStepOfItsBudget(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel()
	for name, c := range map[string]struct {
		loops  bool
		budget string
		want   int // calls of the model
	}{
		"tokens, a model that loops":      {true, "tokens: 450", 5},
		"money, a model that loops":       {true, "money: 0.00045", 5},
		"tokens, a storm of events":       {false, "tokens: 450", 5},
		"money, a storm of events":        {false, "money: 0.00045", 5},
		"runs, a storm of events":         {false, "runs: 5", 5},
		"the first that is used up stops": {false, "runs: 9, tokens: 250", 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSpender(t, c.loops, c.budget)
			if c.loops {
				s.storm(0, 1)
				s.quiet()
			} else {
				for i := range c.want + 2 { // the cost of a run is known only after it ends
					s.storm(i, 1)
					s.quiet()
				}
			}
			s.storm(int(s.handled()), 40)
			s.quiet()
			if n := s.model.Count(); n != c.want {
				t.Errorf("the model was called %d times, want %d", n, c.want)
			}
			if n := s.told(); n != 1 {
				t.Errorf("people were told %d times, want once", n)
			}
		})
	}
	t.Run("a storm while it works does not get past a budget", func(t *testing.T) {
		s := newSpender(t, true, "tokens: 450")
		s.storm(0, 40)
		s.quiet()
		if n := s.model.Count(); n != 5 || s.told() != 1 {
			t.Errorf("the model was called %d times, want 5, and people were told %d times, want once", n, s.told())
		}
	})
	t.Run("what a sub-agent uses counts for the rule", func(t *testing.T) {
		// The agent calls the model twice, its sub-agent forever.
		s := spends(t, "tokens: 850", func(r llmtest.Request) llmtest.Script {
			last := r.Messages[len(r.Messages)-1]
			switch {
			case strings.HasSuffix(last.Text, "Look at it."):
				return llmtest.Script{Calls: []llmtest.Call{{ID: "start", Name: "task", Input: `{"action":"start","prompt":"Loop."}`}}}
			case last.Results["start"] != "":
				return llmtest.Say("It is looked at.")
			case strings.Contains(last.Text, `rule "background_task"`): // from another rule
				return llmtest.Say("It has ended.")
			}
			return llmtest.Script{Calls: []llmtest.Call{{ID: "loop", Name: "glob", Input: `{"pattern":"*"}`}}}
		})
		s.storm(0, 1)
		s.eventually("the rule stops", func() bool { return s.told() > 0 })
		s.quiet()
		// The two may run concurrently, each in the middle of a step. The other rule reports
		// the end.
		if n := s.model.Count(); n < 9 || n > 12 || s.told() != 1 {
			t.Errorf("the model was called %d times, want 10, and people were told %d times, want once", n, s.told())
		}
		s.storm(1, 3)
		s.quiet()
		if n := s.model.Count(); n > 12 || s.told() != 1 {
			t.Errorf("then the model was called %d times, and people were told %d times", n, s.told())
		}
	})
	t.Run("what a workflow goes on with counts for the rule", func(t *testing.T) {
		s := newSpender(t, false, "tokens: 450")
		s.storm(0, 1)
		s.quiet()
		for i := range 9 { // the first request created a workflow for each
			if _, err := s.waits("env:s1:e0", s.session, fmt.Sprint("w", i)); err != nil {
				t.Fatal(err)
			}
			s.over(fmt.Sprint("w", i))
			s.quiet()
		}
		s.storm(int(s.handled()), 3)
		s.quiet()
		if n := s.model.Count(); n != 5 || s.told() != 1 {
			t.Errorf("the model was called %d times, want 5, and people were told %d times, want once", n, s.told())
		}
	})
	t.Run("a workflow's request stops within a step, too", func(t *testing.T) {
		s := spends(t, "tokens: 450", func(r llmtest.Request) llmtest.Script {
			if strings.HasSuffix(r.Messages[len(r.Messages)-1].Text, "Look at it.") {
				return llmtest.Say("It is looked at.")
			}
			return llmtest.Script{Calls: []llmtest.Call{{ID: "loop", Name: "glob", Input: `{"pattern":"*"}`}}}
		})
		s.storm(0, 1)
		s.quiet()
		if _, err := s.waits("env:s1:e0", s.session, "w"); err != nil {
			t.Fatal(err)
		}
		s.over("w")
		s.quiet()
		if n := s.model.Count(); n != 5 || s.told() != 1 {
			t.Errorf("the model was called %d times, want 5, and people were told %d times, want once", n, s.told())
		}
	})
	t.Run("a run of a workflow is one of the rule's", func(t *testing.T) {
		s := newSpender(t, false, "runs: 3")
		s.storm(0, 1)
		s.quiet()
		for i := range 4 {
			if _, err := s.waits("env:s1:e0", s.session, fmt.Sprint("w", i)); err != nil {
				t.Fatal(err)
			}
			s.over(fmt.Sprint("w", i))
			s.quiet()
		}
		if n := s.model.Count(); n != 3 || s.told() != 1 {
			t.Errorf("the model was called %d times, want 3, and people were told %d times, want once", n, s.told())
		}
	})
	t.Run("control: without a budget a model loops", func(t *testing.T) {
		s := newSpender(t, true, "")
		s.storm(0, 1)
		s.eventually("20 calls of the model", func() bool { return s.model.Count() >= 20 })
	})
	t.Run("control: without a budget a storm is handled", func(t *testing.T) {
		s := newSpender(t, false, "")
		for i := range 12 {
			s.storm(i, 1)
			s.quiet()
		}
		if n := s.model.Count(); n != 12 || s.told() != 0 {
			t.Errorf("the model was called %d times, and people were told %d times", n, s.told())
		}
	})
}
