package router_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/router"
	"lilac/internal/foundation/event"
)

// A locked thread accepts no answer: nothing begins there, and the first person who asks is told.
func TestInALockedThreadNothingBegins(t *testing.T) {
	s, said := router.State{}, 0
	say := func(m router.Message, want ...router.Effect) {
		t.Helper()
		said++
		m.Mode = router.Mention
		var got []router.Effect
		s, got = decided(s, router.Input{Event: m, Rules: rules}, at(0))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("message %d: -want +got\n%s", said, diff)
		}
	}
	say(router.Message{ID: "1", Locked: true, UserID: "7"})
	say(router.Message{ID: "2", Locked: true, UserID: "7", Mentions: true}, router.Refuse{MessageID: "2", UserID: "7"})
	say(router.Message{ID: "3", Locked: true, UserID: "8", Mentions: true})
	if s.Empty() {
		t.Error("the state forgets that somebody was told")
	}
	say(router.Message{ID: "4", RequestID: fresh, UserID: "7", Mentions: true}, forward(event.Prompt, fresh, "4"))
	s.Requests = nil
	say(router.Message{ID: "5", Locked: true, UserID: "7", ReplyTo: "4", ReplyToUs: true}, router.Refuse{MessageID: "5", UserID: "7"})
}

// The members of an active thread talk to each other, so only those who ask the agent are told.
func TestInALockedActiveThreadOnlyQuestionsAreRefused(t *testing.T) {
	var s router.State
	s, got := decided(s, router.Input{Event: router.Message{ID: "1", Mode: router.Active, Locked: true}, Rules: rules}, at(0))
	if len(got) != 0 || len(s.Buffer) != 0 {
		t.Errorf("talk: %v, %+v", got, s)
	}
	if _, got = decided(s, router.Input{Event: router.Message{ID: "2", Mode: router.Active, Locked: true, Mentions: true}, Rules: rules}, at(0)); len(got) != 1 {
		t.Errorf("a question: %v", got)
	}
}
