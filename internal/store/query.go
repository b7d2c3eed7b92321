package store

import (
	"encoding/json"
	"errors"
	"fmt"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// maxPage bounds a page of a list: the largest page that clients may request, and one
// row more, which shows that another page follows.
const maxPage = 1001

func pageSize(limit int) int {
	if limit <= 0 || limit > maxPage {
		return maxPage
	}
	return limit
}

// scanner is a [db.Row], or the current row of [db.Rows].
type scanner interface{ Scan(dest ...any) error }

// collect reads all rows of a query.
func collect[T any](q db.Queryer, scan func(scanner) (T, error), query string, args ...any) ([]T, error) {
	rows, err := q.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// collectReadable is like collect, but skips damaged rows. The deep check reports
// those; they must not block the other rows.
func collectReadable[T any](q db.Queryer, scan func(scanner) (T, error), query string, args ...any) (out []T, err error) {
	_, err = collect(q, func(r scanner) (struct{}, error) {
		v, err := scan(r)
		if db.IsDamaged(err) {
			return struct{}{}, nil
		}
		out = append(out, v)
		return struct{}{}, err
	}, query, args...)
	return out, err
}

// orDamaged returns a scan for lists that people read: it replaces a damaged row with
// the row that damaged returns for its id and the reason.
func orDamaged[T any](scan func(scanner) (T, error), damaged func(row T, reason string) T) func(scanner) (T, error) {
	return func(r scanner) (T, error) {
		row, err := scan(r)
		if db.IsDamaged(err) {
			return damaged(row, fault.ToWire(err).Message), nil
		}
		return row, err
	}
}

func scanID(r scanner) (id string, err error) { return id, r.Scan(&id) }

func exists(q db.Queryer, query string, args ...any) (found bool, err error) {
	err = q.QueryRow(`SELECT EXISTS (`+query+`)`, args...).Scan(&found)
	return found, wrap("read row", err)
}

// changed reports whether a statement changed a row. Its arguments are the results of
// [db.Tx.Exec].
func changed(res db.Result, err error) (bool, error) {
	n, err := affected(res, err)
	return n > 0, err
}

// affected returns the number of rows that a statement changed.
func affected(res db.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// pagePosition returns the position after which a page of a list by creation time
// starts: that of a [session.PageToken], or of the row with the id before. Damaged rows
// have positions too.
func pagePosition(q db.Queryer, table, before string) (at int64, id string, err error) {
	if at, id, ok := session.ParsePageToken(before); ok {
		return at, id, nil
	}
	err = q.QueryRow(`SELECT created_at FROM `+table+` WHERE id = ?`, before).Scan(&at)
	return at, before, err
}

// jsonList encodes a list as the one argument of json_each.
func jsonList(values []string) (string, error) {
	raw, err := json.Marshal(append([]string{}, values...)) // nil would become null
	return string(raw), wrap("encode list", err)
}

func notFound(err error, sentence string, args ...any) error {
	if errors.Is(err, db.ErrNoRows) {
		return fault.New(fault.NotFound, sentence, args...)
	}
	return err
}

func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
