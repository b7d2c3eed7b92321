package app

import (
	"fmt"
	"slices"

	"lilac/internal/config"
	"lilac/internal/environment"
)

// sessions are what rules know of sessions.
func (p *program) sessions() environment.Sessions {
	return environment.Sessions{Client: p.store.ClientOf, Titled: p.store.SessionTitled}
}

// rules are those of a configuration, then those that come with the program.
func (p *program) rules(c *config.Config) ([]environment.Rule, error) {
	configured, err := c.EnvironmentRules()
	if err != nil {
		return nil, fmt.Errorf("make the rules ready: %w", err)
	}
	return slices.Concat(configured, environment.DefaultRules(environment.Ports{DB: p.db, Session: p.sessions(), Logger: p.Logger})), nil
}
