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

// Where the bot may not write, repeated requests from users must not push it to Discord's limit of
// invalid requests. Beyond that limit, the bot could not answer anywhere.
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
			changed++ // this message is received after the permission change
			w.server.Say(w.channel, w.ann, fmt.Sprint("change ", changed), discordtest.SayOptions{})
			w.hears(fmt.Sprint("change ", changed))
		}
		change(w.server.Deny, discordtest.SendMessages)

		reply := surface.Send{ChannelID: quiet, Content: surface.Content{Text: "hi"}, ReplyTo: asked}
		before := w.writes()
		for range 1_200 { // more than Lilac permits itself in ten minutes
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

		// Time passes without an event that restores the permission.
		time.Sleep(3 * time.Minute)
		before = w.writes()
		if _, err := a.Send(t.Context(), reply); fault.KindOf(err) != fault.Denied || w.writes()-before != 1 {
			t.Errorf("after a while: %v, %d requests", err, w.writes()-before)
		}

		// After the permission is restored, the adapter uses it at once.
		change(w.server.Permit, discordtest.SendMessages)
		if _, err := a.Send(t.Context(), reply); err != nil {
			t.Errorf("when it is permitted: %v", err)
		}

		// If only files or only replies are denied, text still works.
		change(w.server.Deny, discordtest.AttachFiles|discordtest.ReadMessageHistory)
		plain, withFile := reply, reply
		plain.ReplyTo, withFile.ReplyTo = "", ""
		withFile.Files = []surface.File{{Name: "a.txt", Data: []byte("x")}}
		for range 2 {
			before = w.writes()
			if _, err := a.Send(t.Context(), withFile); fault.KindOf(err) != fault.Denied {
				t.Errorf("a file: %v", err)
			}
			// The adapter sends the reply without its reference.
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

// An answer in a channel where edits are denied is retried for a long time. The retries must count as
// only one request against the limit of invalid requests.
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
		told := func() { // a message posted after the change is received after it
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

// writes returns the number of received write requests.
func (w *world) writes() (n int) {
	for _, r := range w.server.Requests() {
		if strings.HasPrefix(r.Route, "POST /channels/") {
			n++
		}
	}
	return n
}
