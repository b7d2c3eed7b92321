package store

import (
	"time"

	"lilac/internal/engine/db"
)

// trimBatch is the number of rows that one call of a Trim method deletes at most, so
// that it holds the writer only briefly. Callers repeat the call while more is true.
const trimBatch = 1000

// trimOld runs a DELETE statement with the arguments before, in Unix milliseconds, and
// trimBatch.
func trimOld(tx *db.Tx, what, statement string, before time.Time) (more bool, err error) {
	n, err := affected(tx.Exec(statement, before.UnixMilli(), trimBatch))
	return n == trimBatch, wrap("trim "+what, err)
}

// trimAll runs trimOld for several tables. The keys of statements name them.
func trimAll(tx *db.Tx, before time.Time, statements map[string]string) (more bool, err error) {
	for what, statement := range statements {
		full, err := trimOld(tx, what, statement, before)
		if err != nil {
			return false, err
		}
		more = more || full
	}
	return more, nil
}

// ageMigration records when relays and forwarded messages changed last, so that old
// ones can be trimmed. Existing rows start to age now.
var ageMigration = db.Migration{Name: "store.0006-age", SQL: `
ALTER TABLE relays ADD COLUMN changed_at INTEGER NOT NULL DEFAULT 0;
UPDATE relays SET changed_at = unixepoch() * 1000;
CREATE INDEX relays_changed ON relays (changed_at) WHERE live = 0;
ALTER TABLE router_forwarded ADD COLUMN at INTEGER NOT NULL DEFAULT 0;
UPDATE router_forwarded SET at = unixepoch() * 1000;
CREATE INDEX router_forwarded_at ON router_forwarded (at);
`}
