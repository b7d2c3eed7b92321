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

// AheadOfNext announces the reads of the transaction that will follow this one. On PostgreSQL,
// they travel with the commit, so that the next transaction, if it has these reads, waits for
// nothing but its own commit. This process is the only one that writes, and a read that follows
// a write to its tables runs again; therefore, they read the same as at their time. They are
// dropped if there are many, or if something else waits for the writer: then, throughput matters.
func (t *Tx) AheadOfNext(reads func(tx *Tx)) { t.foresee(reads, true) }

// Foresee is like [Tx.AheadOfNext], for reads outside of transactions: [Foresight.Read] has them
// as they are right after the commit.
func (t *Tx) Foresee(reads func(tx *Tx)) *Foresight { return &Foresight{t.foresee(reads, false)} }

// Foresight has the results of reads that were sent with a commit. nil has none.
type Foresight struct{ reads []*keptRead }

func (t *Tx) foresee(reads func(tx *Tx), next bool) (noted []*keptRead) {
	c, ok := t.conn.(*postgresConn)
	if !ok || t.ended || t.announcing || len(t.d.queue) > 0 || len(c.behind) >= aheadMax {
		return nil
	}
	to := readsBehind{next: next}
	reads(&Tx{d: t.d, conn: &announcement{on: &to}, now: t.now, announcing: true})
	c.behind = append(c.behind, to.reads...)
	return to.reads
}

// Read is like [DB.Read], but what was foreseen costs no round trip.
func (f *Foresight) Read(ctx context.Context, d *DB, fn func(q Queryer) error) error {
	return d.Read(ctx, func(q Queryer) error {
		if c, ok := q.(reader).conn.(*postgresConn); ok && f != nil {
			for _, r := range f.reads {
				if r.answered {
					c.ahead = append(c.ahead, r)
				}
			}
		}
		return fn(q)
	})
}

// announced receives the reads of an announcement.
type announced interface {
	announce(query string, args []any)
}

// readsBehind collects reads that are sent behind a commit.
type readsBehind struct {
	reads []*keptRead
	// next is true if they are those of the next transaction.
	next bool
}

func (b *readsBehind) announce(query string, args []any) {
	if r := newKeptRead(query, args); r != nil && len(b.reads) < aheadMax {
		r.next = b.next
		b.reads = append(b.reads, r)
	}
}

// announcement is a connection that notes the reads that are run on it.
type announcement struct {
	conn // nil: nothing else is called
	on   announced
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
