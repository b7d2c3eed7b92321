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
func (p *program) buildDiscord() {
	if d := p.Config.Surface.Discord; !d.Token.Set() {
		if d.Meant() {
			p.Logger.Warn("Discord is off although it is configured: set DISCORD_TOKEN to the bot's token")
		}
		return
	}
	interactions := interaction.New(interaction.Options{
		DB: p.db, Sessions: store.InteractionTables{}, Origins: p.workflows, Model: func() string { return p.now.Load().choice.String() },
		NewConversation: func(tx *db.Tx, sessionID, by string) error { return p.runner.NewConversation(tx, sessionID, by) },
	})
	adapter := discord.New(discord.Options{
		Config: discordConfig(p.Config.Surface.Discord), DB: p.db, Tables: p.Seams.Discord.around(discord.TablesOf(store.Discord{})),
		Blobs: sentFiles{p.blobs, p.Config.DataDir, health.DiskAt}, Interactions: interactions, Scrub: p.Secrets.Redact, Logger: p.Logger, Version: p.Version, HTTP: &http.Client{Transport: p.Seams.Calls.around(http.DefaultTransport)},
	})
	built := p.buildPlatform(adapter, interactions)
	interactions.Asker = built.router
	built.configure = func(c *config.Config) { adapter.Allow(discordConfig(c.Surface.Discord).Allowed) }
	p.platforms = append(p.platforms, built)
}

func discordConfig(c config.Discord) discord.Config {
	return discord.Config{
		Token: c.Token.Reveal(), APIURL: c.APIURL, GatewayURL: c.GatewayURL,
		Allowed:     discord.Allowed{AllowedChannelIDs: c.AllowedChannelIDs, AllowedGuildIDs: c.AllowedGuildIDs, AllowDMs: c.AllowDMs, AllowedUserIDs: c.AllowedUserIDs},
		BackfillAge: time.Duration(c.Backfill.Age), BackfillMessages: c.Backfill.Messages,
		AttachmentBytes: int64(c.Attachments.MaxBytes), AttachmentHosts: c.Attachments.Hosts,
	}
}
