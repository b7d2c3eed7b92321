package router_test

import (
	"strconv"
	"testing"
	"time"

	"lilac/internal/core/router"
)

// Where the session listens to programs, they wake the agent as people do, but two programs cannot answer
// each other forever.
func TestProgramsWakeTheAgentAFewTimesOnly(t *testing.T) {
	s := router.State{}
	n := 0
	wakes := func(bot, listens bool, after time.Duration) (woken bool) {
		n++
		id := strconv.Itoa(n)
		var effects []router.Effect
		s, effects = router.Decide(s, router.Input{Event: router.Message{
			ID: id, RequestID: "r" + id, Mode: router.Mention, Mentions: true, FromBot: bot, Programs: listens,
		}, Rules: rules}, at(after))
		s.Requests = nil // it is answered at once
		for _, e := range effects {
			_, ok := e.(router.Forward)
			woken = woken || ok
		}
		return woken
	}
	if wakes(true, false, 0) {
		t.Error("control: a program wakes the agent although the session does not listen to programs")
	}
	for i := range 5 {
		if !wakes(true, true, 0) {
			t.Errorf("message %d of a program wakes nobody", i)
		}
	}
	if wakes(true, true, time.Minute) {
		t.Error("the sixth message wakes the agent")
	}
	if !wakes(false, true, time.Minute) || !wakes(true, true, time.Minute) {
		t.Error("after a person, a program is not heard again")
	}
	for range 10 {
		wakes(true, true, time.Minute)
	}
	if wakes(true, true, time.Minute) || !wakes(true, true, 11*time.Minute) {
		t.Error("the window is not ten minutes")
	}
}
