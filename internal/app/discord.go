package app

import (
	"context"
	"crypto/rand"
	"net/http"
	"slices"

	"lilac/internal/core/interaction"
	"lilac/internal/core/pairing"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/operate/config"
	"lilac/internal/store"
	"lilac/internal/surfaces/discord"
	"lilac/internal/telemetry/health"
)

// buildDiscord connects Discord to the cores. Without a token, Discord is off.
func (b platformBuilder) buildDiscord() {
	if d := b.Config.Surface.Discord; !d.Token.Set() {
		if d.Meant() {
			b.Logger.Warn("Discord is off although it is configured: set DISCORD_TOKEN to the bot's token")
		}
		return
	}
	interactions := interaction.New(interaction.Options{
		DB: b.db, Sessions: store.InteractionTables{}, Origins: b.workflows,
		Model: func(q db.Queryer, sessionID string) string {
			return models(b).name(q, discord.Platform, sessionID)
		},
		Selectable: models(b).selectable,
		Choose: func(tx *db.Tx, sessionID, eventID, model string) error {
			return models(b).choose(tx, discord.Platform, sessionID, eventID, model)
		},
		NewConversation: func(tx *db.Tx, sessionID, by string) error { return b.runner.NewConversation(tx, sessionID, by) },
	})
	var built *platform
	var adapter *discord.Adapter
	people := pairing.New(pairing.Options{
		Platform: discord.Platform, DB: b.db, Table: store.Pairings{}, Logger: b.Logger,
		Random:  func(raw []byte) { _, _ = rand.Read(raw) }, // never fails: the standard library ends the program instead
		Enabled: func() bool { return b.now.Load().config.Surface.Discord.Pairing == discord.PairingCode },
		Tell: func(ctx context.Context, userID, text, nonce string) error {
			return adapter.Tell(ctx, userID, text, nonce)
		},
		Changed: func() { built.configure(b.now.Load().config) },
	})
	adapter = discord.New(discord.Options{
		Stranger: func(tx *db.Tx, u surface.User) error { return people.Knock(tx, u.ID, u.Name) },
		MayTalk:  func(u surface.User) bool { return b.now.Load().config.Surface.Discord.Access.Talk.People().Includes(u) },
		MayStop: func(u surface.User, moderator bool) bool {
			return mayStop(b.now.Load().config.Surface.Discord.Access.Stop, u, moderator)
		},
		LinkPreviews: func() bool { return b.now.Load().config.Surface.Discord.LinkPreviews },
		Config:       b.Config.Surface.Discord.Config(), DB: b.db, Tables: b.Seams.Discord.around(discord.TablesOf(store.Discord{})),
		Blobs: sentFiles{b.blobs, b.Config.DataDir, health.DiskAt}, Interactions: interactions, Models: interactions, Names: func(q db.Queryer) func(string) string { return names(b).mapper(q, discord.Platform).In }, Scrub: b.Secrets.Redact, Logger: b.Logger, Version: b.Version, HTTP: &http.Client{Transport: b.Seams.Calls.around(http.DefaultTransport)},
	})
	built = b.buildPlatform(adapter, interactions)
	built.pairing = people
	interactions.Asker = built.router
	built.configure = func(c *config.Config) {
		allowed := c.Surface.Discord.Config().Allowed
		err := b.db.Read(context.Background(), func(q db.Queryer) error {
			approved, err := people.Approved(q)
			allowed.AllowedUserIDs = slices.Concat(allowed.AllowedUserIDs, approved)
			return err
		})
		if err != nil {
			b.Logger.Error("cannot read who may send private messages; only the people in the configuration may", "error", err)
		}
		adapter.Allow(allowed)
	}
	built.configure(b.Config)
	b.platforms = append(b.platforms, built)
}

// mayStop reports whether a person may stop the answers of others. Without a list of those
// who may, moderators may.
func mayStop(access discord.PeopleSettings, u surface.User, moderator bool) bool {
	return (moderator || len(access.Allow) > 0) && access.People().Includes(u)
}
