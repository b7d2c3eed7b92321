package app

import (
	"time"

	"lilac/internal/core/router"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
)

// gate returns the gate of the configuration, or nil if it has none.
func (p *program) gate() router.Gate {
	choice, ok, err := p.now.Load().config.ResolveGate()
	if err != nil || !ok { // validation has rejected invalid models
		return nil
	}
	model := p.observer.Model(newModel(choice, &p.learned))
	return router.ModelGate(func() llm.Model { return model })
}

// gateBudget implements [router.Budget] with the budgets of requests.
type gateBudget struct{ p *program }

func (b gateBudget) Exhausted(q db.Queryer, sessionID string) (string, error) {
	reached, err := b.p.runner.ReachedLimit(q, sessionID)
	if err != nil || reached == nil {
		return "", err
	}
	return reached.Statement(), nil
}

func (b gateBudget) Spend(tx *db.Tx, sessionID string, used chat.Usage, took time.Duration) error {
	return b.p.runner.Spend(tx, sessionID, session.Spent{Steps: 1, Usage: used, Time: took})
}
