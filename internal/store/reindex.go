package store

import (
	"context"
	"encoding/json"
	"fmt"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
)

// reindexBatch is the number of messages that one transaction indexes.
const reindexBatch = 500

var (
	emptyHistoryWords = db.Alternative(`INSERT INTO history_words (history_words) VALUES ('delete-all')`, `TRUNCATE history_words`)
	emptySurfaceWords = db.Alternative(`INSERT INTO surface_words (surface_words) VALUES ('delete-all')`, `TRUNCATE surface_words`)
	// The row before the batch is the parameter that SQLite does not need, because its view has
	// only what is not indexed yet.
	reindexHistory = db.Alternative(
		`INSERT INTO history_words (rowid, said) SELECT row, said FROM history_unindexed WHERE row > ? AND row <= ? ORDER BY row`,
		`INSERT INTO history_words (rowid, said) SELECT u.row, lilac_vector(lilac_words(u.said)) FROM (
			SELECT r.row, history_said(h.json) AS said FROM history_rows r JOIN history h ON h.session_id = r.session_id AND h.seq = r.seq WHERE r.row > ? AND r.row <= ?) u
			WHERE u.said IS NOT NULL`)
)

// Reindex builds the indexes of full-text search again, for a database that was filled without
// them. It calls progress with the number of messages of which it knows that they are done. If
// it is interrupted, it must be repeated.
func Reindex(ctx context.Context, d *db.DB, progress func(table string, done int64)) error {
	err := d.Update(ctx, func(tx *db.Tx) error {
		for _, statement := range []string{emptyHistoryWords, emptySurfaceWords} {
			if _, err := tx.Exec(statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("empty the search index: %w", err)
	}
	for _, index := range []struct {
		table string
		batch func(tx *db.Tx, after, last int64) error
	}{
		{"history_rows", func(tx *db.Tx, after, last int64) error { _, err := tx.Exec(reindexHistory, after, last); return err }},
		{"surface_messages", reindexSurface},
	} {
		for after, done := int64(0), int64(0); ; {
			var last, rows int64
			err := d.Update(ctx, func(tx *db.Tx) error {
				err := tx.QueryRow(`SELECT coalesce(max(b.row), 0), count(*) FROM (SELECT row FROM `+index.table+` WHERE row > ? ORDER BY row LIMIT ?) b`, after, reindexBatch).Scan(&last, &rows)
				if err != nil || rows == 0 {
					return err
				}
				return index.batch(tx, after, last)
			})
			if err != nil {
				return fmt.Errorf("index %s: %w", index.table, err)
			}
			if rows == 0 {
				break
			}
			after, done = last, done+rows
			progress(index.table, done)
		}
	}
	return nil
}

func reindexSurface(tx *db.Tx, after, last int64) error {
	rows, err := tx.Query(`SELECT row, json FROM surface_messages WHERE row > ? AND row <= ? ORDER BY row`, after, last)
	if err != nil {
		return err
	}
	texts := map[int64]string{}
	for rows.Next() {
		var row int64
		var data []byte
		if err := rows.Scan(&row, &data); err != nil {
			rows.Close()
			return err
		}
		var m surface.Message
		if json.Unmarshal(data, &m) == nil && m.Text != "" { // a damaged message is not found
			texts[row] = segment(m.Text)
		}
	}
	if err := rows.Err(); err != nil {
		rows.Close()
		return err
	}
	if err := rows.Close(); err != nil {
		return err
	}
	for row, text := range texts {
		if _, err := tx.Exec(indexSurfaceMessage, row, text); err != nil {
			return err
		}
	}
	return nil
}
