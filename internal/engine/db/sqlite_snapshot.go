package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	sqlite3 "modernc.org/sqlite/lib"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/osfile"
)

// Snapshot copies the database of a data directory, as of one moment, to a new file
// and checks the copy. Another process may own the directory and keep writing. If there
// is no space for the copy, the error is [syscall.ENOSPC].
func Snapshot(ctx context.Context, dir, into string) (storeID string, err error) {
	path := filepath.Join(dir, FileName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", fault.New(fault.NotFound, "There is no database in %s.", dir)
	} else if err != nil {
		return "", openFault(path, err)
	}
	pool := openPool(path, 1, "mode=rw", "_pragma=busy_timeout(30000)")
	defer pool.Close()
	if err := checkFormat(ctx, pool, path); err != nil {
		if errors.Is(osfile.CanWrite(dir), syscall.EROFS) {
			return "", fault.Wrap(fault.Unavailable, err, "The file system of %s is read-only, and SQLite can read a database only where it can write beside it. Copy the directory to another disk, and save that copy with --data.", dir)
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
	return CheckFile(ctx, into)
}

// CheckFile reads a whole database file that no process has open, and returns the
// id of the store, or what is wrong with the file.
func CheckFile(ctx context.Context, path string) (storeID string, err error) {
	pool := openPool(path, 1, "mode=ro", "immutable=1")
	defer pool.Close()
	if err := checkFormat(ctx, pool, path); err != nil {
		return "", err
	}
	if err := checkIntegrity(ctx, pool, path, "PRAGMA integrity_check(1)"); err != nil {
		return "", err
	}
	return readStoreID(ctx, pool, path)
}
