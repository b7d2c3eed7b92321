package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lilac/internal/chat"
	"lilac/internal/config"
	"lilac/internal/db"
	"lilac/internal/discord"
	"lilac/internal/environment"
	"lilac/internal/fault"
	"lilac/internal/session"
	"lilac/internal/store"
	"lilac/internal/surface"
)

// sessions are what rules know of sessions.
func (p *program) sessions() environment.Sessions {
	return environment.Sessions{Client: p.clientOf, Titled: p.sessionTitled}
}

// clientOf is the surface of a session, and whether it exists: also a channel
// of a platform in which nobody has spoken with the agent yet, so that a rule
// can be the first.
func (p *program) clientOf(q db.Queryer, sessionID string) (client string, known bool, err error) {
	client, known, err = p.store.ClientOf(q, sessionID)
	if known || err != nil || sessionID == "" {
		return client, known, err
	}
	for _, s := range p.platforms {
		platform := s.adapter.Platform()
		switch _, err := (store.SurfaceCache{}).Session(q, platform, sessionID); {
		case err == nil:
			return platform, true, nil
		case fault.KindOf(err) != fault.NotFound:
			return "", false, err
		}
		if p.configured(platform, sessionID) {
			return platform, true, nil
		}
	}
	return "", false, nil
}

// configured reports whether the configuration names a channel.
func (p *program) configured(platform, channelID string) bool {
	if platform != discord.Platform {
		return false
	}
	c := p.Config.Surface.Discord
	_, has := c.Channels[channelID]
	return has || slices.Contains(c.AllowedChannelIDs, channelID) ||
		slices.Contains(slices.Collect(maps.Values(p.Config.Entity.Sessions.Discord)), channelID)
}

// sessionTitled is the newest session with a title, else the one channel of the
// platforms that is called so, else "".
func (p *program) sessionTitled(q db.Queryer, title string) (string, error) {
	id, err := p.store.SessionTitled(q, title)
	if err != nil || id != "" {
		return id, err
	}
	name := strings.TrimPrefix(title, "#")
	var found []string
	for _, s := range p.platforms {
		platform := s.adapter.Platform()
		if id, ok := p.Config.Entity.Sessions.Discord[name]; ok && platform == discord.Platform {
			return id, nil
		}
		channels, err := (store.SurfaceCache{}).Sessions(q, platform)
		if err != nil {
			return "", err
		}
		for _, c := range channels {
			if c.Kind != surface.Direct && strings.EqualFold(strings.TrimPrefix(c.Title, "#"), name) {
				found = append(found, c.ChannelID)
			}
		}
	}
	if len(found) != 1 {
		return "", nil // it is never a guess
	}
	return found[0], nil
}

// allow asks the rule that started a request whether that may go on.
func (p *program) allow(ctx context.Context, requestID, sessionID string, more chat.Usage) (*session.Refusal, error) {
	refusal, err := p.env.Allow(ctx, requestID, sessionID, more)
	if err != nil || refusal == nil {
		return nil, err
	}
	return &session.Refusal{Reason: refusal.Sentence, Quiet: refusal.Told, Drop: refusal.Waiting, DropReason: refusal.Rest}, nil
}

// rules are those of a configuration, then those that come with the program.
func (p *program) rules(c *config.Config) ([]environment.Rule, error) {
	configured, err := c.EnvironmentRules()
	if err != nil {
		return nil, fmt.Errorf("make the rules ready: %w", err)
	}
	return slices.Concat(configured, environment.DefaultRules(environment.Ports{DB: p.db, Session: p.sessions(), Hear: p.workflows.Hear, Logger: p.Logger})), nil
}
