package app

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"lilac/internal/core/environment"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/operate/config"
	"lilac/internal/store"
	"lilac/internal/surfaces/discord"
)

// sessions returns the access of rules to sessions.
func (p *program) sessions() environment.Sessions {
	return environment.Sessions{Client: p.clientOf, Titled: p.sessionTitled}
}

// clientOf returns the surface of a session, and whether the session exists. A platform channel
// without a conversation also counts as known, so that a rule can start one there.
func (p *program) clientOf(q db.Queryer, sessionID string) (client string, known bool, err error) {
	client, known, err = p.store.Sessions.ClientOf(q, sessionID)
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
	return slices.Contains(channelsOf(p.Config), channelID)
}

// channelsOf returns the ids of the Discord channels in a configuration.
func channelsOf(c *config.Config) []string {
	d := c.Surface.Discord
	return slices.Concat(d.AllowedChannelIDs, slices.Collect(maps.Keys(d.Channels)), slices.Collect(maps.Values(c.Entity.Sessions.Discord)))
}

// namedSessions returns the ids of those channels and of the sessions that rules name.
func namedSessions(c *config.Config) []string {
	ids := channelsOf(c)
	for _, r := range c.Rules {
		ids = append(ids, r.Session, r.When.Session)
	}
	return ids
}

// sessionTitled returns the newest session with a title, or else the platform channel with that
// name, or "". If several channels have the name, it returns a fault.Conflict instead of
// guessing, even if the agent has a session in one of them.
func (p *program) sessionTitled(q db.Queryer, title string) (string, error) {
	var platforms []string
	for _, s := range p.platforms {
		platforms = append(platforms, s.adapter.Platform())
	}
	id, err := p.store.Sessions.SessionTitled(q, title, platforms)
	if err != nil || id != "" {
		return id, err
	}
	for _, platform := range platforms {
		id, err := p.mapper(q, platform).Channel(title)
		if fault.KindOf(err) != fault.NotFound {
			return id, err
		}
	}
	return "", nil
}

// allow asks the rule that started a request whether the request may continue.
func (p *program) allow(ctx context.Context, requestID, sessionID string, more chat.Usage) (*session.Refusal, error) {
	refusal, err := p.env.Allow(ctx, requestID, sessionID, more)
	if err != nil || refusal == nil {
		return nil, err
	}
	return &session.Refusal{Reason: refusal.Sentence, Quiet: refusal.Announced, Drop: refusal.Queued, DropReason: refusal.QueuedReason}, nil
}

// rules returns the rules of a configuration, followed by the built-in rules.
func (p *program) rules(c *config.Config) ([]environment.Rule, error) {
	configured, err := c.EnvironmentRules()
	if err != nil {
		return nil, fmt.Errorf("make the rules ready: %w", err)
	}
	return slices.Concat(configured, environment.DefaultRules(environment.DefaultsOptions{
		DB: p.db, Session: p.sessions(), AnswersQuestion: p.answers, OnMessage: p.workflows.OnMessage, Logger: p.Logger,
	})), nil
}

// answers reports whether a message answers a request that is paused at a limit.
func (p *program) answers(q db.Queryer, sessionID string, m chat.Message) (bool, error) {
	said := []chat.Message{m}
	if session.AnswerOf(said) == session.NoAnswer {
		return false, nil // the usual case
	}
	state, err := p.store.States.State(q, sessionID)
	return state.IsAnswer(said), err
}
