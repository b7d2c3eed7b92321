package db

import (
	"context"
	"fmt"
)

// Migration is one change of the tables. Its name is recorded and never reused. It
// begins with the name of its package ("bus.0001-log").
type Migration struct {
	Name string
	// SQL is in the dialect of SQLite. The PostgreSQL engine translates types and table
	// options.
	SQL string
	// Postgres replaces SQL on PostgreSQL where a translation is not enough. A database
	// on PostgreSQL begins with all migrations, so changes of existing rows that are
	// older than it can be left out.
	Postgres string
	// Then runs in the same transaction after SQL, for changes that SQL cannot express.
	// It may be nil.
	Then func(tx *Tx) error
}

// PostgresTables translates statements that define tables, for a [Migration.Postgres]
// that has more to say.
func PostgresTables(tables string) string { return toPostgresSchema(tables) }

// notePending records the migrations that [Options.SkipMigrations] skips.
func (d *DB) notePending(applied map[string]bool) {
	for _, m := range d.opt.Migrations {
		if d.opt.SkipMigrations && !applied[m.Name] {
			d.pending = append(d.pending, m.Name)
		}
	}
}

// migrate applies the migrations that are missing in one transaction: a crash leaves
// either the old tables or the new ones. setup creates the tables of this package.
func (d *DB) migrate(setup string) (err error) {
	ctx := context.Background()
	if err := d.engine.begin(false); err != nil {
		return d.engine.classify(fmt.Errorf("begin migrations: %w", err))
	}
	c := d.engine.writer()
	defer func() {
		if err != nil {
			d.engine.rollback()
		}
		if isFull(err) {
			err = d.engine.classify(err)
		}
	}()
	if err := c.script(ctx, setup); err != nil {
		return fmt.Errorf("create the tables of migrations: %w", err)
	}
	for _, m := range d.opt.Migrations {
		if err := d.apply(ctx, c, m); err != nil {
			return fmt.Errorf("apply migration %q: %w", m.Name, err)
		}
	}
	if _, err := c.exec(ctx, "INSERT INTO meta (name, value) VALUES ('store_id', ?) ON CONFLICT (name) DO NOTHING", newStoreID()); err != nil {
		return fmt.Errorf("write store id: %w", err)
	}
	if err := c.queryRow(ctx, "SELECT value FROM meta WHERE name = 'store_id'").Scan(&d.storeID); err != nil {
		return fmt.Errorf("read store id: %w", err)
	}
	if err := d.engine.commit(); err != nil {
		return fmt.Errorf("commit migrations: %w", err)
	}
	return nil
}

func (d *DB) apply(ctx context.Context, c conn, m Migration) error {
	var applied int
	if err := c.queryRow(ctx, "SELECT count(*) FROM migrations WHERE name = ?", m.Name).Scan(&applied); err != nil {
		return err
	}
	if applied > 0 {
		return nil
	}
	if err := c.script(ctx, d.engine.migrating(m)); err != nil {
		return err
	}
	if m.Then != nil {
		if err := (&Tx{d: d, conn: c, now: d.opt.Now()}).run(m.Then); err != nil {
			return err
		}
	}
	_, err := c.exec(ctx, "INSERT INTO migrations (name, applied_at) VALUES (?, ?)", m.Name, d.opt.Now().UnixMilli())
	return err
}
