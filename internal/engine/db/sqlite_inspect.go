package db

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"lilac/internal/foundation/fault"
)

const (
	// applicationID ("Lila") distinguishes a damaged database of Lilac from the
	// database of another program.
	applicationID = 0x4c696c61
	// formatVersion is the version of the tables of this package.
	formatVersion = 1
	// quickCheckMax is the size up to which every start checks the whole file, which
	// takes milliseconds. Larger files are checked by doctor.
	quickCheckMax = 4 << 20
)

var magic = []byte("SQLite format 3\x00")

// inspect reads an existing file without writing and returns the migrations that were
// applied, or why this version cannot open the file. A missing or empty file is valid.
func inspect(ctx context.Context, path string, known []Migration) (applied map[string]bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, openFault(path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("stat database: %w", err)
	}
	if info.Size() == 0 {
		return nil, nil
	}
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(f, head); err != nil || !bytes.Equal(head, magic) {
		return nil, fileFault(path, errors.New("it does not begin like a SQLite database"))
	}
	return inspectTables(ctx, path, info.Size(), known)
}

func inspectTables(ctx context.Context, path string, size int64, known []Migration) (applied map[string]bool, err error) {
	pool := openPool(path, 1, "mode=ro", "_pragma=busy_timeout(5000)")
	defer pool.Close()
	var app, tables int64
	for query, into := range map[string]*int64{"PRAGMA application_id": &app, "SELECT count(*) FROM sqlite_master": &tables} {
		if err := pool.QueryRowContext(ctx, query).Scan(into); err != nil {
			return nil, fileFault(path, err)
		}
	}
	if app == 0 && tables == 0 {
		return nil, nil // killed before its first transaction
	}
	if err := checkFormat(ctx, pool, path); err != nil {
		return nil, err
	}
	if size <= quickCheckMax {
		if err := checkIntegrity(ctx, pool, path, "PRAGMA quick_check(1)"); err != nil {
			return nil, err
		}
	}
	return appliedMigrations(ctx, pool, path, known)
}

func appliedMigrations(ctx context.Context, pool *sql.DB, path string, known []Migration) (applied map[string]bool, err error) {
	names := make(map[string]bool, len(known))
	for _, m := range known {
		names[m.Name] = true
	}
	rows, err := pool.QueryContext(ctx, "SELECT name FROM migrations")
	if err != nil {
		return nil, fileFault(path, err)
	}
	defer rows.Close()
	applied = map[string]bool{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, fileFault(path, err)
		}
		if !names[name] {
			return nil, newerFault(path, "the change "+name)
		}
		applied[name] = true
	}
	if err := rows.Err(); err != nil {
		return nil, fileFault(path, err)
	}
	return applied, nil
}

// ReadStoreID reads the [DB.StoreID] of the database of a data directory, even while
// another process has it open. It returns "" if there is no database yet.
func ReadStoreID(ctx context.Context, dir string) (id string, err error) {
	path := filepath.Join(dir, FileName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", openFault(path, err)
	}
	pool := openPool(path, 1, "mode=ro", "_pragma=busy_timeout(5000)")
	defer pool.Close()
	if err := checkFormat(ctx, pool, path); err != nil {
		return "", err
	}
	return readStoreID(ctx, pool, path)
}

func readStoreID(ctx context.Context, pool *sql.DB, path string) (id string, err error) {
	if err := pool.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = 'store_id'").Scan(&id); err != nil {
		return "", fileFault(path, err)
	}
	return id, nil
}

// checkFormat rejects the database of another program or of a newer version.
func checkFormat(ctx context.Context, pool *sql.DB, path string) error {
	var app, version int64
	for pragma, into := range map[string]*int64{"PRAGMA application_id": &app, "PRAGMA user_version": &version} {
		if err := pool.QueryRowContext(ctx, pragma).Scan(into); err != nil {
			return fileFault(path, err)
		}
	}
	switch {
	case app != applicationID:
		return &fault.Error{Kind: fault.Conflict, Code: "foreign_database", Message: fmt.Sprintf(
			"The file %s is a database, but not one of Lilac's. It was not changed.", path)}
	case version > formatVersion:
		return newerFault(path, fmt.Sprintf("format %d", version))
	}
	return nil
}

// checkIntegrity runs a pragma that returns "ok" for a sound database.
func checkIntegrity(ctx context.Context, pool *sql.DB, path, pragma string) error {
	var verdict string
	if err := pool.QueryRowContext(ctx, pragma).Scan(&verdict); err != nil {
		return fileFault(path, err)
	}
	if verdict != "ok" {
		return fileFault(path, errors.New(verdict))
	}
	return nil
}

func newerFault(path, what string) error {
	return &fault.Error{Kind: fault.Conflict, Code: "newer_database", Message: fmt.Sprintf(
		"The database %s was written by a newer version of Lilac (%s). Use that version; the file was not changed.", path, what)}
}

// fileFault wraps an error of reading a database file. It says that the file is
// damaged only if the error shows it: a read that was cancelled or denied says nothing
// about the file.
func fileFault(path string, cause error) error {
	switch {
	case isFull(cause): // not even opened
		return writeFault(cause)
	case errors.Is(cause, context.Canceled), errors.Is(cause, context.DeadlineExceeded):
		return fmt.Errorf("inspect database: %w", cause)
	}
	if e, ok := errors.AsType[*sqlite.Error](cause); ok {
		switch e.Code() & 0xff { // the upper bits hold details
		case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR: // SQLITE_ERROR: a table is missing
		default:
			return fault.Wrap(fault.Unavailable, cause, "The database %s cannot be read", path)
		}
	}
	return &fault.Error{Kind: fault.Conflict, Code: "damaged_database", Err: cause, Message: fmt.Sprintf(
		"The database %s is damaged, or is not a database. It was not changed; restore a copy, or move the file away.", path)}
}
