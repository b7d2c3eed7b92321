package discord_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/discordtest"
)

// Where the bot may not write, those who ask it again and again do not bring it
// to Discord's limit of refused requests: it could not answer anywhere then.
func TestWhereNothingMayBeWrittenItIsNotTriedAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, discordtest.Options{Memory: true})
		a, _ := w.connected(w.options())
		quiet := w.server.Channel(w.guild, "announcements")
		asked := w.server.Say(quiet, w.ann, "hello", discordtest.SayOptions{})
		w.hears("hello")
		changed := 0
		change := func(way func(channel, who string, p discordtest.Permission), p discordtest.Permission) {
			way(quiet, w.server.Self().ID, p)
			changed++ // what is heard behind it is heard later
			w.server.Say(w.channel, w.ann, fmt.Sprint("change ", changed), discordtest.SayOptions{})
			w.hears(fmt.Sprint("change ", changed))
		}
		change(w.server.Deny, discordtest.SendMessages)

		reply := surface.Send{ChannelID: quiet, Content: surface.Content{Text: "hi"}, ReplyTo: asked}
		before := w.writes()
		for range 1_200 { // more than Lilac allows itself in ten minutes
			if err := a.Typing(t.Context(), quiet); fault.KindOf(err) != fault.Denied {
				t.Fatalf("typing: %v", err)
			}
			if _, err := a.Send(t.Context(), reply); fault.KindOf(err) != fault.Denied || !strings.Contains(err.Error(), "lacks a permission") {
				t.Fatalf("writing: %v", err)
			}
		}
		if n := w.writes() - before; n != 2 {
			t.Errorf("%d requests were made where 2 tell all", n)
		}
		if _, err := a.Send(t.Context(), say(w, "elsewhere", "act-1")); err != nil {
			t.Errorf("elsewhere: %v", err)
		}

		// Time passes, and nobody says that it is permitted now.
		time.Sleep(3 * time.Minute)
		before = w.writes()
		if _, err := a.Send(t.Context(), reply); fault.KindOf(err) != fault.Denied || w.writes()-before != 1 {
			t.Errorf("after a while: %v, %d requests", err, w.writes()-before)
		}

		// What is permitted is done at once.
		change(w.server.Permit, discordtest.SendMessages)
		if _, err := a.Send(t.Context(), reply); err != nil {
			t.Errorf("when it is permitted: %v", err)
		}

		// Where files or replies alone are refused, text is not.
		change(w.server.Deny, discordtest.AttachFiles|discordtest.ReadMessageHistory)
		plain, withFile := reply, reply
		plain.ReplyTo, withFile.ReplyTo = "", ""
		withFile.Files = []surface.File{{Name: "a.txt", Data: []byte("x")}}
		for range 2 {
			before = w.writes()
			if _, err := a.Send(t.Context(), withFile); fault.KindOf(err) != fault.Denied {
				t.Errorf("a file: %v", err)
			}
			// A reply is sent without its reference.
			if m, err := a.Send(t.Context(), reply); err != nil || m.ReplyTo != "" {
				t.Errorf("a reply: %+v, %v", m, err)
			}
			if _, err := a.Send(t.Context(), plain); err != nil {
				t.Errorf("words: %v", err)
			}
		}
		if n := w.writes() - before; n != 2 {
			t.Errorf("%d requests for what was refused before", n-2)
		}
	})
}

// Answers that stand where nothing may be edited are tried again for long, and
// use up no more of that limit than one does.
func TestEditsThatAreRefusedAreNotTriedAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, discordtest.Options{Memory: true})
		a, _ := w.connected(w.options())
		made, err := a.Send(t.Context(), say(w, "hello", "act-1"))
		if err != nil {
			t.Fatal(err)
		}
		edits := func() (n int) {
			for _, r := range w.server.Requests() {
				if strings.HasPrefix(r.Route, "PATCH /channels/") {
					n++
				}
			}
			return n
		}
		changed := 0
		told := func() { // what is heard behind a change is heard later
			changed++
			aside := w.server.Channel(w.guild, fmt.Sprint("aside", changed))
			w.server.Say(aside, w.ann, fmt.Sprint("change ", changed), discordtest.SayOptions{})
			w.hears(fmt.Sprint("change ", changed))
		}
		w.server.Deny(w.channel, w.server.Self().ID, discordtest.ViewChannel)
		told()
		for range 100 {
			if err := a.Edit(t.Context(), made.Ref(), surface.Content{Text: "bye"}); fault.KindOf(err) != fault.Denied {
				t.Fatalf("editing: %v", err)
			}
		}
		if n := edits(); n != 1 {
			t.Errorf("%d requests were made where 1 tells all", n)
		}
		w.server.Permit(w.channel, w.server.Self().ID, discordtest.ViewChannel)
		told()
		if err := a.Edit(t.Context(), made.Ref(), surface.Content{Text: "bye"}); err != nil || edits() != 2 {
			t.Errorf("when it is permitted: %v, %d requests", err, edits())
		}
	})
}

// writes is how many requests have come that write.
func (w *world) writes() (n int) {
	for _, r := range w.server.Requests() {
		if strings.HasPrefix(r.Route, "POST /channels/") {
			n++
		}
	}
	return n
}
