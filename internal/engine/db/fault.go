package db

import (
	"errors"
	"syscall"
)

// IsEngineError reports whether an error comes from the engine, which may have ended
// the transaction: a closure that continued would write outside it.
func IsEngineError(err error) bool { return isSQLiteError(err) || isPostgresError(err) }

// isFull reports whether the disk of the database is full.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || isSQLiteFull(err) || isPostgresFull(err)
}
