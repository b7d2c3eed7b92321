package router_test

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/router"
	"lilac/internal/foundation/event"
)

// A program that posts a person's message again, and deletes the original, does not make the agent
// answer twice, and takes no answer away.
func TestACopyOfAMessageIsNotAnsweredTwice(t *testing.T) {
	for _, bots := range []bool{true, false} {
		for name, c := range map[string]struct {
			before        router.State
			want, deleted []router.Effect
		}{
			"the original is being answered": {router.State{Requests: []router.Request{{ID: "r5", Running: true}}}, nil, nil},
			"the original is answered":       {router.State{}, nil, nil},
			"the original is queued": {
				router.State{Requests: []router.Request{{ID: "r1", Running: true}, {ID: "r5"}}},
				[]router.Effect{router.Cancel{RequestID: "r5"}, forward(event.Prompt, "r6", "6")},
				[]router.Effect{router.Cancel{RequestID: "r5"}},
			},
		} {
			t.Run(name+" "+strconv.FormatBool(bots), func(t *testing.T) {
				s, got := decided(c.before, router.Input{Event: router.Message{ID: "6", RequestID: "r6", CopyOf: "5", Mode: router.Mention, Mentions: true, FromBot: true, Programs: bots}, Rules: rules}, at(0))
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("the copy: -want +got\n%s", diff)
				}
				_, got = decided(s, router.Input{Event: router.Deleted{ID: "5", RequestID: "r5"}, Rules: rules}, at(0))
				if diff := cmp.Diff(c.deleted, got); diff != "" {
					t.Errorf("the deletion of the original: -want +got\n%s", diff)
				}
			})
		}
	}
}

// The copy of a reply is none, and its text may lack the mention. It is answered as the message would have been,
// also where the members of an active channel talk to each other.
func TestACopyIsAnsweredWhateverItLacks(t *testing.T) {
	for _, mode := range []router.Mode{router.Mention, router.Active} {
		s := router.State{Requests: []router.Request{{ID: "r5"}}}
		_, got := decided(s, router.Input{Event: router.Message{ID: "6", RequestID: "r6", CopyOf: "5", Mode: mode, FromBot: true, FromSelf: true}, Rules: rules}, at(0))
		if diff := cmp.Diff([]router.Effect{router.Cancel{RequestID: "r5"}, forward(event.Prompt, "r6", "6")}, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", mode, diff)
		}
	}
}

// The verdict about a message is that about its copy: the message may be gone by then.
func TestACopyTakesThePlaceOfAMessageThatTheGateJudges(t *testing.T) {
	s := router.State{Gating: []string{"5"}}
	s, _ = router.Decide(s, router.Input{Event: router.Message{ID: "6", RequestID: "r6", CopyOf: "5", Mode: router.Active, FromBot: true}, Rules: rules}, at(0))
	s, _ = router.Decide(s, router.Input{Event: router.Deleted{ID: "5", RequestID: "r5"}, Rules: rules}, at(0))
	_, got := decided(s, router.Input{Event: router.Gated{RequestID: fresh, Forward: true}, Rules: rules}, at(0))
	if diff := cmp.Diff([]router.Effect{forward(event.Prompt, fresh, "6")}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// In a burst, the copy takes the place of the original.
func TestACopyTakesThePlaceOfAMessageThatWaits(t *testing.T) {
	s := router.State{}
	for _, m := range []router.Message{{ID: "4"}, {ID: "5"}, {ID: "6", CopyOf: "5", FromBot: true}, {ID: "7", CopyOf: "1", FromBot: true}} {
		m.Mode = router.Active
		s, _ = router.Decide(s, router.Input{Event: m, Rules: rules}, at(0))
	}
	s, _ = router.Decide(s, router.Input{Event: router.Deleted{ID: "5"}, Rules: rules}, at(0))
	_, got := decided(s, router.Input{Event: router.Due{RequestID: fresh}, Rules: rules}, at(rules.Debounce.Max))
	if diff := cmp.Diff([]router.Effect{forward(event.Prompt, fresh, "4", "6")}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// The program may delete the original first. Its copy is answered in its place.
func TestACopyMayComeAfterTheDeletion(t *testing.T) {
	for name, before := range map[string]router.State{
		"the original waits in a burst":       {Buffer: []string{"5"}, First: 1, Due: 1},
		"the original is queued":              {Requests: []router.Request{{ID: "r5"}}},
		"the original was never for the bot":  {},
		"the original is being answered":      {Requests: []router.Request{{ID: "r5", Running: true}}},
		"the copy of an original came before": {Dropped: []string{"4"}, DroppedAt: at(0).UnixMilli()},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := router.Decide(before, router.Input{Event: router.Deleted{ID: "5", RequestID: "r5"}, Rules: rules}, at(0))
			_, got := decided(s, router.Input{Event: router.Message{ID: "6", RequestID: "r6", CopyOf: "5", Mode: router.Mention, Mentions: true, FromBot: true, Programs: true}, Rules: rules}, at(0))
			var want []router.Effect
			switch name {
			case "the original waits in a burst":
				want = []router.Effect{forward(event.Prompt, "r6", "6")}
			case "the original is queued":
				want = []router.Effect{router.Cancel{RequestID: "r5"}, forward(event.Prompt, "r6", "6")}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// While the gate judges the original, its verdict counts for the copy.
func TestACopyTakesThePlaceOfAMessageThatIsJudged(t *testing.T) {
	s := router.State{Gating: []string{"5"}}
	for _, e := range []router.Event{router.Message{ID: "6", CopyOf: "5", FromBot: true, Mode: router.Active}, router.Deleted{ID: "5"}} {
		s, _ = router.Decide(s, router.Input{Event: e, Rules: rules}, at(0))
	}
	_, got := decided(s, router.Input{Event: router.Gated{RequestID: fresh, Forward: true}, Rules: rules}, at(0))
	if diff := cmp.Diff([]router.Effect{forward(event.Prompt, fresh, "6")}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
