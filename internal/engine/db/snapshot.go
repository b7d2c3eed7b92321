package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	sqlite3 "modernc.org/sqlite/lib"

	"lilac/internal/foundation/fault"
)

// Snapshot writes the database of a data directory, as it is at one moment,
// into a new file, and checks that file. It works while another process owns
// the directory, which goes on writing, and when none does. No room for the file
// is [syscall.ENOSPC].
func Snapshot(ctx context.Context, dir, into string) (storeID string, err error) {
	path := filepath.Join(dir, FileName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", fault.New(fault.NotFound, "There is no database in %s.", dir)
	} else if err != nil {
		return "", fmt.Errorf("look at database: %w", err)
	}
	pool := openPool(path, 1, "mode=rw", "_pragma=busy_timeout(30000)")
	defer pool.Close()
	if err := checkOurs(ctx, pool, path); err != nil {
		const write = 2
		if errors.Is(syscall.Access(dir, write), syscall.EROFS) {
			return "", fault.Wrap(fault.Unavailable, err, "The file system of %s is read-only, and SQLite reads a database only where it can write beside it. Copy the directory to another disk, and save that copy with --data.", dir)
		}
		return "", err
	}
	if _, err := pool.ExecContext(ctx, "VACUUM INTO ?", into); err != nil {
		if isCode(err, sqlite3.SQLITE_FULL) {
			err = fmt.Errorf("%w: %w", syscall.ENOSPC, err)
		}
		return "", fmt.Errorf("copy database: %w", err)
	}
	if err := os.Chmod(into, 0o600); err != nil {
		return "", fmt.Errorf("protect copy: %w", err)
	}
	return Check(ctx, into)
}

// Check reads a whole database file that nobody uses and says what is wrong
// with it. It returns the id of the store.
func Check(ctx context.Context, path string) (storeID string, err error) {
	pool := openPool(path, 1, "mode=ro", "immutable=1")
	defer pool.Close()
	if err := checkOurs(ctx, pool, path); err != nil {
		return "", err
	}
	var verdict string
	if err := pool.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&verdict); err != nil {
		return "", damagedFile(path, err)
	}
	if verdict != "ok" {
		return "", damagedFile(path, errors.New(verdict))
	}
	if err := pool.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = 'store_id'").Scan(&storeID); err != nil {
		return "", damagedFile(path, err)
	}
	return storeID, nil
}

// checkOurs refuses a database of another program, or of a newer one of ours.
func checkOurs(ctx context.Context, pool *sql.DB, path string) error {
	var app, version int64
	for pragma, into := range map[string]*int64{"PRAGMA application_id": &app, "PRAGMA user_version": &version} {
		if err := pool.QueryRowContext(ctx, pragma).Scan(into); err != nil {
			return damagedFile(path, err)
		}
	}
	switch {
	case app != applicationID:
		return &fault.Error{Kind: fault.Conflict, Code: "foreign_database", Message: fmt.Sprintf(
			"The file %s is a database, but not one of Lilac's. It was not touched.", path)}
	case version > formatVersion:
		return newer(path, fmt.Sprintf("format %d", version))
	}
	return nil
}
