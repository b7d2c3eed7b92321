package app

import (
	"context"

	"lilac/internal/app/observe"
	"lilac/internal/core/session"
	"lilac/internal/core/task"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/grant"
	"lilac/internal/store"
)

// runnerTables returns the tables of the runner.
func runnerTables() session.Tables {
	return session.Tables{
		Sessions: store.Sessions{}, States: store.SessionStates{}, Mailbox: store.Mailbox{}, History: store.History{},
		Files: store.Files{}, Requests: store.Requests{}, Journal: store.Journal{}, Spending: store.Usage{},
	}
}

// runnerPorts answers the runner's questions; it implements [session.Surfaces],
// [session.Policy] and [session.Observer].
type runnerPorts struct{ p *program }

func (r runnerPorts) HasRelay(client string) bool { return r.p.isPlatform(client) }

func (r runnerPorts) Title(q db.Queryer, client, sessionID string) string {
	return r.p.titleOf(q, client, sessionID)
}

func (r runnerPorts) Grant(q db.Queryer, client, sessionID string) (grant.Grant, error) {
	return r.p.placeGrant(q, client, sessionID)
}

func (r runnerPorts) Instructions(operators, client string) string {
	return r.p.instructions(operators, client)
}

func (r runnerPorts) Unattended(client string) bool { return client == task.Client }

func (r runnerPorts) Payer(q db.Queryer, sessionID string) (string, error) {
	return r.p.payer(q, sessionID)
}

func (r runnerPorts) Admit(ctx context.Context, requestID, sessionID string, more chat.Usage) (*session.Refusal, error) {
	return r.p.allow(ctx, requestID, sessionID, more)
}

func (r runnerPorts) RequestEnded(tx *db.Tx, req session.Request) error {
	return r.p.requestEnded(tx, req)
}

func (r runnerPorts) ObserveRun(ctx context.Context, run session.RunInfo) (context.Context, func(error)) {
	return r.p.observer.Run(ctx, observe.Run(run))
}
