package store

import (
	"lilac/internal/core/pairing"
	"lilac/internal/engine/db"
)

var pairingMigration = db.Migration{Name: "pairing.0001-people", SQL: `
CREATE TABLE pairings (
	platform   TEXT NOT NULL,
	user_id    TEXT NOT NULL,
	name       TEXT NOT NULL,
	code       TEXT NOT NULL,
	state      TEXT NOT NULL,
	created_at INTEGER NOT NULL,
	decided_at INTEGER NOT NULL,
	asked_at   INTEGER NOT NULL,
	told_at    INTEGER NOT NULL,
	PRIMARY KEY (platform, user_id)
) STRICT, WITHOUT ROWID;
`}

// Pairings is the table of people who asked to send private messages.
type Pairings struct{}

const pairingColumns = `platform, user_id, name, code, state, created_at, decided_at, asked_at, told_at`

func scanPairing(r scanner) (p pairing.Row, err error) {
	return p, r.Scan(&p.Platform, &p.UserID, &p.Name, &p.Code, &p.State, &p.CreatedAt, &p.DecidedAt, &p.AskedAt, &p.ToldAt)
}

// Pairing implements [pairing.Table].
func (Pairings) Pairing(q db.Queryer, platform, userID string) (pairing.Row, error) {
	found, err := collect(q, scanPairing, `SELECT `+pairingColumns+` FROM pairings WHERE platform = ? AND user_id = ?`, platform, userID)
	if err != nil || len(found) == 0 {
		return pairing.Row{}, wrap("read pairing", err)
	}
	return found[0], nil
}

// Pairings implements [pairing.Table].
func (Pairings) Pairings(q db.Queryer, platform string) ([]pairing.Row, error) {
	out, err := collect(q, scanPairing, `SELECT `+pairingColumns+` FROM pairings WHERE platform = ? ORDER BY created_at DESC, user_id`, platform)
	return out, wrap("list pairings", err)
}

// DeletePending implements [pairing.Table].
func (Pairings) DeletePending(tx *db.Tx, platform string, createdAt int64) error {
	_, err := tx.Exec(`DELETE FROM pairings WHERE platform = ? AND state = ? AND created_at <= ?`, platform, pairing.Pending, createdAt)
	return wrap("delete pairings", err)
}

// SavePairing implements [pairing.Table].
func (Pairings) SavePairing(tx *db.Tx, r pairing.Row) error {
	_, err := tx.Exec(`INSERT INTO pairings (`+pairingColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (platform, user_id) DO UPDATE SET name = excluded.name, code = excluded.code, state = excluded.state,
		created_at = excluded.created_at, decided_at = excluded.decided_at, asked_at = excluded.asked_at, told_at = excluded.told_at`,
		r.Platform, r.UserID, r.Name, r.Code, r.State, r.CreatedAt, r.DecidedAt, r.AskedAt, r.ToldAt)
	return wrap("save pairing", err)
}
