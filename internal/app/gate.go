package app

import (
	"time"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
)

// gateBudget implements [router.Budget] with the budgets of requests.
type gateBudget struct{ *base }

func (b gateBudget) Exhausted(q db.Queryer, sessionID string) (string, error) {
	reached, err := b.runner.ReachedLimit(q, sessionID)
	if err != nil || reached == nil {
		return "", err
	}
	return reached.Statement(), nil
}

func (b gateBudget) Spend(tx *db.Tx, sessionID string, used chat.Usage, took time.Duration) error {
	return b.spend(tx, session.PurposeGate, sessionID, b.now.Load().config.Router.Gate, used, took)
}

func (b gateBudget) spend(tx *db.Tx, purpose, sessionID, model string, used chat.Usage, took time.Duration) error {
	if err := b.runner.Spend(tx, sessionID, session.Spent{Steps: 1, Usage: used, Time: took}); err != nil {
		return err
	}
	return b.store.Usage.AddCall(tx, purpose, sessionID, model, used)
}

// gateUnreadable reports a missing or unreadable verdict of the gate to the operator.
func (b platformBuilder) gateUnreadable(forwarded bool) {
	why := "The bot did not answer those messages."
	if forwarded {
		why = "The bot answers without the gate until it can be read again."
	}
	b.saveLearned(complaintPrefix+unreadableGate, b.complaints.unreadable.Add(why+" Choose another model, or remove router.gate.", time.Now()))
}
