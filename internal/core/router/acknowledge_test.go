package router_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/router"
	"lilac/internal/foundation/event"
)

// A message that waits is acknowledged at once, until the request that it belongs to ends.
func TestAnAcknowledgmentLastsUntilTheRequestEnds(t *testing.T) {
	s := router.State{}
	decide := func(e router.Event, now time.Time) (acknowledged []router.Effect) {
		var effects []router.Effect
		s, effects = router.Decide(s, router.Input{Event: e, Rules: rules}, now)
		for _, e := range effects {
			switch e.(type) {
			case router.Acknowledge, router.Unacknowledge:
				acknowledged = append(acknowledged, e)
			}
		}
		return acknowledged
	}
	asks := func(id string) router.Message {
		return router.Message{ID: id, RequestID: "r" + id, Mode: router.Mention, Mentions: true}
	}
	for _, step := range []struct {
		what  string
		event router.Event
		now   time.Duration
		want  []router.Effect
	}{
		{"the first question does not wait", asks("1"), 0, nil},
		{"it runs", router.Lifecycle{RequestID: "r1", State: event.StateRunning}, 0, nil},
		{"its answer", router.Output{RequestID: "r1", MessageID: "out"}, 0, nil},
		{"the second waits", asks("2"), 0, []router.Effect{router.Acknowledge{MessageID: "2"}}},
		{"a follow-up", router.Message{ID: "3", RequestID: "r3", Mode: router.Mention, ReplyTo: "out", ReplyToUs: true}, 0, []router.Effect{router.Acknowledge{MessageID: "3"}}},
		{"a steer", router.Message{ID: "4", RequestID: "r4", Mode: router.Mention, Mentions: true, ReplyTo: "out", ReplyToUs: true}, 0, []router.Effect{router.Acknowledge{MessageID: "4"}}},
		{"the first ends", router.Lifecycle{RequestID: "r1", State: event.StateDone}, 0, []router.Effect{router.Unacknowledge{MessageIDs: []string{"3", "4"}}}},
		{"the second fails", router.Lifecycle{RequestID: "r2", State: event.StateFailed}, 0, []router.Effect{router.Unacknowledge{MessageIDs: []string{"2"}}}},
		{"nothing waits", asks("5"), 0, nil},
		{"it waits for the fifth", asks("6"), 0, []router.Effect{router.Acknowledge{MessageID: "6"}}},
		{"both were never seen to run", asks("7"), 2 * time.Hour, []router.Effect{router.Unacknowledge{MessageIDs: []string{"6"}}}},
	} {
		if diff := cmp.Diff(step.want, decide(step.event, at(step.now))); diff != "" {
			t.Errorf("%s: -want +got\n%s", step.what, diff)
		}
	}
}

// A question that waits for other conversations, or that a waiting request has taken along, is
// acknowledged, too.
func TestAQuestionThatDoesNotRunYetIsAcknowledged(t *testing.T) {
	ask := func(id string) router.Message {
		return router.Message{ID: id, RequestID: "r" + id, Mode: router.Mention, Mentions: true}
	}
	later := ask("1")
	later.Delivered = true
	for name, c := range map[string]struct {
		events []router.Event
		want   []router.Effect
	}{
		"control: it runs at once":            {[]router.Event{ask("2"), router.Lifecycle{RequestID: "r2", State: event.StateRunning}}, nil},
		"all slots are taken":                 {[]router.Event{ask("2"), router.Lifecycle{RequestID: "r2", State: event.StateQueued}}, []router.Effect{router.Acknowledge{MessageID: "2"}}},
		"its request has taken another along": {[]router.Event{ask("2"), later}, []router.Effect{router.Acknowledge{MessageID: "1"}}},
		"and it waits, too":                   {[]router.Event{ask("2"), router.Lifecycle{RequestID: "r2", State: event.StateQueued}, router.Lifecycle{RequestID: "r2", State: event.StateQueued}}, []router.Effect{router.Acknowledge{MessageID: "2"}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := router.State{}
			var got []router.Effect
			for _, e := range c.events {
				var effects []router.Effect
				s, effects = router.Decide(s, router.Input{Event: e, Rules: rules, History: &router.History{Chains: map[string][]string{"2": {"1", "2"}}}}, at(0))
				for _, e := range effects {
					if a, ok := e.(router.Acknowledge); ok {
						got = append(got, a)
					}
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}
