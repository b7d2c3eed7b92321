package longtext

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"lilac/internal/engine/db"
)

// Migrations create the table of the pieces.
var Migrations = []db.Migration{{Name: "longtext.0001-pieces", SQL: `
CREATE TABLE long_texts (
	owner TEXT NOT NULL,
	id    TEXT NOT NULL, -- the hash of data
	at    INTEGER NOT NULL,
	data  BLOB NOT NULL,
	PRIMARY KEY (owner, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX long_texts_at ON long_texts (at);
`}}

// marker begins a shortened row. A row that begins with it by chance gets another one.
const marker = `{"$aside":`

// note lists the pieces that a row leaves out. It is the value of the first field of a shortened row.
type note struct {
	Owner string `json:"owner,omitempty"`
	// Pieces are in the order of the text.
	Pieces []placed `json:"pieces,omitempty"`
}

// placed is a piece that a row leaves out. At is its offset in the rest of the row, in bytes.
type placed struct {
	ID string `json:"id"`
	At int    `json:"at"`
}

// SetAside stores all but the first 64 KiB of each string in values, which rows of the owner will
// contain. It encodes the values as JSON to find their strings.
func SetAside(ctx context.Context, d *db.DB, owner string, values ...any) error {
	for _, v := range values {
		encoded, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("encode long text: %w", err)
		}
		if err := setAside(ctx, d, owner, encoded); err != nil {
			return fmt.Errorf("store long text: %w", err)
		}
	}
	return nil
}

func setAside(ctx context.Context, d *db.DB, owner string, encoded []byte) error {
	found := pieces(encoded)
	if len(found) == 0 {
		return nil
	}
	var stored map[string][]byte
	err := d.Read(ctx, func(q db.Queryer) (err error) {
		stored, err = read(q, "''", owner, found)
		return err
	})
	if err != nil {
		return err
	}
	for _, p := range found {
		if _, known := stored[p.id]; known {
			continue
		}
		// The commit of the row that needs the piece waits for the disk; it comes later.
		err := d.UpdateRelaxed(ctx, func(tx *db.Tx) error {
			_, err := tx.Exec(`INSERT INTO long_texts (owner, id, at, data) VALUES (?, ?, ?, ?) ON CONFLICT (owner, id) DO NOTHING`,
				owner, p.id, tx.Now().UnixMilli(), encoded[p.from:p.to])
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Shorten returns a row as it is stored: without the pieces that were set aside. The row is a JSON
// object; any other value is returned as it is.
func Shorten(tx *db.Tx, owner string, row []byte) ([]byte, error) {
	marked := bytes.HasPrefix(row, []byte(marker))
	if len(row) <= pieceMax && !marked || row[0] != '{' {
		return row, nil
	}
	left, n, err := leaveOut(tx, owner, row)
	if err != nil || len(n.Pieces) == 0 && !marked {
		return row, err
	}
	head, err := json.Marshal(n)
	if err != nil {
		return nil, fmt.Errorf("encode the note of a row: %w", err)
	}
	return slices.Concat([]byte(marker), head, []byte(","), left[1:]), nil
}

// leaveOut returns a row without its pieces that are stored, and a note of them.
func leaveOut(tx *db.Tx, owner string, row []byte) (left []byte, n note, err error) {
	found := pieces(row)
	if len(found) == 0 {
		return row, note{}, nil
	}
	stored, err := read(tx, "''", owner, found)
	if err != nil || len(stored) == 0 {
		return row, note{}, err
	}
	n.Owner = owner
	end := 0
	for _, p := range found {
		if _, known := stored[p.id]; known {
			left, end = append(left, row[end:p.from]...), p.to
			n.Pieces = append(n.Pieces, placed{p.id, len(left)})
		}
	}
	return append(left, row[end:]...), n, nil
}

// Restore returns a row as it was before [Shorten]. A row whose pieces are missing or damaged is a
// fault for which [db.IsDamaged] holds.
func Restore(q db.Queryer, row []byte) ([]byte, error) {
	rest, shortened := bytes.CutPrefix(row, []byte(marker))
	if !shortened {
		return row, nil
	}
	var n note
	d := json.NewDecoder(bytes.NewReader(rest))
	if err := d.Decode(&n); err != nil {
		return nil, db.DamagedRow("long_texts", "named by a row")
	}
	rest = bytes.TrimPrefix(rest[d.InputOffset():], []byte(","))
	if len(n.Pieces) == 0 {
		return append([]byte("{"), rest...), nil
	}
	found := make([]piece, len(n.Pieces))
	for i, p := range n.Pieces {
		found[i].id = p.ID
	}
	stored, err := read(q, "data", n.Owner, found)
	if err != nil {
		return nil, err
	}
	out, end := []byte("{"), 1
	for _, p := range n.Pieces {
		data, known := stored[p.ID]
		if !known || hash(data) != p.ID || p.At < end || p.At > len(rest) {
			return nil, db.DamagedRow("long_texts", n.Owner+"/"+p.ID)
		}
		out = append(append(out, rest[end-1:p.At-1]...), data...)
		end = p.At
	}
	return append(out, rest[end-1:]...), nil
}

// read returns a column of those pieces that are stored, by their ids. The column can be an empty
// string, if only the ids matter.
func read(q db.Queryer, column, owner string, of []piece) (map[string][]byte, error) {
	ids := make([]string, len(of))
	for i, p := range of {
		ids[i] = p.id
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, fmt.Errorf("encode list of pieces: %w", err)
	}
	rows, err := q.Query(`SELECT id, `+column+` FROM long_texts WHERE owner = ? AND id IN (SELECT value FROM json_each(?))`, owner, string(list))
	if err != nil {
		return nil, fmt.Errorf("read pieces: %w", err)
	}
	defer rows.Close()
	out := make(map[string][]byte, len(of))
	for rows.Next() {
		var id string
		var data []byte
		if err := rows.Scan(&id, &data); err != nil {
			return nil, fmt.Errorf("read piece: %w", err)
		}
		out[id] = data
	}
	return out, rows.Err()
}

// reportedMax is the maximum number of damaged pieces that [Verify] lists.
const reportedMax = 1000

// Verify reads all pieces and lists the damaged ones, at most 1000.
func Verify(ctx context.Context, d *db.DB) (bad []string, err error) {
	err = d.Read(ctx, func(q db.Queryer) error {
		rows, err := q.Query(`SELECT owner, id, data FROM long_texts`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() && len(bad) < reportedMax && ctx.Err() == nil {
			var owner, id string
			var data []byte
			if err := rows.Scan(&owner, &id, &data); err != nil || hash(data) != id {
				bad = append(bad, db.DamagedRow("long_texts", owner+"/"+id).Error())
			}
		}
		return rows.Err()
	})
	if err != nil {
		return bad, fmt.Errorf("verify long texts: %w", err)
	}
	return bad, ctx.Err()
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
