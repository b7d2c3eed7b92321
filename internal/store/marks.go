package store

import (
	"time"

	"lilac/internal/core/mark"
	"lilac/internal/engine/db"
)

var marksMigration = db.Migration{Name: "mark.0001-marks", SQL: `
CREATE TABLE marks (
	key      TEXT PRIMARY KEY,
	platform TEXT NOT NULL,
	pending  INTEGER NOT NULL,
	at       INTEGER NOT NULL,
	json     BLOB NOT NULL,
	checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX marks_pending ON marks (platform, at) WHERE pending = 1;
CREATE INDEX marks_at ON marks (at);
`}

// Marks is the table of the reactions that the program shows on messages of people.
type Marks struct{}

var markRows = newDocuments[mark.Mark]("marks", "key", "key", "platform", "pending", "at")

// Mark implements [mark.Table]. A damaged row counts as none: a reaction must not stop
// the decision that it belongs to.
func (Marks) Mark(q db.Queryer, key string) (mark.Mark, error) {
	m, err := markRows.oneOrZero(q, `key = ?`, key)
	if db.IsDamaged(err) {
		return mark.Mark{}, nil
	}
	return m, wrap("read mark", err)
}

// SaveMark implements [mark.Table].
func (Marks) SaveMark(tx *db.Tx, key string, m mark.Mark) error {
	if m.Empty() {
		_, err := tx.Exec(`DELETE FROM marks WHERE key = ?`, key)
		return wrap("delete mark", err)
	}
	pending := 0
	if m.Pending() {
		pending = 1
	}
	return wrap("save mark", markRows.put(tx, key, m, m.Ref.Platform, pending, m.Since))
}

// PendingMarks implements [mark.Table]. Damaged rows are left out.
func (Marks) PendingMarks(q db.Queryer, platform string, limit int) ([]mark.Mark, error) {
	out, err := markRows.readable(q, `WHERE platform = ? AND pending = 1 ORDER BY at LIMIT ?`, platform, limit)
	return out, wrap("list marks", err)
}

// TrimMarks deletes marks that have not changed since a time.
func (Marks) TrimMarks(tx *db.Tx, before time.Time) (more bool, err error) {
	return trimOld(tx, "marks", `DELETE FROM marks WHERE key IN (SELECT key FROM marks WHERE at < ? ORDER BY at LIMIT ?)`, before)
}
