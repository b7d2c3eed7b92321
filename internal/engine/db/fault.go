package db

import (
	"context"
	"errors"
	"strings"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/osfile"
)

// IsEngineError reports whether an error comes from the engine, which may have ended
// the transaction: a closure that continued would write outside it.
func IsEngineError(err error) bool { return isSQLiteError(err) || isPostgresError(err) }

// isFull reports whether the disk of the database is full.
func isFull(err error) bool {
	return osfile.IsFull(err) || isSQLiteFull(err) || isPostgresFull(err)
}

// IsOutage reports whether an error is a failure of the database itself, such as a full disk, a server that
// cannot be reached, or a table that somebody has locked. What was to be written is not at fault.
func IsOutage(err error) bool {
	return isFull(err) || strings.HasPrefix(fault.ToWire(err).Code, "database_")
}

// waitedFor returns the error of a caller whose turn did not come before its context ended.
func waitedFor(ctx context.Context) error {
	if err := ctx.Err(); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &fault.Error{Kind: fault.Unavailable, Code: "database_slow", Message: "The database does not answer in time. Check its load, its locks, and its disk.", Err: ctx.Err()}
}
