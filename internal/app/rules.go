package app

import (
	"fmt"
	"maps"
	"slices"

	"lilac/internal/core/entity"
	"lilac/internal/core/environment"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/grant"
	"lilac/internal/operate/config"
	"lilac/internal/surfaces/discord"
)

// sessions finds sessions, with the names of the configuration that is in force.
func (n names) sessions() entity.Sessions {
	out := entity.Sessions{Table: n.store.Sessions}
	for _, s := range n.platforms {
		platform := s.adapter.Platform()
		out.Platforms = append(out.Platforms, entity.Platform{
			Directory:  n.directory(platform),
			Names:      func(q db.Queryer) *entity.Mapper { return n.mapper(q, platform) },
			Configured: func(id string) bool { return platform == discord.Platform && slices.Contains(channelsOf(n.Config), id) },
		})
	}
	return out
}

// ruleSessions is the access of rules to sessions.
func (n names) ruleSessions() environment.Sessions {
	return environment.Sessions{
		Client: func(q db.Queryer, id string) (string, bool, error) { return n.sessions().ClientOf(q, id) },
		Titled: func(q db.Queryer, title string) (string, error) { return n.sessions().Titled(q, title) },
	}
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

// ruleBuilder makes the rules of a configuration ready.
type ruleBuilder struct{ *base }

// rules returns the rules of a configuration, followed by the built-in rules.
func (b ruleBuilder) rules(c *config.Config) ([]environment.Rule, error) {
	configured, err := c.EnvironmentRules()
	if err != nil {
		return nil, fmt.Errorf("make the rules ready: %w", err)
	}
	return slices.Concat(configured, c.BuiltinRules(environment.DefaultRules(environment.DefaultsOptions{
		DB: b.db, Session: names(b).ruleSessions(), AnswersQuestion: b.answers, OnMessage: b.workflows.OnMessage, Member: b.memberTools, Logger: b.Logger,
	}))), nil
}

// memberTools returns what requests of members of the team may use, as the configuration in force
// says.
func (b ruleBuilder) memberTools() grant.Tools {
	return b.now.Load().config.Accounts.Member.Tools.Tools("accounts.member.tools")
}

// answers reports whether a message answers a request that is paused at a limit.
func (b ruleBuilder) answers(q db.Queryer, sessionID string, m chat.Message) (bool, error) {
	return session.Answers(q, b.store.States, sessionID, m)
}
