package db

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"lilac/internal/foundation/fault"
)

// The rows of the table meta that say where the data of a database is.
const (
	// movingTo marks a database that is being filled from another one.
	movingTo = "moving"
	// movedTo marks a database whose data was moved to another one; its value names that one.
	movedTo = "moved"
	// movingTrigger begins the names of rows with the triggers of SQLite that a move has removed.
	movingTrigger = "moving_trigger:"
)

// Move is the record of a database about moves of its data.
type Move struct {
	// From is the store whose data is being copied here, or "".
	From string
	// To names the database that has the data now, or "".
	To string
}

// Moves returns what a database says about moves of its data.
func Moves(q Queryer) (m Move, err error) {
	rows, err := q.Query("SELECT name, value FROM meta WHERE name IN ('moving', 'moved')")
	if err != nil {
		return m, err
	}
	defer rows.Close()
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return m, err
		}
		if name == movingTo {
			m.From = value
		} else {
			m.To = value
		}
	}
	return m, rows.Err()
}

// checkMoves refuses a database that is filled only in part, or whose data is elsewhere now.
func checkMoves(ctx context.Context, d *DB) error {
	if d.opt.Moving || len(d.pending) > 0 {
		return nil
	}
	m, err := Moves(reader{ctx, d.engine.writer()})
	switch {
	case err != nil:
		return fmt.Errorf("read where the data is: %w", err)
	case m.From != "":
		return &fault.Error{Kind: fault.Conflict, Code: "moving", Message: "The data was not completely moved here: \"lilac migrate\" was interrupted. Run it again; it continues where it was."}
	case m.To != "":
		return &fault.Error{Kind: fault.Conflict, Code: "moved", Message: fmt.Sprintf(
			"The data of this database was moved to %s by \"lilac migrate\". Use that one (LILAC_DB_URL, or database.url), or move the data back.", m.To)}
	}
	return nil
}

// SetMeta writes a row of the table meta, or removes it if the value is "".
func SetMeta(tx *Tx, name, value string) error {
	if value == "" {
		_, err := tx.Exec("DELETE FROM meta WHERE name = ?", name)
		return err
	}
	_, err := tx.Exec("INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", name, value)
	return err
}

// Meta returns the rows of the table meta.
func Meta(q Queryer) (map[string]string, error) {
	rows, err := q.Query("SELECT name, value FROM meta")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]string{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		out[name] = value
	}
	return out, rows.Err()
}

// Table is a table with data. Search indexes and the tables of this package are none.
type Table struct {
	Name string
	// Columns are all columns, and Key those of the primary key.
	Columns, Key []string
	// Numbered is the column whose values the database assigns, or "".
	Numbered string
}

// Tables lists the tables of a database on SQLite, each after those that it refers to.
func Tables(q Queryer) ([]Table, error) {
	names, err := texts(q, `SELECT name FROM sqlite_master t WHERE type = 'table' AND name NOT LIKE 'sqlite^_%' ESCAPE '^' AND name NOT IN ('meta', 'migrations')
		AND NOT EXISTS (SELECT 1 FROM sqlite_master v WHERE v.sql LIKE 'CREATE VIRTUAL TABLE%' AND (t.name = v.name OR t.name LIKE v.name || '^_%' ESCAPE '^')) ORDER BY name`)
	if err != nil {
		return nil, err
	}
	var out []Table
	done := map[string]bool{}
	var add func(name string) error
	add = func(name string) error {
		if done[name] {
			return nil
		}
		done[name] = true
		others, err := texts(q, `SELECT "table" FROM pragma_foreign_key_list(?)`, name)
		if err != nil {
			return err
		}
		for _, other := range others {
			if err := add(other); err != nil {
				return err
			}
		}
		t := Table{Name: name}
		if t.Columns, err = texts(q, "SELECT name FROM pragma_table_info(?) ORDER BY cid", name); err != nil {
			return err
		}
		if t.Key, err = texts(q, "SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", name); err != nil {
			return err
		}
		if len(t.Key) == 0 {
			return fmt.Errorf("the table %s has no primary key", name)
		}
		numbered, err := texts(q, "SELECT name FROM pragma_table_info(?1) WHERE pk = 1 AND type = 'INTEGER' AND (SELECT count(*) FROM pragma_table_info(?1) WHERE pk > 0) = 1", name)
		if err != nil {
			return err
		}
		t.Numbered = strings.Join(numbered, "")
		out = append(out, t)
		return nil
	}
	for _, name := range names {
		if err := add(name); err != nil {
			return nil, fmt.Errorf("describe the table %s: %w", name, err)
		}
	}
	return out, nil
}

func texts(q Queryer, query string, args ...any) (out []string, err error) {
	rows, err := q.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, rows.Err()
}

// BeginMove empties the tables of a database and prepares it to be filled from the store with
// an id: triggers do not run until [DB.EndMove], and [Open] refuses the database.
func (d *DB) BeginMove(ctx context.Context, from string, tables []Table) error {
	return d.Update(ctx, func(tx *Tx) error {
		meta, err := Meta(tx)
		if err != nil {
			return err
		}
		for name := range meta {
			if name == movedTo || strings.HasPrefix(name, "moving:") {
				if err := SetMeta(tx, name, ""); err != nil {
					return err
				}
			}
		}
		if err := errors.Join(stopTriggers(tx), empty(tx, tables)); err != nil {
			return err
		}
		return SetMeta(tx, movingTo, from)
	})
}

// empty removes all rows of tables, which are in the order of [Tables].
func empty(tx *Tx, tables []Table) error {
	var names []string
	for _, t := range slices.Backward(tables) {
		names = append(names, t.Name)
	}
	if tx.d.opt.URL != "" {
		_, err := tx.Exec("TRUNCATE " + strings.Join(names, ", "))
		return err
	}
	for _, name := range names {
		if _, err := tx.Exec("DELETE FROM " + name); err != nil {
			return fmt.Errorf("empty %s: %w", name, err)
		}
	}
	return nil
}

// stopTriggers keeps the triggers of SQLite in the table meta.
func stopTriggers(tx *Tx) error {
	if tx.d.opt.URL != "" {
		return eachStatement(tx, `SELECT DISTINCT 'ALTER TABLE ' || c.relname || ' DISABLE TRIGGER USER' FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
			WHERE c.relnamespace = to_regnamespace(current_schema()) AND NOT t.tgisinternal`)
	}
	rows, err := tx.Query("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
	if err != nil {
		return err
	}
	triggers := map[string]string{}
	for rows.Next() {
		var name, statement string
		if err := rows.Scan(&name, &statement); err != nil {
			return errors.Join(err, rows.Close())
		}
		triggers[name] = statement
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for name, statement := range triggers {
		if err := SetMeta(tx, movingTrigger+name, statement); err != nil {
			return err
		}
		if _, err := tx.Exec("DROP TRIGGER " + name); err != nil {
			return err
		}
	}
	return nil
}

func eachStatement(tx *Tx, query string) error {
	statements, err := texts(tx, query)
	if err != nil {
		return err
	}
	for _, statement := range statements {
		if _, err := tx.Exec(statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// EndMove ends [DB.BeginMove]: the triggers run again, numbers continue after those of the other
// database, and the rows of its table meta replace those of this one.
func (d *DB) EndMove(ctx context.Context, other map[string]string, tables []Table) error {
	err := d.Update(ctx, func(tx *Tx) error {
		if err := errors.Join(startTriggers(tx), continueNumbers(tx, tables)); err != nil {
			return err
		}
		own, err := Meta(tx)
		if err != nil {
			return err
		}
		for name := range own {
			if name != "application" {
				if err := SetMeta(tx, name, ""); err != nil {
					return err
				}
			}
		}
		for name, value := range other {
			if name != "application" && name != movedTo {
				if err := SetMeta(tx, name, value); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err == nil {
		d.storeID = other["store_id"]
	}
	return err
}

func startTriggers(tx *Tx) error {
	if tx.d.opt.URL != "" {
		return eachStatement(tx, `SELECT DISTINCT 'ALTER TABLE ' || c.relname || ' ENABLE TRIGGER USER' FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
			WHERE c.relnamespace = to_regnamespace(current_schema()) AND NOT t.tgisinternal`)
	}
	return eachStatement(tx, "SELECT value FROM meta WHERE name LIKE '"+movingTrigger+"%'")
}

func continueNumbers(tx *Tx, tables []Table) error {
	if tx.d.opt.URL == "" {
		return nil // SQLite has noted the largest numbers
	}
	for _, t := range tables {
		if t.Numbered == "" {
			continue
		}
		name, column := "'"+t.Name+"'", "'"+t.Numbered+"'"
		_, err := tx.Exec("SELECT setval(pg_get_serial_sequence(" + name + ", " + column + "), greatest(coalesce(max(" + t.Numbered + "), 0), 1), coalesce(max(" + t.Numbered + "), 0) > 0) FROM " + t.Name)
		if err != nil {
			return fmt.Errorf("continue the numbers of %s: %w", t.Name, err)
		}
	}
	return nil
}

// MarkMoved records where the data of this database is now.
func (d *DB) MarkMoved(ctx context.Context, to string) error {
	return d.Update(ctx, func(tx *Tx) error { return SetMeta(tx, movedTo, to) })
}

// Progress is how far a table was copied.
type Progress struct {
	// Rows were copied, the last one with the key Last, as JSON.
	Rows int64           `json:"rows"`
	Last json.RawMessage `json:"last,omitempty"`
	Done bool            `json:"done,omitempty"`
}

// SetProgress records within a transaction how far a table was copied.
func SetProgress(tx *Tx, table string, p Progress) error {
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return SetMeta(tx, "moving:"+table, string(data))
}

// ProgressOf returns how far a table was copied.
func ProgressOf(q Queryer, table string) (p Progress, err error) {
	var data string
	err = q.QueryRow("SELECT value FROM meta WHERE name = ?", "moving:"+table).Scan(&data)
	if errors.Is(err, ErrNoRows) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal([]byte(data), &p)
}
