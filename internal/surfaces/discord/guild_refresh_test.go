package discord_test

import (
	"context"
	"slices"
	"testing"

	"lilac/internal/engine/db"
	"lilac/internal/store"
	"lilac/internal/surfaces/discord"
	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/effort"
)

// titled returns the IDs of visible channels with a title.
func (w *world) titled(title string) (ids []string) {
	w.t.Helper()
	err := w.db.Read(context.Background(), func(q db.Queryer) error {
		found, err := store.SurfaceCache{}.SessionsTitled(q, discord.Platform, title)
		for _, s := range found {
			if !s.Hidden {
				ids = append(ids, s.ChannelID)
			}
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return ids
}

func (w *world) awaitTitled(what, title string, ids ...string) {
	w.t.Helper()
	w.await(what, func() bool { return slices.Equal(w.titled(title), ids) })
}

// The bot knows a channel's title before anyone writes in it.
func TestChannelsAreKnownByTheirTitlesFromTheStart(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	ops, vault := w.server.Channel(w.guild, "ops"), w.server.Channel(w.guild, "vault")
	w.server.Deny(vault, w.guild, discordtest.ViewChannel)
	w.connected(w.options())
	w.awaitTitled("a channel", "#Ops", ops)
	if got := w.titled("vault"); len(got) != 0 {
		t.Errorf("a channel that is hidden from us has a title: %v", got)
	}
	w.server.RenameChannel(ops, "operations")
	w.awaitTitled("the new title", "operations", ops)
	w.awaitTitled("the old title", "ops")
	made := w.server.Channel(w.guild, "ops")
	w.awaitTitled("a new channel", "ops", made)
	w.server.DeleteChannel(made)
	w.awaitTitled("a deleted channel", "ops")
}

func TestATitleIsKnownWhenItsChannelIsShownToUs(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel() // it waits most of the time
	for name, show := range map[string]func(w *world, vault string){
		"in the channel": func(w *world, vault string) { w.server.Permit(vault, w.guild, discordtest.ViewChannel) },
		"by a role":      func(w *world, _ string) { w.server.Role(w.guild, discordtest.Administrator, w.server.Self().ID) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, discordtest.Options{})
			vault := w.server.Channel(w.guild, "vault")
			w.server.Deny(vault, w.guild, discordtest.ViewChannel)
			w.connected(w.options())
			w.await("the server is known", func() bool { return len(w.titled("general")) == 1 })
			show(w, vault)
			w.awaitTitled("what is shown", "vault", vault)
		})
	}
}

// A resumed gateway session does not start with the list of channels. If a server was allowed since,
// the adapter requests its channels.
func TestTheTitlesOfAServerThatIsAllowedLaterAreKnown(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel() // it waits most of the time
	w := newWorld(t, discordtest.Options{})
	closed := w.options()
	closed.AllowedGuildIDs, closed.AllowDMs = nil, true
	other := w.server.Guild("other", w.ann)
	ops := w.server.Channel(other, "ops")
	_, stop := w.connected(closed)
	w.knowsCommands()
	stop()

	a, _ := w.connected(w.options())
	w.awaitTitled("after a restart", "general", w.channel)
	if got := w.titled("ops"); len(got) != 0 {
		t.Errorf("a server that is not allowed is known: %v", got)
	}
	a.Allow(discord.Allowed{AllowedChannelIDs: []string{ops}})
	w.awaitTitled("after a change of the configuration", "ops", ops)
}

func TestAServerThatWeLeftLeavesNoTitles(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	w.connected(w.options())
	w.awaitTitled("the channel", "general", w.channel)
	w.server.Leave(w.guild, w.server.Self())
	w.awaitTitled("after it was left", "general")
}
