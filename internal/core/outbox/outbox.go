package outbox

import (
	"context"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
)

// State is where a row is in its life.
type State string

// The states of a row: planned → sending → sent, or one of the others. Only
// planned, sending and unknown rows are ever worked on again.
const (
	Planned State = "planned"
	Sending State = "sending"
	Sent    State = "sent"
	Unknown State = "unknown"
	Failed  State = "failed"
	Expired State = "expired"
)

// Final reports whether nothing happens to the row any more.
func (s State) Final() bool { return s == Sent || s == Failed || s == Expired }

// Row is one message on its way out.
type Row struct {
	// Key names the logical act ("relay:<request>:<n>"), never an attempt;
	// planning a key again changes nothing.
	Key      string
	Platform string
	Send     surface.Send
	State    State
	// MessageID is the platform's id of a sent row.
	MessageID string
	// RequestID and SessionID say for whom it is sent.
	RequestID, SessionID string
	// Attempts counts calls; it is raised before the call. Excused counts those
	// that only the platform's being away brought to nothing.
	Attempts, Excused int
	// CreatedAt, ExpiresAt, SendingAt (the last call's) and NotBefore (the
	// next one's) are Unix milliseconds. Nothing is sent after ExpiresAt.
	CreatedAt, ExpiresAt, SendingAt, NotBefore int64
	// Reason says why a row failed, for a person.
	Reason string
	// Withdrawn says that nobody wants it to be sent any more.
	Withdrawn bool
	// Unsure says of an expired row that it may have been sent all the same.
	Unsure bool
}

// Table keeps the rows; package store satisfies it.
type Table interface {
	// Plan returns false, and changes nothing, for a key that was there.
	Plan(tx *db.Tx, r Row) (fresh bool, err error)
	Save(tx *db.Tx, r Row) error
	// Row is a fault.NotFound for an unknown key.
	Row(q db.Queryer, key string) (Row, error)
	// Unfinished lists of each channel what is first planned, sending or unknown,
	// oldest first.
	Unfinished(q db.Queryer, platform string, limit int) ([]Row, error)
	// ByMessage finds the row that made a message; fault.NotFound without one.
	ByMessage(q db.Queryer, platform, channelID, messageID string) (Row, error)
	// Trim removes final rows older than a time, a bounded number at once.
	Trim(tx *db.Tx, before time.Time) (more bool, err error)
}

// Outbox is what the other cores use; [Service] is it.
type Outbox interface {
	// Plan writes a row in the caller's transaction. It is sent soon after the
	// commit, in the order of planning within a channel.
	Plan(tx *db.Tx, r Row) error
	// Withdraw takes back, in the caller's transaction, what is not on its way
	// yet; what is, is not sent again should it turn out not to have arrived.
	Withdraw(tx *db.Tx, key string) error
	// Wait returns the row in its final state.
	Wait(ctx context.Context, key string) (Row, error)
}

// Wanted says whether a row is still to be sent, in the transaction before each
// call. Whoever planned it may not have been able to withdraw it: the platform
// was switched off then.
type Wanted func(tx *db.Tx, r Row) (bool, error)

// OnSent runs in the transaction that marks a row sent or failed, so that
// whoever planned it binds the message's id exactly when it becomes known. The
// prefix of the key up to the first colon chooses who is called.
type OnSent func(tx *db.Tx, r Row, m surface.Message) error
