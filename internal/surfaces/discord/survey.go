package discord

import (
	"cmp"
	"context"
	"fmt"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/order"
)

// PortalURL is where people create applications and their bots.
const PortalURL = "https://discord.com/developers/applications"

// maxSurveyed bounds the servers whose channels a survey lists. Each costs three requests.
const maxSurveyed = 25

// A Survey lists the bot, servers and channels to which a token gives access.
type Survey struct {
	// Bot is the bot's name; Invite is the address that invites it to a server.
	Bot, Invite string
	// Servers are those that the bot is in, by name, at most 25. More is the number of others.
	Servers []SurveyedServer
	More    int
	// Findings are the results of the checks: the token, the intents, and the servers.
	Findings []Finding
}

// A SurveyedServer is a server with the channels that the bot can see.
type SurveyedServer struct {
	ID, Name string
	Channels []SurveyedChannel
}

// A SurveyedChannel is a channel. Missing lists the permissions that the bot lacks there.
type SurveyedChannel struct{ ID, Name, Missing string }

// InspectBot lists the servers and channels that the bot is in. It uses the token and the address of
// Config, and HTTP of the options. The error of a token that Discord rejects has the kind
// fault.Unauthenticated.
func InspectBot(ctx context.Context, o Options) (Survey, error) {
	c := &checker{client: newClient(o.withDefaults()), guilds: map[string]wireGuild{}, members: map[string]wireMember{}}
	var me wireUser
	if err := c.client.get(ctx, getCurrentUser.with(), &me); err != nil {
		return Survey{}, err
	}
	c.self = me.ID
	out := Survey{Bot: me.name(nil)}
	out.Findings = append(out.Findings, Finding{OK: true, What: "the token belongs to " + out.Bot}, c.intents(ctx))
	if c.applicationID != "" {
		out.Invite = c.inviteURL()
	}
	var guilds []wireGuild
	if err := c.client.get(ctx, getCurrentUserGuilds.with(), &guilds); err != nil {
		return Survey{}, fmt.Errorf("list the servers: %w", err)
	}
	order.By(guilds, func(a, b wireGuild) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	if out.More = max(0, len(guilds)-maxSurveyed); out.More > 0 {
		guilds = guilds[:maxSurveyed]
	}
	for _, g := range guilds {
		server, err := c.survey(ctx, g)
		if err != nil {
			out.Findings = append(out.Findings, Finding{What: fmt.Sprintf("the channels of the server %s cannot be read: %s", g.Name, fault.ToWire(err).Message)})
		}
		out.Servers = append(out.Servers, server)
	}
	return out, nil
}

// survey lists the visible channels of a server.
func (c *checker) survey(ctx context.Context, g wireGuild) (SurveyedServer, error) {
	out := SurveyedServer{ID: g.ID, Name: g.Name}
	if err := c.loadGuild(ctx, g.ID); err != nil {
		return out, err
	}
	var channels []wireChannel
	if err := c.client.get(ctx, getGuildChannels.with(g.ID), &channels); err != nil {
		return out, err
	}
	for _, ch := range channels {
		have := effectivePermissions(c.guilds[g.ID], c.members[g.ID], c.self, ch)
		if !ch.hasThreads() && !ch.isVoice() || isHidden(have, ch) {
			continue
		}
		found := SurveyedChannel{ID: ch.ID, Name: ch.Name}
		if f := checkPermissions(have, "", ch, g.Name); !f.OK {
			found.Missing = f.What + ". " + f.Do
		}
		out.Channels = append(out.Channels, found)
	}
	return out, nil
}
