package store

import (
	"encoding/json"
	"time"

	"lilac/internal/engine/db"
)

var learnedMigration = db.Migration{Name: "store.0012-learned", SQL: `
CREATE TABLE learned (
	id       TEXT PRIMARY KEY,
	at       INTEGER NOT NULL,
	json     BLOB NOT NULL,
	checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
`}

// Learned is the table of what the refusals of models taught.
type Learned struct{}

type learnedRow struct {
	ID    string          `json:"id"`
	Facts json.RawMessage `json:"facts"`
}

var learnedRows = newDocuments[learnedRow]("learned", "id", "id", "at")

// SaveLearned inserts or replaces what is known of one model.
func (Learned) SaveLearned(tx *db.Tx, id string, facts json.RawMessage) error {
	return wrap("save what a model taught", learnedRows.put(tx, id, learnedRow{id, facts}, tx.Now().UnixMilli()))
}

// Learned returns what is known of all models. Older facts are left out, because servers are
// updated.
func (Learned) Learned(q db.Queryer, since time.Time) (map[string]json.RawMessage, error) {
	rows, err := learnedRows.readable(q, `WHERE at >= ?`, since.UnixMilli())
	out := make(map[string]json.RawMessage, len(rows))
	for _, r := range rows {
		out[r.ID] = r.Facts
	}
	return out, wrap("read what models taught", err)
}

// TrimLearned deletes facts that are older than before.
func (Learned) TrimLearned(tx *db.Tx, before time.Time) (more bool, err error) {
	return trimOld(tx, "learned", `DELETE FROM learned WHERE id IN (SELECT id FROM learned WHERE at < ? ORDER BY id LIMIT ?)`, before)
}
