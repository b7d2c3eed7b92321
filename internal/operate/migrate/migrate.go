package migrate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/fault"
	"lilac/internal/store"
)

// Options say what to move.
type Options struct {
	// DataDir has the database on SQLite.
	DataDir string
	// URL is the address of the database on PostgreSQL; Shown is it without its password.
	URL, Shown string
	// FromPostgres moves from PostgreSQL to SQLite.
	FromPostgres bool
	// Progress is called now and then with the table, the rows of it that are done, and how many
	// there are.
	Progress func(step, table string, done, total int64)

	// onBatch is called after each batch; tests interrupt there.
	onBatch func() error
}

// Result describes a finished move.
type Result struct {
	StoreID string `json:"storeId"`
	Tables  int    `json:"tables"`
	Rows    int64  `json:"rows"`
	// Checksum covers all rows. It is the same for the same data on both engines.
	Checksum string `json:"checksum"`
	// To names the database that has the data now.
	To string `json:"to"`
}

// Move moves the data. If it is interrupted, call it again.
func Move(ctx context.Context, o Options) (r Result, err error) {
	if o.Progress == nil {
		o.Progress = func(string, string, int64, int64) {}
	}
	if o.onBatch == nil {
		o.onBatch = func() error { return nil }
	}
	pair, err := o.open(ctx)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, pair.close()) }()
	return (&mover{Options: o, pair: pair}).run(ctx)
}

// pair is both databases.
type pair struct {
	from, to *db.DB
	lease    *db.Lease
	temp     string
}

// open opens both databases for this process alone.
func (o Options) open(ctx context.Context) (_ *pair, err error) {
	migrations := slices.Concat(sqlitebus.Migrations, store.Migrations)
	p := &pair{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	sqlite, err := db.Open(ctx, db.Options{Dir: o.DataDir, Migrations: migrations, Moving: true})
	if err != nil {
		return nil, err
	}
	p.from = sqlite
	// The database on SQLite locks the data directory; the lease locks a directory of its own.
	if p.temp, err = os.MkdirTemp("", "lilac-migrate-"); err != nil {
		return nil, fmt.Errorf("make a directory for the lease: %w", err)
	}
	if p.lease, err = db.AwaitLease(ctx, db.LeaseOptions{Dir: p.temp, URL: o.URL, Migrations: migrations, NoWait: true}); err != nil {
		return nil, err
	}
	postgres, err := db.Open(ctx, db.Options{Dir: p.temp, URL: o.URL, Lease: p.lease, Migrations: migrations, Moving: true})
	if err != nil {
		return nil, err
	}
	p.to = postgres
	if o.FromPostgres {
		p.from, p.to = p.to, p.from
	}
	return p, nil
}

func (p *pair) close() error {
	var errs []error
	for _, d := range []*db.DB{p.from, p.to} {
		if d != nil {
			errs = append(errs, d.Close())
		}
	}
	if p.lease != nil {
		errs = append(errs, p.lease.Release())
	}
	if p.temp != "" {
		errs = append(errs, os.RemoveAll(p.temp))
	}
	return errors.Join(errs...)
}

// mover moves the data of a pair.
type mover struct {
	Options
	*pair
	tables []db.Table
	totals map[string]int64
}

func (m *mover) run(ctx context.Context) (r Result, err error) {
	sqlite := m.from
	if m.FromPostgres {
		sqlite = m.to
	}
	if err := sqlite.Read(ctx, func(q db.Queryer) (err error) { m.tables, err = db.Tables(q); return err }); err != nil {
		return r, fmt.Errorf("list the tables: %w", err)
	}
	state, err := m.prepare(ctx)
	if err != nil {
		return r, err
	}
	if m.totals, err = m.count(ctx); err != nil {
		return r, err
	}
	for differs := ""; ; {
		if state != finished {
			if err := m.copyAll(ctx); err != nil {
				return r, err
			}
		}
		if r, differs, err = m.compare(ctx); err != nil {
			return r, err
		}
		if differs == "" {
			break
		}
		switch state {
		case finished:
			return r, fault.New(fault.Conflict, "The target already has the data of this store, and one of them was used since: the table %s differs. Nothing was changed. If the source is the newer one, choose an empty database.", differs)
		case begun:
			return r, fault.New(fault.Internal, "The table %s differs after it was copied. Nothing was removed from the source. Run lilac doctor --deep.", differs)
		}
		// The source was used between an interrupted move and this one.
		if err := m.to.BeginMove(ctx, m.from.StoreID(), m.tables); err != nil {
			return r, fmt.Errorf("empty the target: %w", err)
		}
		state = begun
	}
	if state != finished {
		err = store.Reindex(ctx, m.to, func(table string, done int64) { m.Progress("index", table, done, m.totals[table]) })
		if err != nil {
			return r, err
		}
		var meta map[string]string
		if err := m.from.Read(ctx, func(q db.Queryer) (err error) { meta, err = db.Meta(q); return err }); err != nil {
			return r, fmt.Errorf("read the identity of the store: %w", err)
		}
		if err := m.to.EndMove(ctx, meta, m.tables); err != nil {
			return r, fmt.Errorf("finish the target: %w", err)
		}
	}
	r.To = m.Shown
	if m.FromPostgres {
		r.To = "the data directory " + m.DataDir
	}
	if err := m.from.MarkMoved(ctx, r.To); err != nil {
		return r, fmt.Errorf("mark the source: %w", err)
	}
	return r, nil
}

func (m *mover) copyAll(ctx context.Context) error {
	for _, t := range m.tables {
		if err := m.copy(ctx, t); err != nil {
			return fmt.Errorf("copy %s: %w", t.Name, err)
		}
	}
	return nil
}

// state is what a move finds in its target.
type state int

const (
	begun     state = iota // nothing, any more
	continued              // what an interrupted move has copied
	finished               // everything: the move was interrupted before it marked the source
)

// prepare decides whether the target may be filled, and empties it unless the move continues.
func (m *mover) prepare(ctx context.Context) (_ state, err error) {
	var source, target db.Move
	err = errors.Join(
		m.from.Read(ctx, func(q db.Queryer) (err error) { source, err = db.Moves(q); return err }),
		m.to.Read(ctx, func(q db.Queryer) (err error) { target, err = db.Moves(q); return err }))
	if err != nil {
		return begun, fmt.Errorf("read where the data is: %w", err)
	}
	if source.From != "" {
		return begun, fault.New(fault.Conflict, "The source is not complete: a move into it was interrupted. Finish that one first.")
	}
	if source.To != "" {
		return begun, fault.New(fault.Conflict, "The source has no data any more: it was moved to %s.", source.To)
	}
	if target.From == m.from.StoreID() {
		return continued, nil
	}
	used, err := m.used(ctx, m.to)
	if err != nil {
		return begun, err
	}
	switch {
	case target.From != "":
		return begun, fault.New(fault.Conflict, "The target is being filled from another store (%s). It was not changed. Choose an empty database.", target.From)
	case used != "" && target.To == "" && m.to.StoreID() == m.from.StoreID():
		return finished, nil // killed before the source was marked, or used since: the comparison shows it
	case used != "" && m.to.StoreID() != m.from.StoreID():
		return begun, fault.New(fault.Conflict, "The target already has the data of another Lilac (in the table %s). It was not changed. Choose an empty database, or a schema with ?search_path=NAME.", used)
	}
	return begun, m.to.BeginMove(ctx, m.from.StoreID(), m.tables)
}

// used returns the name of a table that has rows which a first start does not write, or "".
func (m *mover) used(ctx context.Context, d *db.DB) (table string, err error) {
	err = d.Read(ctx, func(q db.Queryer) error {
		for _, t := range m.tables {
			var n int
			if err := q.QueryRow("SELECT count(*) FROM (SELECT 1 FROM " + t.Name + " LIMIT 1) first").Scan(&n); err != nil {
				return err
			}
			if n > 0 {
				table = t.Name
				return nil
			}
		}
		return nil
	})
	return table, err
}

func (m *mover) count(ctx context.Context) (map[string]int64, error) {
	out := map[string]int64{}
	err := m.from.Read(ctx, func(q db.Queryer) error {
		for _, t := range m.tables {
			var n int64
			if err := q.QueryRow("SELECT count(*) FROM " + t.Name).Scan(&n); err != nil {
				return err
			}
			out[t.Name] = n
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count the rows: %w", err)
	}
	return out, nil
}
