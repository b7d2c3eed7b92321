package store

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	"lilac/internal/engine/db"
)

// sealed is a table whose rows carry a checksum over all of their columns, so
// that a byte which changed on the disk is noticed wherever it is. Whoever adds
// a column adds it here, to what is written and read, and seals the rows anew
// in the migration.
type sealed struct {
	table string
	// key are the first columns of columns, which name a row.
	key int
	// columns are all but the checksum, in the order of the checksum.
	columns []string
}

func (s sealed) list() string { return strings.Join(s.columns, ", ") }

var (
	requestRows     = sealed{"requests", 1, strings.Split(requestColumns, ", ")}
	journalRows     = sealed{"journal", 2, []string{"request_id", "seq", "at", "step", "kind", "data"}}
	historyRows     = sealed{"history", 2, []string{"session_id", "seq", "id", "request_id", "created_at", "json"}}
	compactionRows  = sealed{"compactions", 2, []string{"session_id", "seq", "request_id", "kept_from", "created_at", "json"}}
	mailRows        = sealed{"session_inbox", 2, []string{"session_id", "message_id", "request_id", "queue", "state", "event_id", "created_at", "json"}}
	stateRows       = sealed{"session_state", 1, []string{"session_id", "json", "unfinished"}}
	inboxRows       = sealed{"inbox", 2, []string{"source", "external_id", "value", "at"}}
	taskRows        = sealed{"tasks", 1, strings.Split(taskList, ", ")}
	allSealed       = []sealed{requestRows, journalRows, historyRows, compactionRows, mailRows, stateRows, inboxRows, workflowRows, taskRows, keptRows, waitRows}
	sealedMigration = db.Migration{Name: "store.0005-seal", SQL: `
ALTER TABLE requests ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE inbox ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
`, Then: sealAll}
)

// keyedRows are the tables whose rows carry [keyedSum]: all that matters in one
// stands in its key and its data.
var keyedRows = []sealed{
	{"outbox", 1, []string{"key", "json"}},
	{"relays", 1, []string{"request_id", "json"}},
	{"router_state", 1, []string{"session_id", "json"}},
	{"discord_gateway", 1, []string{"'" + gatewayKey + "'", "json"}},
	{"discord_gaps", 1, []string{"channel_id", "json"}},
	{"discord_orders", 1, []string{"id", "json"}},
}

// The parts of a row in its checksum begin with their kind, so that no value
// can pass for one of another kind.
var (
	kindNull    = []byte{0}
	kindInteger = []byte{1}
	kindText    = []byte{2}
	kindBlob    = []byte{3}
)

// seal is the checksum of a row: of int64, int, bool, string, []byte and nil.
func seal(values ...any) int64 {
	parts := make([][]byte, 0, 2*len(values))
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			parts = append(parts, kindNull)
		case int64:
			parts = append(parts, kindInteger, binary.LittleEndian.AppendUint64(nil, uint64(v)))
		case int:
			parts = append(parts, kindInteger, binary.LittleEndian.AppendUint64(nil, uint64(v)))
		case bool:
			n := byte(0)
			if v {
				n = 1
			}
			parts = append(parts, kindInteger, []byte{n, 0, 0, 0, 0, 0, 0, 0})
		case string:
			parts = append(parts, kindText, []byte(v))
		case []byte:
			if len(v) == 0 { // an empty blob and none read the same
				parts = append(parts, kindNull)
			} else {
				parts = append(parts, kindBlob, v)
			}
		default:
			parts = append(parts, fmt.Append(nil, v))
		}
	}
	return db.Checksum(parts...)
}

// open checks the seal of a row and decodes its data.
func open(s sealed, checksum int64, data []byte, into any, values ...any) error {
	if seal(values...) != checksum {
		return s.damaged(values)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("decode %s %s: %w", s.table, s.name(values), err)
	}
	return nil
}

func (s sealed) damaged(values []any) error { return db.DamagedRow(s.table, s.name(values)) }

func (s sealed) name(values []any) string {
	out := make([]string, s.key)
	for i := range out {
		out[i] = fmt.Sprint(values[i])
	}
	return strings.Join(out, "/")
}

// badMax bounds what is reported of one table; beyond it nobody reads on.
const badMax = 1000

// Verify reads every row that carries a checksum and reports, by name, those
// that are damaged. Nothing is changed.
func (s *Store) Verify(ctx context.Context) (bad []string, err error) {
	for _, kind := range []struct {
		tables []sealed
		sum    func(values ...any) int64
	}{{allSealed, seal}, {keyedRows, keyedSum}} {
		for _, t := range kind.tables {
			err := s.db.Read(ctx, func(q db.Queryer) error {
				found := 0
				return t.each(q, "", func(values []any, checksum int64) (bool, error) {
					if kind.sum(values...) != checksum {
						bad = append(bad, t.damaged(values).Error())
						found++
					}
					return found < badMax, ctx.Err()
				})
			})
			if err != nil {
				return bad, fmt.Errorf("verify %s: %w", t.table, err)
			}
		}
	}
	return bad, nil
}

// keyedSum is the checksum of a key and its data, see [decode].
func keyedSum(values ...any) int64 {
	key, _ := values[0].(string)
	data, _ := values[1].([]byte)
	return sum(key, data)
}

// each calls fn with the columns of every row, and extra ones, while it
// returns true.
func (s sealed) each(q db.Queryer, extra string, fn func(values []any, checksum int64) (bool, error)) error {
	rows, err := q.Query("SELECT " + s.list() + extra + ", checksum FROM " + s.table)
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
		sum, whole := checksum.(int64)
		if !whole {
			sum = -1 // a value of another kind is no checksum
		}
		if more, err := fn(values, sum); err != nil || !more {
			return err
		}
	}
	return rows.Err()
}

// sealAll gives the rows of before the seals theirs. A row whose old checksum,
// over its data alone, does not fit is left as it is: it stays damaged.
func sealAll(tx *db.Tx) error {
	for _, t := range []struct {
		sealed
		// before are the name and the data that the old checksum was made of.
		before string
	}{
		{sealed{"requests", 1, strings.Split(requestColumns0005, ", ")}, ""},
		{journalRows, ", request_id || '/' || seq, data"},
		{historyRows, ", id, json"},
		{compactionRows, ", session_id || '/' || seq, json"},
		{mailRows, ", message_id, json"},
		{stateRows, ", session_id, json"},
		{inboxRows, ""},
	} {
		update := "UPDATE " + t.table + " SET checksum = ? WHERE " + strings.Join(t.columns[:t.key], " = ? AND ") + " = ?"
		err := t.each(tx, t.before, func(values []any, checksum int64) (bool, error) {
			if row := values[len(t.columns):]; len(row) > 0 && keyedSum(row...) != checksum {
				return true, nil
			}
			_, err := tx.Exec(update, append([]any{seal(values[:len(t.columns)]...)}, values[:t.key]...)...)
			return true, err
		})
		if err != nil {
			return fmt.Errorf("seal %s: %w", t.table, err)
		}
	}
	return nil
}

// sealFirst gives the rows of a table that had no checksum theirs.
func sealFirst(tx *db.Tx, t sealed) error {
	update := "UPDATE " + t.table + " SET checksum = ? WHERE " + strings.Join(t.columns[:t.key], " = ? AND ") + " = ?"
	err := t.each(tx, "", func(values []any, _ int64) (bool, error) {
		_, err := tx.Exec(update, append([]any{seal(values...)}, values[:t.key]...)...)
		return true, err
	})
	if err != nil {
		return fmt.Errorf("seal %s: %w", t.table, err)
	}
	return nil
}

// requestColumns0005 are the columns of requests when they were sealed first.
const requestColumns0005 = `id, session_id, client, state, detail, created_at, started_at, ended_at, woken_by, steps, recoveries, usage, model, error_kind`
