package discord_test

import (
	"fmt"
	"testing"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/foundation/event"
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
