package app

import (
	"time"

	"lilac/internal/config"
	"lilac/internal/discord"
	"lilac/internal/store"
)

// buildDiscord connects Discord to the cores; without a token it is off.
func (p *program) buildDiscord(blobs *store.Blobs) {
	if !p.Config.Surface.Discord.Token.Set() {
		return
	}
	asked := &interactions{p: p}
	adapter := discord.New(discord.Options{
		Config: discordConfig(p.Config.Surface.Discord), DB: p.db, Table: store.NewDiscord(p.store), Blobs: blobs,
		Interactions: asked, Scrub: p.Secrets.Redact, Logger: p.Logger,
	})
	asked.on = p.buildPlatform(adapter, blobs)
	p.platforms = append(p.platforms, asked.on)
}

func discordConfig(c config.Discord) discord.Config {
	return discord.Config{
		Token: c.Token.Reveal(), APIURL: c.APIURL, GatewayURL: c.GatewayURL,
		AllowedChannelIDs: c.AllowedChannelIDs, AllowedGuildIDs: c.AllowedGuildIDs, AllowDMs: c.AllowDMs, AllowedUserIDs: c.AllowedUserIDs,
		BackfillAge: time.Duration(c.Backfill.Age), BackfillMessages: c.Backfill.Messages,
		AttachmentBytes: int64(c.Attachments.MaxBytes), AttachmentHosts: c.Attachments.Hosts,
	}
}
