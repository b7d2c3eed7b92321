package doctor

import (
	"context"
	"time"

	"lilac/internal/surfaces/discord"
)

// discordTimeout bounds all requests to Discord together; there is one for each channel.
const discordTimeout = 30 * time.Second

// discord checks the bot's token, its intents, and its permissions in each allowed channel.
func (p Patient) discord(ctx context.Context) []Finding {
	c := p.Config.Surface.Discord
	if !c.Token.Set() && c.Meant() {
		return []Finding{{"discord", Warn, "off, although it is configured: DISCORD_TOKEN is not set", "Set it to the bot's token: https://discord.com/developers/applications, the application, Bot, “Reset Token”."}}
	}
	if !c.Token.Set() {
		return []Finding{{"discord", OK, "off: DISCORD_TOKEN is not set", ""}}
	}
	ctx, cancel := context.WithTimeout(ctx, discordTimeout)
	defer cancel()
	var out []Finding
	for _, f := range discord.Check(ctx, discord.Options{Config: discord.Config{
		Token: c.Token.Reveal(), APIURL: c.APIURL, GatewayURL: c.GatewayURL,
		Allowed: discord.Allowed{AllowedChannelIDs: c.AllowedChannelIDs, AllowedGuildIDs: c.AllowedGuildIDs, AllowDMs: c.AllowDMs, AllowedUserIDs: c.AllowedUserIDs},
	}}) {
		status := Fail
		if f.OK {
			status = OK
		}
		out = append(out, Finding{"discord", status, f.What, f.Do})
	}
	return out
}
