package router_test

import (
	"strconv"
	"testing"
	"time"

	"lilac/internal/core/router"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/store"
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

// A program that writes each message in a thread of its own is one program.
func TestProgramsInThreadsCountTogether(t *testing.T) {
	w := newWorld(t)
	w.mode, w.programs = router.Active, true
	w.start()
	say := func(thread, author string, bot bool) {
		t.Helper()
		facts := surface.Facts{MentionsBot: true, AuthorIsBot: bot}
		m := surface.Message{Platform: "discord", ChannelID: thread, ID: thread + "1", AuthorID: author, AuthorName: "x", AuthorBot: bot, Text: "<@" + self + "> hi", CreatedAt: w.now.Load(), Raw: facts.Raw("discord")}
		if err := w.db.Update(t.Context(), func(tx *db.Tx) error {
			if err := (store.SurfaceCache{}).PutSession(tx, surface.Session{Platform: "discord", ChannelID: thread, ParentChannelID: "10", Kind: surface.Thread}); err != nil {
				return err
			}
			if err := (store.SurfaceCache{}).PutMessage(tx, m); err != nil {
				return err
			}
			return w.svc.Route(tx, m)
		}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 7 {
		say(strconv.Itoa(100+i), "9", true)
	}
	if n := len(w.sent()); n != 5 {
		t.Errorf("seven threads of a program woke the agent %d times, want 5", n)
	}
	say("200", "7", false)
	say("201", "9", true)
	if n := len(w.sent()); n != 7 {
		t.Errorf("after a person, %d requests, want 7", n)
	}
}
