package db

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"lilac/internal/foundation/fault"
)

const (
	// applicationID marks our files ("Lila"), so that another program's
	// database is not taken for a damaged one of ours.
	applicationID = 0x4c696c61
	// formatVersion is the version of the tables of this package.
	formatVersion = 1
	// quickCheckMax is the size up to which every start checks the whole
	// file; it takes milliseconds. Larger ones are checked by doctor.
	quickCheckMax = 4 << 20
)

var magic = []byte("SQLite format 3\x00")

// inspect looks at an existing file without writing and says why it cannot be
// opened by this program, else which migrations were applied. No file and an empty
// file are fine.
func inspect(ctx context.Context, path string, known []Migration) (applied map[string]bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, unopened(path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at database: %w", err)
	}
	if info.Size() == 0 {
		return nil, nil
	}
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(f, head); err != nil || !bytes.Equal(head, magic) {
		return nil, damagedFile(path, errors.New("it does not begin like a SQLite database"))
	}
	return inspectTables(ctx, path, info.Size(), known)
}

func inspectTables(ctx context.Context, path string, size int64, known []Migration) (applied map[string]bool, err error) {
	pool := openPool(path, 1, "mode=ro", "_pragma=busy_timeout(5000)")
	defer pool.Close()
	var app, version, tables int64
	for pragma, into := range map[string]*int64{
		"PRAGMA application_id": &app, "PRAGMA user_version": &version, "SELECT count(*) FROM sqlite_master": &tables,
	} {
		if err := pool.QueryRowContext(ctx, pragma).Scan(into); err != nil {
			return nil, damagedFile(path, err)
		}
	}
	switch {
	case app == 0 && tables == 0:
		return nil, nil // killed before its first transaction
	case app != applicationID:
		return nil, &fault.Error{Kind: fault.Conflict, Code: "foreign_database", Message: fmt.Sprintf(
			"The file %s is a database, but not one of Lilac's. It was not touched.", path)}
	case version > formatVersion:
		return nil, newer(path, fmt.Sprintf("format %d", version))
	}
	if size <= quickCheckMax {
		var verdict string
		if err := pool.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
			return nil, damagedFile(path, err)
		}
		if verdict != "ok" {
			return nil, damagedFile(path, errors.New(verdict))
		}
	}
	return inspectMigrations(ctx, pool, path, known)
}

func inspectMigrations(ctx context.Context, pool *sql.DB, path string, known []Migration) (applied map[string]bool, err error) {
	names := make(map[string]bool, len(known))
	for _, m := range known {
		names[m.Name] = true
	}
	rows, err := pool.QueryContext(ctx, "SELECT name FROM migrations")
	if err != nil {
		return nil, damagedFile(path, err)
	}
	defer rows.Close()
	applied = map[string]bool{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, damagedFile(path, err)
		}
		if !names[name] {
			return nil, newer(path, "the change "+name)
		}
		applied[name] = true
	}
	if err := rows.Err(); err != nil {
		return nil, damagedFile(path, err)
	}
	return applied, nil
}

// StoreIDIn reads the [DB.StoreID] of the database of a data directory, whoever
// has it open. It is empty when there is none yet.
func StoreIDIn(ctx context.Context, dir string) (id string, err error) {
	path := filepath.Join(dir, FileName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", fmt.Errorf("look at database: %w", err)
	}
	pool := openPool(path, 1, "mode=ro", "_pragma=busy_timeout(5000)")
	defer pool.Close()
	if err := checkOurs(ctx, pool, path); err != nil {
		return "", err
	}
	if err := pool.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = 'store_id'").Scan(&id); err != nil {
		return "", damagedFile(path, err)
	}
	return id, nil
}

func newer(path, what string) error {
	return &fault.Error{Kind: fault.Conflict, Code: "newer_database", Message: fmt.Sprintf(
		"The database %s was written by a newer Lilac (%s). Use that version; the file was not touched.", path, what)}
}

// damagedFile is the error of a file that was looked at, and says that it is damaged
// only if that was seen: a look that was stopped or refused says nothing of the file.
func damagedFile(path string, cause error) error {
	switch {
	case isFull(cause): // it could not even be opened
		return unwritten(cause)
	case errors.Is(cause, context.Canceled), errors.Is(cause, context.DeadlineExceeded):
		return fmt.Errorf("look at database: %w", cause)
	}
	if e, ok := errors.AsType[*sqlite.Error](cause); ok {
		switch e.Code() & 0xff { // the rest of it says where
		case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR: // the last one: a table is missing
		default:
			return fault.Wrap(fault.Unavailable, cause, "The database %s cannot be read", path)
		}
	}
	return &fault.Error{Kind: fault.Conflict, Code: "damaged_database", Err: cause, Message: fmt.Sprintf(
		"The database %s is damaged or is not one. It was not touched; restore a copy or move it away.", path)}
}

func dsn(path string, params ...string) string {
	return (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: strings.Join(params, "&")}).String()
}
