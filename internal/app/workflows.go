package app

import (
	"context"

	"lilac/internal/core/environment"
	"lilac/internal/core/workflow"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
	"lilac/internal/store"
)

// newWorkflows creates the workflow service. Platforms are connected to it later.
func newWorkflows(b *base) *workflow.Service {
	return workflow.New(workflow.Options{
		DB: b.db, Bus: b.bus, Table: b.Seams.Workflows.around(store.Workflows{}), Waits: store.WorkflowWaits{}, Replies: store.HeldReplies{}, Inbox: b.store.Inbox, Cache: store.SurfaceCache{}, Logger: b.Logger,
		Check: checkEvents, NewMatcher: lookAt,
		SessionExists: func(q db.Queryer, sessionID string) (bool, error) {
			_, known, err := b.store.Sessions.ClientOf(q, sessionID)
			return known, err
		},
		RequestQueued: b.queued,
		Causes:        causes{b},
	})
}

// queued reports whether a request of a workflow is queued in the runner. A request that is not
// known, or cannot be read, is not queued.
func (b *base) queued(q db.Queryer, requestID string) (bool, error) {
	r, err := b.store.Requests.Request(q, requestID)
	switch {
	case db.IsDamaged(err), fault.KindOf(err) == fault.NotFound:
		return false, nil
	}
	return r.State == event.StateQueued, err
}

// causes connects workflows to the environment: workflows read the causes of requests, and the
// environment counts what workflows start. It looks up the environment at each call, because
// the environment is created after the workflows.
type causes struct{ *base }

var _ workflow.Causes = causes{}

func (c causes) CauseOf(q db.Queryer, requestID string) (workflow.Cause, error) {
	found, err := c.env.CauseOf(q, requestID)
	return workflow.Cause{Depth: found.Depth, Payer: workflow.Payer{Rule: found.Rule, SessionID: found.SessionID}, Grant: found.Grant}, err
}

func (c causes) DepthOf(q db.Queryer, e event.EnvEvent) (int, error) { return c.env.DepthOf(q, e) }

func (c causes) GrantOf(q db.Queryer, e event.EnvEvent) (grant.Grant, error) {
	return c.env.GrantOf(q, environment.Rule{}, e)
}

func (c causes) Charge(tx *db.Tx, p workflow.Payer, depth int, command event.Event) (bool, error) {
	return c.env.Charge(context.Background(), tx, environment.Run{
		Rule: p.Rule, SessionID: p.SessionID, Depth: depth, EventID: command.ID, Type: command.Type, RequestID: command.Headers.RequestID(),
	})
}

func (c causes) EndChain(tx *db.Tx, p workflow.Payer, depth int, workflowID string) error {
	return c.env.EndChain(tx, environment.Run{Rule: p.Rule, SessionID: p.SessionID, Depth: depth, EventID: workflow.Group + ":" + workflowID, Type: event.CmdWorkflowCreate})
}

// asker returns the person whose message a request answers, or "" if the session does not know.
func (c *toolService) asker(ctx context.Context, requestID string) (userID string, err error) {
	err = c.db.Read(ctx, func(q db.Queryer) error {
		r, err := c.store.Requests.Request(q, requestID)
		if err != nil {
			return err
		}
		state, err := c.store.States.State(q, r.SessionID)
		userID = state.AskerOf(requestID)
		return err
	})
	return userID, err
}

// lookAt returns a matcher that selects events like a rule of the configuration. Its conditions
// are restricted, because the agent writes them.
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
