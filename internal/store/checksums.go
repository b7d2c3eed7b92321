package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"lilac/internal/engine/db"
	"lilac/internal/engine/longtext"
)

// checksummed is a table whose rows carry a checksum over all of their columns, so that
// a changed byte is detected wherever it is. A new column must be added here, to the
// statements that write and read it, and to the checksums of the rows that exist (in
// the migration).
type checksummed struct {
	table string
	// key is the number of columns, from the first, that name a row.
	key int
	// columns are all columns but the checksum, in the order of the checksum.
	columns []string
	// sum computes the checksum of the columns; nil means rowChecksum.
	sum func(values ...any) int64
}

func (t checksummed) list() string { return strings.Join(t.columns, ", ") }

var (
	requestTable    = checksummed{table: "requests", key: 1, columns: strings.Split(requestColumns, ", ")}
	journalTable    = checksummed{table: "journal", key: 2, columns: []string{"request_id", "seq", "at", "step", "kind", "data"}}
	historyTable    = checksummed{table: "history", key: 2, columns: []string{"session_id", "seq", "id", "request_id", "created_at", "json"}}
	compactionTable = checksummed{table: "compactions", key: 2, columns: []string{"session_id", "seq", "request_id", "kept_from", "created_at", "json"}}
	mailTable       = checksummed{table: "session_inbox", key: 2, columns: []string{"session_id", "message_id", "request_id", "queue", "state", "event_id", "created_at", "json"}}
	stateTable      = checksummed{table: "session_state", key: 1, columns: []string{"session_id", "json", "unfinished"}}
	inboxTable      = checksummed{table: "inbox", key: 2, columns: []string{"source", "external_id", "value", "at"}}
	taskTable       = checksummed{table: "tasks", key: 1, columns: strings.Split(taskColumns, ", ")}
	workflowTable   = checksummed{table: "workflows", key: 1, columns: []string{"id", "session_id", "waiting", "due", "created_at", "ended_at", "json"}}
	ruleEventTable  = checksummed{table: "rule_events", key: 2, columns: []string{"session_id", "event_id", "at", "json"}}
	ruleWaitTable   = checksummed{table: "rule_waits", key: 2, columns: strings.Split(ruleWaitColumns, ", ")}
)

// checksummedTables lists the tables that [Store.Verify] reads.
var checksummedTables = []checksummed{
	requestTable, journalTable, historyTable, compactionTable, mailTable, stateTable, inboxTable, workflowTable, taskTable, ruleEventTable, ruleWaitTable,
	outboxRows.checksums(), markRows.checksums(), relayRows.checksums(), routerStateRows.checksums(), gatewayRows.checksums(), gapRows.checksums(), interactionRows.checksums(),
	promptRows.checksums(), prefixRows.checksums(), promptToolRows.checksums(), learnedRows.checksums(),
}

// Each value in a checksum is preceded by its kind, so that a value cannot pass for one
// of another kind.
var (
	kindNull    = []byte{0}
	kindInteger = []byte{1}
	kindText    = []byte{2}
	kindBlob    = []byte{3}
)

// rowChecksum returns the checksum of a row of values of the types int64, int, bool,
// string, []byte and nil. Text counts in the form in which every engine stores it.
func rowChecksum(values ...any) int64 { return checksumOf(db.CleanText, values) }

// matches reports whether a row has a checksum. Rows that an older version wrote on SQLite
// may contain text that only SQLite stores.
func matches(checksum int64, values []any) bool {
	return rowChecksum(values...) == checksum || checksumOf(func(text string) string { return text }, values) == checksum
}

func checksumOf(form func(text string) string, values []any) int64 {
	var sum db.Sum
	number := make([]byte, 8) // one for all, because every statement computes a checksum
	integer := func(n uint64) {
		binary.LittleEndian.PutUint64(number, n)
		sum.Add(kindInteger)
		sum.Add(number)
	}
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			sum.Add(kindNull)
		case int64:
			integer(uint64(v))
		case int:
			integer(uint64(v))
		case bool:
			n := uint64(0)
			if v {
				n = 1
			}
			integer(n)
		case string:
			sum.Add(kindText)
			sum.AddText(form(v))
		case []byte:
			if len(v) == 0 { // an empty blob and NULL read the same
				sum.Add(kindNull)
			} else {
				sum.Add(kindBlob)
				sum.Add(v)
			}
		default:
			sum.Add(fmt.Append(nil, v))
		}
	}
	return sum.Value()
}

// decodeRow verifies the checksum of a row and decodes its data.
func decodeRow(t checksummed, checksum int64, data []byte, into any, values ...any) error {
	if !matches(checksum, values) {
		return t.damaged(values)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("decode %s %s: %w", t.table, t.name(values), err)
	}
	return nil
}

// decodeLong is like decodeRow, for a row that [longtext.Shorten] may have shortened.
func decodeLong(q db.Queryer, t checksummed, checksum int64, data []byte, into any, values ...any) error {
	whole, err := longtext.Restore(q, data)
	if err != nil && matches(checksum, values) { // otherwise, the row itself is damaged
		return fmt.Errorf("read %s %s: %w", t.table, t.name(values), err)
	}
	return decodeRow(t, checksum, whole, into, values...)
}

func (t checksummed) damaged(values []any) error { return db.DamagedRow(t.table, t.name(values)) }

// name returns the name of a row in messages.
func (t checksummed) name(values []any) string {
	out := make([]string, t.key)
	for i := range out {
		out[i] = fmt.Sprint(values[i])
	}
	return strings.Join(out, "/")
}

// each calls fn with the columns of every row, followed by the columns in extra (SQL
// that begins with a comma), until fn returns false.
func (t checksummed) each(q db.Queryer, extra string, fn func(values []any, checksum int64) (bool, error)) error {
	rows, err := q.Query("SELECT " + t.list() + extra + ", checksum FROM " + t.table)
	if err != nil {
		return err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	values, into := make([]any, len(names)-1), make([]any, len(names))
	var checksum any
	for i := range values {
		into[i] = &values[i]
	}
	into[len(values)] = &checksum
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		sum, isInt := checksum.(int64)
		if !isInt {
			sum = -1 // matches no checksum
		}
		if more, err := fn(values, sum); err != nil || !more {
			return err
		}
	}
	return rows.Err()
}

// setChecksum writes the checksum of a row.
func (t checksummed) setChecksum(tx *db.Tx, values []any) error {
	_, err := tx.Exec("UPDATE "+t.table+" SET checksum = ? WHERE "+strings.Join(t.columns[:t.key], " = ? AND ")+" = ?",
		append([]any{rowChecksum(values...)}, values[:t.key]...)...)
	return err
}

var checksumMigration = db.Migration{Name: "store.0005-seal", SQL: `
ALTER TABLE requests ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE inbox ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
`, Then: addRowChecksums}

// requestColumns0005 are the columns of requests at the time of this migration.
const requestColumns0005 = `id, session_id, client, state, detail, created_at, started_at, ended_at, woken_by, steps, recoveries, usage, model, error_kind`

// addRowChecksums replaces checksums over the data alone with checksums over all
// columns. A row whose old checksum does not match is left as it is: it stays damaged.
func addRowChecksums(tx *db.Tx) error {
	for _, t := range []struct {
		checksummed
		// before are the name and the data that the old checksum covered.
		before string
	}{
		{checksummed{table: "requests", key: 1, columns: strings.Split(requestColumns0005, ", ")}, ""},
		{journalTable, ", request_id || '/' || seq, data"},
		{historyTable, ", id, json"},
		{compactionTable, ", session_id || '/' || seq, json"},
		{mailTable, ", message_id, json"},
		{stateTable, ", session_id, json"},
		{inboxTable, ""},
	} {
		err := t.each(tx, t.before, func(values []any, checksum int64) (bool, error) {
			if old := values[len(t.columns):]; len(old) > 0 && documentSum(old...) != checksum {
				return true, nil
			}
			return true, t.setChecksum(tx, values[:len(t.columns)])
		})
		if err != nil {
			return fmt.Errorf("add checksums to %s: %w", t.table, err)
		}
	}
	return nil
}

// ruleChecksumMigration adds checksums to the events that the agent may read again and
// to those that wait.
var ruleChecksumMigration = db.Migration{Name: "rules.0003-seal", SQL: `
ALTER TABLE rule_events ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE rule_waits ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
`, Then: func(tx *db.Tx) error {
	return errors.Join(checksumRows(tx, ruleEventTable), checksumRows(tx, ruleWaitTable))
}}

// checksumRows writes the checksums of a table whose rows had none.
func checksumRows(tx *db.Tx, t checksummed) error {
	err := t.each(tx, "", func(values []any, _ int64) (bool, error) { return true, t.setChecksum(tx, values) })
	return wrap("add checksums to "+t.table, err)
}

// CleanRow returns a row in the form in which every engine stores it. Only rows that an older
// version wrote on SQLite differ from it. Their checksum, if it is right, is computed again; if it
// is wrong, it stays wrong.
func CleanRow(table string, columns []string, row []any) []any {
	out := row
	for i, v := range row {
		text, ok := v.(string)
		if !ok || db.CleanText(text) == text {
			continue
		}
		if &out[0] == &row[0] {
			out = slices.Clone(row)
		}
		out[i] = db.CleanText(text)
	}
	if len(row) == 0 || &out[0] == &row[0] {
		return row
	}
	at := slices.Index(columns, "checksum")
	for _, t := range checksummedTables {
		if t.table != table || t.sum != nil || at < 0 {
			continue
		}
		before, after := make([]any, len(t.columns)), make([]any, len(t.columns))
		for i, name := range t.columns {
			j := slices.Index(columns, name)
			before[i], after[i] = row[j], out[j]
		}
		if sum, ok := row[at].(int64); ok && matches(sum, before) {
			out[at] = rowChecksum(after...)
		}
	}
	return out
}
