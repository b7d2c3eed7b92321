package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

const (
	// checkpointPages moves the write-ahead log into the database every 16 MB: rarely
	// enough not to slow down writes, often enough that a start stays quick.
	checkpointPages = 4000
	// logSizeLimit is the size in bytes to which the log is truncated after it grew.
	logSizeLimit = 64 << 20
	// writerCacheKiB holds the pages that a thousand live outputs write to. The default
	// of 2 MB reads them back from the log again and again.
	writerCacheKiB = 8000
)

// sqliteEngine is a SQLite file with one connection for writes and a pool for reads.
type sqliteEngine struct {
	path        string
	synchronous string
	locations   []location

	writeDB *sql.DB
	readDB  *sql.DB
	write   *sqliteConn
}

// openSQLite inspects, opens, and migrates the database.
func (d *DB) openSQLite(ctx context.Context, path string, readers int) error {
	applied, err := inspect(ctx, path, d.opt.Migrations)
	if err != nil {
		return err
	}
	for _, m := range d.opt.Migrations {
		if d.opt.SkipMigrations && !applied[m.Name] {
			d.pending = append(d.pending, m.Name)
		}
	}
	e := &sqliteEngine{path: path, synchronous: d.opt.Synchronous}
	d.engine = e
	// synchronous=FULL syncs the log at every commit: "accepted" means on disk. The
	// busy timeout covers a checkpoint by another connection of this process.
	// temp_store=MEMORY keeps the statement journal in memory; SQLite would otherwise
	// create and remove a file for each larger transaction.
	e.writeDB = openPool(path, 1,
		"_txlock=immediate", "_pragma=busy_timeout(5000)", "_pragma=journal_mode(WAL)",
		"_pragma=synchronous("+e.synchronous+")", "_pragma=foreign_keys(1)",
		"_pragma=temp_store(MEMORY)", fmt.Sprintf("_pragma=cache_size(-%d)", writerCacheKiB),
		fmt.Sprintf("_pragma=wal_autocheckpoint(%d)", checkpointPages),
		fmt.Sprintf("_pragma=journal_size_limit(%d)", logSizeLimit))
	c, err := e.writeDB.Conn(ctx)
	if err != nil {
		return fileFault(path, err)
	}
	e.write = newSQLiteConn(c)
	if err := os.Chmod(path, 0o600); err != nil {
		return fmt.Errorf("protect database: %w", err)
	}
	if len(d.pending) == 0 {
		err = d.migrate(c)
	} else {
		err = e.createLog(ctx)
	}
	if err != nil {
		return err
	}
	if err := e.recordLocations(d.opt.Dir); err != nil {
		return err
	}
	e.readDB = openPool(path, readers, "mode=ro", "_pragma=busy_timeout(5000)", "_pragma=query_only(1)")
	return nil
}

// createLog makes SQLite create the write-ahead log. A restored copy has none until
// the first read or write.
func (e *sqliteEngine) createLog(ctx context.Context) error {
	var tables int64
	if err := e.write.conn.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master").Scan(&tables); err != nil {
		return fileFault(e.path, err)
	}
	return nil
}

func openPool(path string, size int, params ...string) *sql.DB {
	dsn := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: strings.Join(params, "&")}
	pool, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		panic("the driver sqlite is linked in: " + err.Error())
	}
	pool.SetMaxOpenConns(size)
	pool.SetMaxIdleConns(size)
	return pool
}

func (e *sqliteEngine) writer() conn       { return e.write }
func (e *sqliteEngine) beginWrite() string { return "BEGIN IMMEDIATE" }

func (e *sqliteEngine) openReader(ctx context.Context) (conn, error) {
	c, err := e.readDB.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return newSQLiteConn(c), nil
}

func (e *sqliteEngine) setDurability(relaxed bool) error {
	mode := e.synchronous
	if relaxed && mode == "FULL" {
		mode = "NORMAL"
	}
	_, err := e.write.conn.ExecContext(context.Background(), "PRAGMA synchronous="+mode)
	return err
}

func (e *sqliteEngine) integrityErrors(q Queryer) (bad []string, err error) {
	rows, err := q.Query("PRAGMA integrity_check(100)")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return bad, err
		}
		if line != "ok" {
			bad = append(bad, line)
		}
	}
	return bad, rows.Err()
}

func (e *sqliteEngine) close() error {
	var errs []error
	if e.readDB != nil {
		errs = append(errs, e.readDB.Close())
	}
	if e.write != nil {
		errs = append(errs, e.write.close())
	}
	if e.writeDB != nil {
		errs = append(errs, e.writeDB.Close())
	}
	return errors.Join(errs...)
}
