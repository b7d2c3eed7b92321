package db

import (
	"context"
	"database/sql"
	"fmt"
)

// Migration is one change of the tables. Its name is recorded and never reused. It
// begins with the name of its package ("bus.0001-log").
type Migration struct {
	Name string
	SQL  string
	// Then runs in the same transaction after SQL, for changes that SQL cannot express.
	// It may be nil.
	Then func(tx *Tx) error
}

const ownTables = `
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, applied_at INTEGER NOT NULL) STRICT;
`

// migrate applies the migrations that are missing in one transaction: a crash leaves
// either the old tables or the new ones.
func (d *DB) migrate(c *sql.Conn) (err error) {
	ctx := context.Background()
	if _, err := c.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("begin migrations: %w", err)
	}
	defer func() {
		if err != nil {
			c.ExecContext(ctx, "ROLLBACK")
		}
		if isFull(err) {
			err = writeFault(err)
		}
	}()
	setup := fmt.Sprintf("%s; PRAGMA application_id=%d; PRAGMA user_version=%d", ownTables, applicationID, formatVersion)
	if _, err := c.ExecContext(ctx, setup); err != nil {
		return fmt.Errorf("create the tables of migrations: %w", err)
	}
	for _, m := range d.opt.Migrations {
		if err := d.apply(ctx, c, m); err != nil {
			return fmt.Errorf("apply migration %q: %w", m.Name, err)
		}
	}
	if _, err := c.ExecContext(ctx, "INSERT INTO meta (name, value) VALUES ('store_id', ?) ON CONFLICT DO NOTHING", newStoreID()); err != nil {
		return fmt.Errorf("write store id: %w", err)
	}
	if err := c.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = 'store_id'").Scan(&d.storeID); err != nil {
		return fmt.Errorf("read store id: %w", err)
	}
	if _, err := c.ExecContext(ctx, "COMMIT"); err != nil {
		return fmt.Errorf("commit migrations: %w", err)
	}
	return nil
}

func (d *DB) apply(ctx context.Context, c *sql.Conn, m Migration) error {
	var applied bool
	if err := c.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM migrations WHERE name = ?)", m.Name).Scan(&applied); err != nil {
		return err
	}
	if applied {
		return nil
	}
	if _, err := c.ExecContext(ctx, m.SQL); err != nil {
		return err
	}
	if m.Then != nil {
		if err := (&Tx{d: d, now: d.opt.Now()}).run(m.Then); err != nil {
			return err
		}
	}
	_, err := c.ExecContext(ctx, "INSERT INTO migrations (name, applied_at) VALUES (?, ?)", m.Name, d.opt.Now().UnixMilli())
	return err
}
