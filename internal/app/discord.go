package app

import (
	"net/http"
	"time"

	"lilac/internal/core/interaction"
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
	adapter := discord.New(discord.Options{
		Config: discordConfig(b.Config.Surface.Discord), DB: b.db, Tables: b.Seams.Discord.around(discord.TablesOf(store.Discord{})),
		Blobs: sentFiles{b.blobs, b.Config.DataDir, health.DiskAt}, Interactions: interactions, Models: interactions, Names: func(q db.Queryer) func(string) string { return names(b).mapper(q, discord.Platform).In }, Scrub: b.Secrets.Redact, Logger: b.Logger, Version: b.Version, HTTP: &http.Client{Transport: b.Seams.Calls.around(http.DefaultTransport)},
	})
	built := b.buildPlatform(adapter, interactions)
	interactions.Asker = built.router
	built.configure = func(c *config.Config) { adapter.Allow(discordConfig(c.Surface.Discord).Allowed) }
	b.platforms = append(b.platforms, built)
}

func discordConfig(c config.Discord) discord.Config {
	return discord.Config{
		Token: c.Token.Reveal(), APIURL: c.APIURL, GatewayURL: c.GatewayURL,
		Allowed:     discord.Allowed{AllowedChannelIDs: c.AllowedChannelIDs, AllowedGuildIDs: c.AllowedGuildIDs, AllowDMs: c.AllowDMs, AllowedUserIDs: c.AllowedUserIDs},
		BackfillAge: time.Duration(c.Backfill.Age), BackfillMessages: c.Backfill.Messages,
		AttachmentBytes: int64(c.Attachments.MaxBytes), AttachmentHosts: c.Attachments.Hosts,
	}
}
