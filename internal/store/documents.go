package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"lilac/internal/engine/db"
)

// documents is a table whose rows hold a key, a value as JSON, and a checksum over
// both. Its other columns only find rows, so that the checksum does not cover them.
// (The checksum of a [checksummed] table covers all columns.)
type documents[T any] struct{ documentTable }

// documentTable is the part of [documents] that does not depend on their type, so that it is
// compiled once.
type documentTable struct {
	table string
	// key is the column that names a row. It is a constant in quotes for a table with
	// one row.
	key string

	selectFrom, insert, upsert string
}

// newDocuments describes a table. columns are the columns that [documents.put] and
// [documents.add] write in addition to key, json and checksum; those in primary form
// the primary key.
func newDocuments[T any](table, key, primary string, columns ...string) documents[T] {
	return documents[T]{newDocumentTable(table, key, primary, columns)}
}

func newDocumentTable(table, key, primary string, columns []string) documentTable {
	all := append(columns[:len(columns):len(columns)], "json", "checksum")
	if !strings.HasPrefix(key, "'") {
		all = append([]string{key}, all...)
	}
	var set []string
	for _, c := range all {
		if !strings.Contains(", "+primary+",", ", "+c+",") {
			set = append(set, c+" = excluded."+c)
		}
	}
	insert := `INSERT INTO ` + table + ` (` + strings.Join(all, ", ") + `) VALUES (?` + strings.Repeat(", ?", len(all)-1) + `) ON CONFLICT`
	return documentTable{
		table: table, key: key,
		selectFrom: `SELECT ` + key + `, json, checksum FROM ` + table + ` `,
		insert:     insert + ` DO NOTHING`,
		upsert:     insert + ` (` + primary + `) DO UPDATE SET ` + strings.Join(set, ", "),
	}
}

// checksums describes the table to the deep check.
func (d documentTable) checksums() checksummed {
	return checksummed{table: d.table, key: 1, columns: []string{d.key, "json"}, sum: documentSum}
}

// one returns the row that a condition selects. The error wraps [db.ErrNoRows] if there
// is none.
func (d documents[T]) one(q db.Queryer, where string, args ...any) (T, error) {
	return d.scan(q.QueryRow(d.selectFrom+`WHERE `+where, args...))
}

// oneOrZero is like one, but returns the zero value if there is no row.
func (d documents[T]) oneOrZero(q db.Queryer, where string, args ...any) (v T, err error) {
	if v, err = d.one(q, where, args...); errors.Is(err, db.ErrNoRows) {
		err = nil
	}
	return v, err
}

// readable returns the rows that are not damaged. where begins with WHERE or ORDER BY.
func (d documents[T]) readable(q db.Queryer, where string, args ...any) ([]T, error) {
	return collectReadable(q, d.scan, d.selectFrom+where, args...)
}

func (d documents[T]) scan(r scanner) (v T, err error) {
	return v, d.scanInto(r, &v)
}

func (d documentTable) scanInto(r scanner, v any) error {
	var key string
	var data []byte
	var checksum int64
	if err := r.Scan(&key, &data, &checksum); err != nil {
		return err
	}
	return d.decode(key, data, checksum, v)
}

func (d documentTable) decode(key string, data []byte, checksum int64, into any) error {
	if documentChecksum(key, data) != checksum {
		return db.DamagedRow(d.table, key)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("decode %s %s: %w", d.table, key, err)
	}
	return nil
}

// encode returns the JSON of a value and its checksum.
func (d documentTable) encode(key string, v any) (data []byte, checksum int64, err error) {
	if data, err = json.Marshal(v); err != nil {
		return nil, 0, fmt.Errorf("encode %s %s: %w", d.table, key, err)
	}
	return data, documentChecksum(key, data), nil
}

// put inserts or replaces a row. columns are the values of the columns of newDocuments.
func (d documents[T]) put(tx *db.Tx, key string, v T, columns ...any) error {
	_, err := d.write(tx, d.upsert, key, v, columns)
	return err
}

// has reports whether a row exists.
func (d documentTable) has(q db.Queryer, key string) (bool, error) {
	return exists(q, `SELECT 1 FROM `+d.table+` WHERE `+d.key+` = ?`, db.CleanText(key))
}

// ensure inserts a row unless it exists. It looks first, because most rows exist, and to encode and
// send a large value costs more.
func (d documents[T]) ensure(tx *db.Tx, key string, v T, columns ...any) error {
	if exists, err := d.has(tx, key); exists || err != nil {
		return err
	}
	_, err := d.write(tx, d.insert, key, v, columns)
	return err
}

// add inserts a row. It returns false, and changes nothing, if the row exists.
func (d documents[T]) add(tx *db.Tx, key string, v T, columns ...any) (added bool, err error) {
	return changed(d.write(tx, d.insert, key, v, columns))
}

func (d documentTable) write(tx *db.Tx, statement, key string, v any, columns []any) (db.Result, error) {
	key = db.CleanText(key)
	data, checksum, err := d.encode(key, v)
	if err != nil {
		return nil, err
	}
	args := make([]any, 0, len(columns)+3)
	if !strings.HasPrefix(d.key, "'") {
		args = append(args, key)
	}
	return tx.Exec(statement, append(append(args, columns...), data, checksum)...)
}

// documentChecksum returns the checksum of a row of [documents].
func documentChecksum(key string, data []byte) int64 { return db.Checksum([]byte(key), data) }

func documentSum(values ...any) int64 {
	key, _ := values[0].(string)
	data, _ := values[1].([]byte)
	return documentChecksum(key, data)
}
