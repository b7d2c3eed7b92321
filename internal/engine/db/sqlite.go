package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
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

// sqliteTables creates the tables of this package.
var sqliteTables = fmt.Sprintf(`
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, applied_at INTEGER NOT NULL) STRICT;
PRAGMA application_id=%d; PRAGMA user_version=%d`, applicationID, formatVersion)

// sqliteEngine is a SQLite file with one connection for writes and a pool for reads.
type sqliteEngine struct {
	path        string
	synchronous string
	locations   []location

	writeDB *sql.DB
	readDB  *sql.DB
	write   *sqliteConn
	relaxed bool // the durability of the current transaction
	onPlan  func(statement string, steps []string)
}

// openSQLite inspects, opens, and migrates the database in the data directory.
func (d *DB) openSQLite(ctx context.Context, readers int) error {
	path := filepath.Join(d.opt.Dir, FileName)
	applied, err := inspect(ctx, path, d.opt.Migrations)
	if err != nil {
		return err
	}
	d.notePending(applied)
	// SQLite gives the files beside the database the owner of the database.
	if f, err := createFile(path); err == nil {
		_ = f.Close()
	} else if !errors.Is(err, fs.ErrExist) {
		return fileFault(path, err)
	}
	e := &sqliteEngine{path: path, synchronous: d.opt.Synchronous, onPlan: d.opt.OnPlan}
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
	e.write = newSQLiteConn(c, e.onPlan)
	if err := os.Chmod(path, 0o600); err != nil {
		return fmt.Errorf("protect database: %w", err)
	}
	if len(d.pending) == 0 {
		err = d.migrate(sqliteTables)
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

func (e *sqliteEngine) writer() conn { return e.write }

func (e *sqliteEngine) begin(relaxed bool) error {
	if err := e.setDurability(relaxed); err != nil {
		return err
	}
	return e.control("BEGIN IMMEDIATE")
}

func (e *sqliteEngine) commit() error { return e.control("COMMIT") }

// rollback ignores the error of a transaction that SQLite has already rolled back, which
// it does after some errors.
func (e *sqliteEngine) rollback() { _ = e.control("ROLLBACK") }

// outcome is not called: no commit of SQLite has an unknown outcome.
func (e *sqliteEngine) outcome() (committed bool, err error) { return false, nil }

// control runs a statement that begins or ends a transaction.
func (e *sqliteEngine) control(statement string) error {
	if _, err := e.write.exec(context.Background(), statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

func (e *sqliteEngine) migrating(m Migration) string { return m.SQL }

func (e *sqliteEngine) classify(err error) error { return writeFault(err) }

func (e *sqliteEngine) transient(error) bool { return false }

func (e *sqliteEngine) openReader(ctx context.Context) (conn, error) {
	c, err := e.readDB.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return newSQLiteConn(c, e.onPlan), nil
}

// setDurability sets, between two transactions, whether a commit waits for the disk.
func (e *sqliteEngine) setDurability(relaxed bool) error {
	if relaxed == e.relaxed {
		return nil
	}
	mode := e.synchronous
	if relaxed && mode == "FULL" {
		mode = "NORMAL"
	}
	if _, err := e.write.conn.ExecContext(context.Background(), "PRAGMA synchronous="+mode); err != nil {
		return err
	}
	e.relaxed = relaxed
	return nil
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
