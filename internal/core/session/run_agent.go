package session

import (
	"cmp"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// loadChoice reads what people chose for the session, or for the one that started a
// sub-agent, and decides which agent answers.
func (r *run) loadChoice(q db.Queryer) (err error) {
	payer := cmp.Or(r.payer, r.sessionID)
	r.session, err = r.svc.opt.Tables.Sessions.Session(q, payer)
	if fault.KindOf(err) == fault.NotFound { // somebody deleted it
		r.session, err = Session{ID: payer, Client: r.client}, nil
	}
	if err != nil {
		return err
	}
	own := Session{ID: r.sessionID, Client: r.client}
	if payer == r.sessionID {
		own = r.session
	}
	r.session.Agent = cmp.Or(r.agent, r.svc.opt.agentIn(q, r.session))
	own.Agent = cmp.Or(r.agent, r.svc.opt.agentIn(q, own))
	r.agent = own.Agent
	channel := ""
	if f := r.svc.opt.ChannelInstructions; f != nil {
		channel = f(q, own)
	}
	r.instructions = joinInstructions(channel, own.Instructions)
	return nil
}

// agentIn returns the configured agent that answers in a session: what people chose there,
// else that of its channel, else "".
func (o Options) agentIn(q db.Queryer, v Session) string {
	if v.Agent != "" || o.ChannelAgent == nil {
		return v.Agent
	}
	return o.ChannelAgent(q, v)
}

// workspace returns the directory of a workspace and what creates it, or "" if there are no files.
func (o Options) workspace(sessionID string) (dir string, prepare func() error) {
	if o.Workspace == nil {
		return "", nil
	}
	return o.Workspace(sessionID), func() error { return o.MakeWorkspace(sessionID) }
}

// limits returns the limits of the request.
func (r *run) limits() Limits {
	limits := r.svc.settings.Load().Limits
	if r.agent != "" {
		limits.Request = limits.Request.within(r.svc.opt.NamedAgent(r.agent).Limits)
	}
	return limits
}
