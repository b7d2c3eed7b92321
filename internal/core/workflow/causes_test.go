package workflow_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/outbox"
	"lilac/internal/core/surface"
	"lilac/internal/core/workflow"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
	"lilac/internal/testkit/effort"
)

// Where a chain of events ends that goes on by way of workflows, and where a new
// one begins.
func TestHowDeepAWorkflowGoes(t *testing.T) {
	const day = 24 * time.Hour
	from := func(depth int, tasks ...workflow.Spec) workflow.Create {
		in := create("any", tasks...)
		in.Cause.Depth = depth
		return in
	}
	adds := func(depth int, s workflow.Spec) workflow.Add {
		in := add(s)
		in.Cause.Depth = depth
		return in
	}
	happens := func(depth int) workflow.Occurred {
		return workflow.Occurred{TaskIDs: []string{"e"}, Event: event.EnvEvent{ID: "x"}, Depth: depth}
	}
	awaits := spec("e", workflow.KindEvent, workflow.TaskInput{Types: []string{"custom.x"}, TimeoutMS: time.Hour.Milliseconds()})
	const ends, last = "ends the chain at 9", event.MaxDepth
	failed := "failed Too many events caused each other and no person was asked, so it wakes nobody."
	for name, c := range map[string]struct {
		steps []at
		depth int
		want  []string // the effects of the last step
	}{
		"of a person's request":             {[]at{{0, from(0, delay("a", time.Minute))}, {time.Minute, workflow.Tick{}}}, 1, []string{"a resolved reached", "resolved", "wake 1 by a"}},
		"of one that a workflow made":       {[]at{{0, from(3, delay("a", time.Minute))}, {time.Minute, workflow.Tick{}}}, 4, []string{"a resolved reached", "resolved", "wake 1 by a"}},
		"the last that goes on":             {[]at{{0, from(last-1, delay("a", time.Minute))}, {time.Minute, workflow.Tick{}}}, last, []string{"a resolved reached", "resolved", "wake 1 by a"}},
		"a delay is one too many":           {[]at{{0, from(last, delay("a", time.Minute))}}, 0, []string{"refuse limit_reached", "failed " + tooDeep}},
		"a schedule is":                     {[]at{{0, from(last, daily(workflow.TaskInput{}))}}, 0, []string{"refuse limit_reached", "failed " + tooDeep}},
		"added to another's":                {[]at{{0, from(0, awaits)}, {1, adds(last, delay("a", time.Minute))}}, 0, []string{"refuse limit_reached", "a failed " + tooDeep}},
		"added by one before":               {[]at{{0, from(0, awaits)}, {1, adds(last-1, delay("a", time.Minute))}, {time.Minute, workflow.Tick{}}}, last, []string{"a resolved reached", "e cancelled", "resolved", "wake 1 by a"}},
		"what is over is not what goes on":  {[]at{{0, from(5, awaits, delay("a", time.Minute))}, {1, happens(2)}}, 5, []string{"e resolved event", "a cancelled", "resolved", "wake 1 by e"}},
		"a time-out is a time":              {[]at{{0, from(last, awaits)}, {time.Hour, workflow.Tick{}}}, last + 1, []string{"e resolved timeout", failed, ends}},
		"what cannot be sent is as well":    {[]at{{0, from(last, question("q"))}, {1, workflow.Sent{TaskID: "q", Reason: "gone"}}}, last + 1, []string{"q resolved notSent", failed, ends}},
		"an event has a place of its own":   {[]at{{0, from(2, awaits)}, {1, happens(6)}}, 6, []string{"e resolved event", "resolved", "wake 1 by e"}},
		"an event from outside adds none":   {[]at{{0, from(last, awaits)}, {1, happens(1)}}, last, []string{"e resolved event", "resolved", "wake 1 by e"}},
		"a person begins anew":              {[]at{{0, from(last, reply("r", "5", ""))}, {1, says("10", "5", "7")}}, 0, []string{"r resolved reply", "resolved", "wake 1 by r"}},
		"a schedule is one, first":          {[]at{{0, from(2, daily(workflow.TaskInput{}))}, {21 * time.Hour, workflow.Tick{}}}, 3, []string{"s run", "wake 1 by s"}},
		"and one however often it runs":     {[]at{{0, from(2, daily(workflow.TaskInput{}))}, {21 * time.Hour, workflow.Tick{}}, {45 * time.Hour, workflow.Tick{}}, {21*time.Hour + 9*day, workflow.Tick{}}}, 3, []string{"s run", "wake 3 by s"}},
		"also when it is cancelled by then": {[]at{{0, from(2, daily(workflow.TaskInput{}))}, {21 * time.Hour, workflow.Tick{}}, {21*time.Hour + 1, workflow.Cancel{}}}, 3, []string{"s cancelled Cancelled.", "cancelled Cancelled."}},
		"what came before it has its own": {
			[]at{{0, adds(4, delay("a", time.Minute))}, {1, from(1, awaits)}, {time.Minute, workflow.Tick{}}},
			5,
			[]string{"a resolved reached", "e cancelled", "resolved", "wake 1 by a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var w workflow.Workflow
			var effects []workflow.Effect
			for _, s := range c.steps {
				w, effects = workflow.Decide(w, s.in, begin.Add(s.after))
			}
			if diff := cmp.Diff(c.want, told(effects)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if w.Depth() != c.depth {
				t.Errorf("what it sets off is at %d, not %d", w.Depth(), c.depth)
			}
		})
	}
}

const tooDeep = "This request was caused by a chain of 8 events that caused each other, and waiting for a time would make the chain too long. Ask a person whether to continue: you can wait for a reply."

// causes are what a test knows of them. All requests are at a depth, for a rule
// that pays for some requests and then for none.
type causes struct {
	depth int
	pays  int
	mu    sync.Mutex
	noted []string
	// grant is what the request may use, eventGrant what the requests of events may.
	grant, eventGrant grant.Grant
}

var payer = workflow.Payer{Rule: "ci", SessionID: "10"}

func (c *causes) CauseOf(db.Queryer, string) (workflow.Cause, error) {
	return workflow.Cause{Depth: c.depth, Payer: payer, Grant: c.grant}, nil
}

func (c *causes) DepthOf(_ db.Queryer, e event.EnvEvent) (int, error) {
	if e.ID == "deep" {
		return event.MaxDepth + 1, nil
	}
	return 1, nil
}

func (c *causes) GrantOf(db.Queryer, event.EnvEvent) (grant.Grant, error) { return c.eventGrant, nil }

func (c *causes) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noted = append(c.noted, fmt.Sprintf(format, args...))
}

func (c *causes) told() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.noted)
}

func (c *causes) Charge(_ *db.Tx, p workflow.Payer, depth int, command event.Event) (bool, error) {
	c.note("%s pays for %s at %d", p.Rule, command.Headers.RequestID(), depth)
	c.pays--
	return c.pays >= 0, nil
}

func (c *causes) EndChain(_ *db.Tx, p workflow.Payer, depth int, id string) error {
	c.note("%s ends with %s at %d", p.Rule, id, depth)
	return nil
}

// The rule that led to a workflow pays for it, also after a restart, until a
// person has spoken; what it does not pay for does not happen.
func TestARulePaysForItsWorkflows(t *testing.T) {
	effort.SkipSlow(t)
	w := newWorld(t)
	w.causes = &causes{pays: 1}
	w.restart()
	w.submit(definition("timed", "", delay("a", time.Second)))
	w.submit(definition("later", "", delay("a", 2*time.Second)))
	w.submit(definition("spoken", "", reply("a", "5", "")))
	w.restart()
	w.start()
	for _, id := range []string{"timed", "later"} {
		w.becomes(id, workflow.Resolved)
	}
	w.takes(w.message("6", "5"))
	w.becomes("spoken", workflow.Resolved)
	if diff := cmp.Diff([]string{"ci pays for wf:timed:1 at 1", "ci pays for wf:later:1 at 1"}, w.causes.told()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	woken := w.woken()
	if len(woken) != 2 || !strings.HasPrefix(woken[0], "wf:timed:1 ") || !strings.HasPrefix(woken[1], "wf:spoken:1 ") {
		t.Errorf("woken: %q", woken)
	}
}

func TestTheEndOfAChainIsLoggedAndNoted(t *testing.T) {
	w := newWorld(t)
	var log bytes.Buffer
	w.logger = slog.New(slog.NewTextHandler(&log, nil))
	w.causes = &causes{depth: event.MaxDepth, pays: 9}
	w.restart()
	err := w.svc.Submit(t.Context(), asker, nil, definition("late", "", delay("a", time.Second)))
	if fault.KindOf(err) != fault.LimitReached || fault.ToWire(err).Message != tooDeep {
		t.Errorf("answered %v", err)
	}
	w.submit(definition("silent", "", question("q")))
	unsent := outbox.Row{Key: "workflow:silent:q", Platform: "discord", State: outbox.Failed, Send: surface.Send{ChannelID: "20"}}
	w.update(func(tx *db.Tx) error { return w.svc.OnSent(tx, unsent, surface.Message{}) })
	w.becomes("silent", workflow.Failed)
	if diff := cmp.Diff([]string{"ci ends with late at 9", "ci ends with silent at 9"}, w.causes.told()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	w.submit(definition("observes", "", spec("e", workflow.KindEvent, workflow.TaskInput{Types: []string{"custom.x"}})))
	for _, e := range []struct {
		id   string
		then workflow.State
	}{{"deep", workflow.Waiting}, {"x", workflow.Resolved}} {
		if err := w.svc.Observe(t.Context(), event.EnvEvent{ID: e.id, Type: "custom.x"}); err != nil {
			t.Fatal(err)
		}
		w.becomes("observes", e.then)
	}
	if n := strings.Count(log.String(), "a chain of events ends here: too many caused each other"); n != 3 || len(w.woken()) != 1 {
		t.Errorf("%d ends in the log, %q", n, w.woken())
	}
}
