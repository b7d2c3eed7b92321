package app

import (
	"context"

	"lilac/internal/core/environment"
	"lilac/internal/core/workflow"
	"lilac/internal/engine/db"
	"lilac/internal/engine/redisbus"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/store"
)

// buildWorkflows makes what waits; platforms are connected to it later.
func (p *program) buildWorkflows() {
	p.workflows = workflow.New(workflow.Options{
		DB: p.db, Bus: p.bus, Table: p.Seams.Workflows.around(store.Workflows{}), Waits: store.WorkflowWaits{}, Replies: store.HeldReplies{}, Inbox: p.store.Inbox, Cache: store.SurfaceCache{}, Logger: p.Logger,
		Check: checkEvents, NewMatcher: lookAt,
		SessionExists: func(q db.Queryer, sessionID string) (bool, error) {
			_, known, err := p.store.Sessions.ClientOf(q, sessionID)
			return known, err
		},
		RequestQueued: p.queued,
		Causes:        causes{p},
	})
}

// queued reports whether a request of a workflow waits for its turn, or for a Redis
// that is away: then the runner does not know it. One that cannot be read has none.
func (p *program) queued(q db.Queryer, requestID string) (bool, error) {
	r, err := p.store.Requests.Request(q, requestID)
	switch {
	case db.IsDamaged(err):
		return false, nil
	case fault.KindOf(err) == fault.NotFound:
		return redisbus.Unsent(q, event.TopicCmdRequest, workflow.EventID(requestID))
	}
	return r.State == event.StateQueued, err
}

// causes tell workflows what the environment knows of causes, and the
// environment of what workflows set off. It is there after them.
type causes struct{ p *program }

var _ workflow.Causes = causes{}

func (c causes) CauseOf(q db.Queryer, requestID string) (workflow.Cause, error) {
	found, err := c.p.env.CauseOf(q, requestID)
	return workflow.Cause{Depth: found.Depth, Payer: workflow.Payer{Rule: found.Rule, SessionID: found.SessionID}}, err
}

func (c causes) DepthOf(q db.Queryer, e event.EnvEvent) (int, error) { return c.p.env.DepthOf(q, e) }

func (c causes) Charge(tx *db.Tx, p workflow.Payer, depth int, command event.Event) (bool, error) {
	return c.p.env.Charge(context.Background(), tx, environment.Run{
		Rule: p.Rule, SessionID: p.SessionID, Depth: depth, EventID: command.ID, Type: command.Type, RequestID: command.Headers.RequestID(),
	})
}

func (c causes) EndChain(tx *db.Tx, p workflow.Payer, depth int, workflowID string) error {
	return c.p.env.EndChain(tx, environment.Run{Rule: p.Rule, SessionID: p.SessionID, Depth: depth, EventID: workflow.Group + ":" + workflowID, Type: event.CmdWorkflowCreate})
}

// asker is the person whose message a request answers, as far as the session
// that works on it knows.
func (p *program) asker(ctx context.Context, requestID string) (userID string, err error) {
	err = p.db.Read(ctx, func(q db.Queryer) error {
		r, err := p.store.Requests.Request(q, requestID)
		if err != nil {
			return err
		}
		state, err := p.store.States.State(q, r.SessionID)
		if err == nil && state.Active != nil && state.Active.RequestID == requestID {
			userID = state.Active.Asker
		}
		return err
	})
	return userID, err
}

// lookAt chooses events as the rules of the configuration do, but for what a
// condition may do: the agent writes it.
func lookAt(e event.EnvEvent) workflow.Matcher {
	about := environment.NewSubject(e)
	return func(ctx context.Context, types []string, condition string) (bool, error) {
		if !(environment.Rule{Types: types}).Matches(e) {
			return false, nil
		}
		rule, err := compileEvents(types, condition)
		if err != nil || rule.If == nil {
			return err == nil, err
		}
		return rule.If(ctx, about)
	}
}

func checkEvents(types []string, condition string) error {
	_, err := compileEvents(types, condition)
	return err
}

func compileEvents(types []string, condition string) (environment.Rule, error) {
	return environment.Compile(environment.Spec{Name: "of the workflow", Types: types, If: condition, Restricted: true, Enabled: true, Drop: true})
}
