package store

import (
	"fmt"
	"time"

	"lilac/internal/engine/db"
)

// ageMigration notes of relays and of what was forwarded when they changed
// last, so that they can be forgotten. What is there already begins to age now.
var ageMigration = db.Migration{Name: "store.0006-age", SQL: `
ALTER TABLE relays ADD COLUMN changed_at INTEGER NOT NULL DEFAULT 0;
UPDATE relays SET changed_at = unixepoch() * 1000;
CREATE INDEX relays_changed ON relays (changed_at) WHERE live = 0;
ALTER TABLE router_forwarded ADD COLUMN at INTEGER NOT NULL DEFAULT 0;
UPDATE router_forwarded SET at = unixepoch() * 1000;
CREATE INDEX router_forwarded_at ON router_forwarded (at);
`}

// ageBatch bounds how long one cleanup holds the writer.
const ageBatch = 1000

// TrimRelays forgets relays that have not changed since a time, a bounded
// number at once; call it again while more is true. One that shows something,
// or whose request has not ended, stays. The age must be larger than the time
// for which the bus keeps events.
func (Relays) TrimRelays(tx *db.Tx, before time.Time) (more bool, err error) {
	return forget(tx, "relays", `DELETE FROM relays WHERE (platform, request_id) IN (
		SELECT platform, request_id FROM relays WHERE live = 0 AND changed_at < ?
			AND NOT EXISTS (SELECT 1 FROM requests WHERE id = request_id AND state NOT IN ('done', 'failed', 'cancelled'))
		ORDER BY changed_at LIMIT ?)`, before)
}

// TrimForwarded forgets which messages the histories of sessions hold that
// were forwarded before a time, a bounded number at once. A reply to such a
// message repeats it to the model.
func (ForwardedMessages) TrimForwarded(tx *db.Tx, before time.Time) (more bool, err error) {
	return forget(tx, "forwarded messages", `DELETE FROM router_forwarded WHERE (platform, session_id, message_id) IN (
		SELECT platform, session_id, message_id FROM router_forwarded WHERE at < ? ORDER BY at LIMIT ?)`, before)
}

// TrimRouterStates forgets what the router knows of sessions in which nothing
// has happened since a time and no burst waits, a bounded number at once. What
// is left of such a session is a request whose end was never told; a message to
// it begins a new one.
func (RouterStates) TrimRouterStates(tx *db.Tx, before time.Time) (more bool, err error) {
	return forget(tx, "router states", `DELETE FROM router_state WHERE (platform, session_id) IN (
		SELECT platform, session_id FROM router_state WHERE burst = 0 AND at < ?
			AND NOT EXISTS (SELECT 1 FROM requests r WHERE r.session_id = router_state.session_id AND r.state NOT IN ('done', 'failed', 'cancelled'))
		ORDER BY at LIMIT ?)`, before)
}

func forget(tx *db.Tx, what, statement string, before time.Time) (more bool, err error) {
	res, err := tx.Exec(statement, before.UnixMilli(), ageBatch)
	if err != nil {
		return false, fmt.Errorf("trim %s: %w", what, err)
	}
	n, err := res.RowsAffected()
	return n == ageBatch, wrap("count trimmed "+what, err)
}

// forgetEach is forget for what goes together.
func forgetEach(tx *db.Tx, before time.Time, statements map[string]string) (more bool, err error) {
	for what, statement := range statements {
		some, err := forget(tx, what, statement, before)
		if err != nil {
			return false, err
		}
		more = more || some
	}
	return more, nil
}
