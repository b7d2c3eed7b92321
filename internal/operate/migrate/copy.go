package migrate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"strings"

	"lilac/internal/engine/db"
	"lilac/internal/store"
)

const (
	// batchRows and batchBytes bound what one transaction copies.
	batchRows  = 1000
	batchBytes = 8 << 20
)

// batch is a part of a table in the order of its key.
type batch struct {
	rows [][]any
	// last is the key of the last row. end is true if no rows follow.
	last []any
	end  bool
}

// read reads the rows after a key.
func read(ctx context.Context, d *db.DB, t db.Table, after []any) (b batch, err error) {
	key := strings.Join(t.Key, ", ")
	query := "SELECT " + strings.Join(t.Columns, ", ") + " FROM " + t.Name
	if after != nil {
		query += " WHERE (" + key + ") > (" + strings.TrimSuffix(strings.Repeat("?, ", len(t.Key)), ", ") + ")"
	}
	query += fmt.Sprintf(" ORDER BY %s LIMIT %d", key, batchRows)
	at := map[string]int{}
	for i, name := range t.Columns {
		at[name] = i
	}
	err = d.Read(ctx, func(q db.Queryer) error {
		rows, err := q.Query(query, after...)
		if err != nil {
			return err
		}
		defer rows.Close()
		b = batch{end: true, last: after}
		size := 0
		for rows.Next() {
			row, into := make([]any, len(t.Columns)), make([]any, len(t.Columns))
			for i := range row {
				into[i] = &row[i]
			}
			if err := rows.Scan(into...); err != nil {
				return err
			}
			for _, v := range row {
				switch v := v.(type) {
				case string:
					size += len(v)
				case []byte:
					size += len(v)
				}
			}
			if b.rows = append(b.rows, row); len(b.rows) == batchRows || size >= batchBytes {
				b.end = false
				break
			}
		}
		if n := len(b.rows); n > 0 {
			b.last = make([]any, len(t.Key))
			for i, name := range t.Key {
				b.last[i] = b.rows[n-1][at[name]]
			}
		}
		return rows.Err()
	})
	return b, err
}

// copy copies the rows of a table that are not copied yet.
func (m *mover) copy(ctx context.Context, t db.Table) error {
	var p db.Progress
	err := m.to.Read(ctx, func(q db.Queryer) (err error) { p, err = db.ProgressOf(q, t.Name); return err })
	if err != nil {
		return fmt.Errorf("read the progress: %w", err)
	}
	if p.Done {
		return nil
	}
	after, err := decodeKey(p.Last)
	if err != nil {
		return err
	}
	insert := "INSERT INTO " + t.Name + " (" + strings.Join(t.Columns, ", ") + ") VALUES (" + strings.TrimSuffix(strings.Repeat("?, ", len(t.Columns)), ", ") + ")"
	for !p.Done {
		b, err := read(ctx, m.from, t, after)
		if err != nil {
			return err
		}
		after, p.Done = b.last, b.end
		p.Rows += int64(len(b.rows))
		if p.Last, err = json.Marshal(after); err != nil {
			return err
		}
		err = m.to.Update(ctx, func(tx *db.Tx) error {
			for _, row := range b.rows {
				if _, err := tx.Exec(insert, store.CleanRow(t.Name, t.Columns, row)...); err != nil {
					return err
				}
			}
			return db.SetProgress(tx, t.Name, p)
		})
		if err != nil {
			return err
		}
		m.Progress("copy", t.Name, p.Rows, m.totals[t.Name])
		if err := m.onBatch(); err != nil {
			return err
		}
	}
	return nil
}

// decodeKey decodes a key of texts and integers.
func decodeKey(data json.RawMessage) ([]any, error) {
	if len(data) == 0 || string(data) == "null" {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var key []any
	if err := decoder.Decode(&key); err != nil {
		return nil, fmt.Errorf("decode the progress: %w", err)
	}
	for i, v := range key {
		if n, ok := v.(json.Number); ok {
			whole, err := n.Int64()
			if err != nil {
				return nil, fmt.Errorf("decode the progress: %w", err)
			}
			key[i] = whole
		}
	}
	return key, nil
}

// compare compares all tables, and returns the name of the first one that differs.
func (m *mover) compare(ctx context.Context) (r Result, differs string, err error) {
	whole := sha256.New()
	for _, t := range m.tables {
		here, rows, err := m.sum(ctx, m.from, t)
		if err != nil {
			return r, "", fmt.Errorf("read %s: %w", t.Name, err)
		}
		there, _, err := m.sum(ctx, m.to, t)
		if err != nil {
			return r, "", fmt.Errorf("read %s of the target: %w", t.Name, err)
		}
		if here != there {
			return r, t.Name, nil
		}
		r.Tables, r.Rows = r.Tables+1, r.Rows+rows
		fmt.Fprintf(whole, "%s %s\n", t.Name, here)
	}
	r.StoreID, r.Checksum = m.from.StoreID(), hex.EncodeToString(whole.Sum(nil))
	return r, "", nil
}

// sum returns the checksum of a table: over all rows in the order of the key.
func (m *mover) sum(ctx context.Context, d *db.DB, t db.Table) (sum string, rows int64, err error) {
	h := sha256.New()
	var after []any
	for {
		b, err := read(ctx, d, t, after)
		if err != nil {
			return "", 0, err
		}
		for _, row := range b.rows {
			for _, v := range store.CleanRow(t.Name, t.Columns, row) {
				add(h, v)
			}
		}
		rows += int64(len(b.rows))
		m.Progress("compare", t.Name, rows, m.totals[t.Name])
		if after = b.last; b.end {
			return hex.EncodeToString(h.Sum(nil)), rows, nil
		}
	}
}

// add adds a value with its kind and its length. An empty blob and NULL read the same.
func add(h hash.Hash, v any) {
	kind, data := byte('n'), []byte(nil)
	switch v := v.(type) {
	case nil:
	case int64:
		kind, data = 'i', binary.LittleEndian.AppendUint64(nil, uint64(v))
	case string:
		kind, data = 't', []byte(v)
	case []byte:
		if len(v) > 0 {
			kind, data = 'b', v
		}
	default:
		kind, data = 'o', fmt.Append(nil, v)
	}
	var head [9]byte
	head[0] = kind
	binary.LittleEndian.PutUint64(head[1:], uint64(len(data)))
	h.Write(head[:])
	h.Write(data)
}
