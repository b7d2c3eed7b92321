package db

import "context"

// Ahead announces reads that will follow, so that they travel to the server together: on
// PostgreSQL, the first of them costs a round trip and the others cost none. reads calls the
// functions that will read, with a Queryer on which every query finds nothing; their results
// are worthless. A read that does not follow, or that follows a write to its tables, is only
// work for the server. On SQLite, reads is not called. In a transaction of the writer, use
// [Tx.Ahead].
func Ahead(q Queryer, reads func(Queryer)) {
	if r, ok := q.(reader); ok {
		if c, ok := r.conn.(*postgresConn); ok {
			reads(reader{r.ctx, &announcement{on: c}})
		}
	}
}

// Ahead is like [Ahead], for functions that also write: their writes have no effect.
func (t *Tx) Ahead(reads func(tx *Tx)) {
	if c, ok := t.conn.(*postgresConn); ok && !t.ended && !t.announcing {
		reads(&Tx{d: t.d, conn: &announcement{on: c}, now: t.now, announcing: true})
	}
}

// announcement is a connection that notes the reads that are run on it.
type announcement struct {
	conn // nil: nothing else is called
	on   *postgresConn
}

func (a *announcement) exec(context.Context, string, ...any) (Result, error) {
	return nothingDone{}, nil
}

func (a *announcement) query(_ context.Context, query string, args ...any) (Rows, error) {
	a.on.announce(query, args)
	return &postgresRows{}, nil
}

func (a *announcement) queryRow(_ context.Context, query string, args ...any) Row {
	a.on.announce(query, args)
	return failedRow{ErrNoRows}
}

type nothingDone struct{}

func (nothingDone) RowsAffected() (int64, error) { return 1, nil }
