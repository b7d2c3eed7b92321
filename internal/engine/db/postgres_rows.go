package db

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// deadlineEvery is the number of rows after which the server has its full time to answer
// again, so that reading a large table does not count as one answer.
const deadlineEvery = 1000

// postgresRows reads a result from the connection. If another statement is needed before
// it ends, it keeps the rest in memory.
type postgresRows struct {
	conn     *postgresConn
	pipeline *pgconn.Pipeline
	reader   *pgconn.ResultReader // nil after the end
	names    []string
	types    []uint32

	values  []any // the current row
	waiting [][]any
	read    int
	err     error
}

func newRows(c *postgresConn, p *pgconn.Pipeline, reader *pgconn.ResultReader) *postgresRows {
	rows := &postgresRows{conn: c, pipeline: p, reader: reader}
	for _, f := range reader.FieldDescriptions() {
		rows.names, rows.types = append(rows.names, f.Name), append(rows.types, f.DataTypeOID)
	}
	return rows
}

func (r *postgresRows) Next() bool {
	if len(r.waiting) > 0 {
		r.values, r.waiting = r.waiting[0], r.waiting[1:]
		return true
	}
	r.values = nil
	if r.reader == nil || r.err != nil {
		return false
	}
	values, ok := r.fetch()
	r.values = values
	return ok
}

// fetch reads one row from the connection. After the last one, it ends the result.
func (r *postgresRows) fetch() ([]any, bool) {
	if r.read++; r.read%deadlineEvery == 0 {
		r.conn.extendDeadline()
	}
	if !r.reader.NextRow() {
		r.finish()
		return nil, false
	}
	out, err := r.decode()
	if err != nil {
		r.err = err
		return nil, false
	}
	return out, true
}

// decode returns the values of the current row of the connection.
func (r *postgresRows) decode() ([]any, error) {
	raw := r.reader.Values()
	out := make([]any, len(raw))
	for i := range raw {
		value, err := decodeValue(r.types[i], raw[i])
		if err != nil {
			return nil, fmt.Errorf("decode column %s: %w", r.names[i], err)
		}
		out[i] = value
	}
	return out, nil
}

// spill keeps the rest of the result in memory, to free the connection.
func (r *postgresRows) spill() error {
	for r.reader != nil {
		values, ok := r.fetch()
		if ok {
			r.waiting = append(r.waiting, values)
		} else if r.err != nil {
			r.finish()
			return r.err
		}
	}
	return nil
}

// finish reads what is left of the answer.
func (r *postgresRows) finish() {
	if r.reader == nil {
		return
	}
	_, err := r.reader.Close()
	if closing := r.pipeline.Close(); err == nil {
		err = closing
	}
	r.reader, r.conn.rows = nil, nil
	if err != nil {
		err = r.conn.note(err)
		if r.err == nil {
			r.err = err
		}
	}
}

func (r *postgresRows) Scan(dest ...any) error { return scanValues(r.values, dest) }

func (r *postgresRows) Columns() ([]string, error) { return r.names, nil }

func (r *postgresRows) Err() error { return r.err }

func (r *postgresRows) Close() error {
	r.waiting = nil
	r.finish()
	return r.err
}

// postgresRow is the first row of a result.
type postgresRow struct {
	values []any
	found  bool
	err    error
}

func (r *postgresRow) Scan(dest ...any) error {
	switch {
	case r.err != nil:
		return r.err
	case !r.found:
		return ErrNoRows
	}
	return scanValues(r.values, dest)
}

func (r *postgresRow) Err() error { return r.err }

func scanValues(values, dest []any) error {
	if len(values) != len(dest) {
		return fmt.Errorf("scan: %d values for %d destinations", len(values), len(dest))
	}
	for i := range dest {
		if err := assign(dest[i], values[i]); err != nil {
			return fmt.Errorf("scan column %d: %w", i, err)
		}
	}
	return nil
}
