package session

import (
	"context"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

// updating is a kind of transaction of [db.DB].
type updating func(context.Context, func(*db.Tx) error) error

// announcing returns a transaction that first announces its reads; see [db.Tx.Ahead].
func announcing(update updating, ahead func(*db.Tx)) updating {
	return func(ctx context.Context, fn func(*db.Tx) error) error {
		return update(ctx, func(tx *db.Tx) error {
			tx.Ahead(ahead)
			return fn(tx)
		})
	}
}

// announceReads announces the reads for a command to a session; see [bus.Subscription] and
// [db.Tx.Ahead].
func (t Tables) announceReads(tx *db.Tx, command event.Event) {
	h := command.Headers
	sessionID := h.SessionID()
	_, _ = t.States.State(tx, sessionID)
	payload, err := event.Decode(command)
	m, ok := payload.(event.RequestMessage)
	if err != nil || !ok {
		return
	}
	_, _ = t.Mailbox.ClaimAccepted(tx, sessionID, m.MessageID)
	_, _ = t.Sessions.Session(tx, sessionID)
	_, _ = t.Mailbox.HasMail(tx, sessionID, m.MessageID)
	for _, id := range []string{h.RequestID(), m.ElseRequestID, event.ElseRequest(h.RequestID(), m.MessageID)} {
		_, _ = t.Requests.Request(tx, id)
	}
	_ = t.Journal.Record(tx, h.RequestID(), Entry{})
	_, _ = t.History.AppendHistory(tx, sessionID, HistoryMessage{ID: m.MessageID})
}

// ahead announces the reads of load; see [db.Ahead].
func (r *run) ahead(q db.Queryer) {
	t := r.svc.opt.Tables
	_, _ = r.svc.payer(q, r.sessionID)
	_, _ = t.History.Conversation(q, r.sessionID)
	_, _ = r.svc.readPrompt(q, r.sessionID, 0)
	_, _ = t.Journal.Journal(q, r.requestID)
	_, _ = t.Sessions.Session(q, r.sessionID)
}

// aheadOfWrite announces the reads of a write of the run; see [db.Tx.Ahead].
func (r *run) aheadOfWrite(tx *db.Tx) {
	t := r.svc.opt.Tables
	_, _ = t.States.State(tx, r.sessionID)
	_, _ = t.Requests.Request(tx, r.requestID)
	_ = t.Journal.Record(tx, r.requestID, Entry{})
}
