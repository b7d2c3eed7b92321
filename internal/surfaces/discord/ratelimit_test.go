package discord_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/effort"
)

// A call whose response is lost may still have consumed part of a rate limit. Later calls must wait
// as if it had. The fake Discord fails the test for calls that do not wait.
func TestCallsThatAreNotAnsweredCount(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel() // it waits most of the time
	const edits = "PATCH /channels/{channel}/messages/{message}"
	w := newWorld(t, discordtest.Options{Limits: map[string]discordtest.Limit{edits: {Requests: 3, Per: 2 * time.Second}}})
	a, _ := w.connected(w.options())
	m, err := a.Send(t.Context(), surface.Send{ChannelID: w.channel, Content: surface.Content{Text: "0"}, Nonce: "n"})
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 4; n++ {
		if n == 2 {
			w.server.Fail(edits, discordtest.Fault{Delay: 100 * time.Millisecond, CutAfter: true}, 2)
		}
		err := a.Edit(t.Context(), event.MessageRef{Platform: "discord", ChannelID: w.channel, MessageID: m.ID}, surface.Content{Text: fmt.Sprint(n)})
		if lost := n == 2 || n == 3; (err != nil) != lost {
			t.Errorf("edit %d: %v", n, err)
		}
	}
}

// The network in front of Discord bans an address with a page, or with JSON, that names no time. Calls
// would prolong the ban.
func TestABanWithoutATimeIsWaitedOut(t *testing.T) {
	for name, ban := range map[string]discordtest.Fault{
		"as a page": {Status: http.StatusTooManyRequests, Page: "error code: 1015"},
		// Reported as discord-api-docs#5810.
		"as JSON": {Status: http.StatusTooManyRequests, Page: `{"code": 0, "message": "You are being blocked from accessing our API temporarily due to exceeding our rate limits frequently."}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, discordtest.Options{Memory: true})
				a, _ := w.connected(w.options())
				w.server.FailNext("POST /channels/{channel}/messages", ban)
				before := len(w.server.Requests())
				for range 3 {
					_, err := a.Send(t.Context(), say(w, "hi", ""))
					if fault.KindOf(err) != fault.RateLimited || fault.RetryAfterOf(err) < 50*time.Second {
						t.Errorf("during the ban: %v, again in %v", err, fault.RetryAfterOf(err))
					}
				}
				if err := a.Typing(t.Context(), w.channel); fault.KindOf(err) != fault.RateLimited {
					t.Errorf("another call during the ban: %v", err)
				}
				if n := len(w.server.Requests()) - before; n != 1 {
					t.Errorf("%d requests during the ban, want the one that was refused", n)
				}
				time.Sleep(2 * time.Minute)
				if _, err := a.Send(t.Context(), say(w, "hi", "")); err != nil {
					t.Errorf("after the ban: %v", err)
				}
			})
		})
	}
}
