package app

import "lilac/internal/environment"

// sessions are what rules know of sessions.
func (p *program) sessions() environment.Sessions {
	return environment.Sessions{Client: p.store.ClientOf, Titled: p.store.SessionTitled}
}

// rules are those that are in force.
func (p *program) rules() []environment.Rule {
	return environment.DefaultRules(environment.Ports{DB: p.db, Session: p.sessions(), Logger: p.Logger})
}
