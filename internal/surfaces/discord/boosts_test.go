package discord_test

import (
	"testing"

	"lilac/internal/core/surface"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/discordtest"
)

// A server with many boosts accepts larger files, also after the boosts change and after a restart.
func TestABoostedServerGetsLargerFiles(t *testing.T) {
	t.Parallel() // it waits most of the time
	w := newWorld(t, discordtest.Options{})
	w.server.Boost(w.guild, 2)
	a, stop := w.connected(w.options())
	w.caughtUp()
	send := surface.Send{ChannelID: w.channel, Files: []surface.File{{Name: "a.bin", Data: make([]byte, 12<<20)}}}
	if _, err := a.Send(t.Context(), send); err != nil || a.MaxFileBytes(w.channel) < 12<<20 {
		t.Errorf("the limit is %d, and sending fails with %v", a.MaxFileBytes(w.channel), err)
	}
	w.server.Boost(w.guild, 1)
	w.await("the boosts are gone", func() bool { return a.MaxFileBytes(w.channel) == 10<<20 })
	if _, err := a.Send(t.Context(), send); fault.KindOf(err) != fault.TooLarge {
		t.Errorf("sending fails with %v", err)
	}
	w.server.Boost(w.guild, 3)
	w.await("there are more boosts", func() bool { return a.MaxFileBytes(w.channel) >= 12<<20 })
	stop()

	a, _ = w.connected(w.options()) // it resumes, so that Discord does not describe the server again
	w.server.Say(w.channel, w.ann, "hello", discordtest.SayOptions{})
	w.hears("hello")
	w.await("the boosts are known again", func() bool { return a.MaxFileBytes(w.channel) >= 12<<20 })
}
