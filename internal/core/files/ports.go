package files

import (
	"context"
	"log/slog"

	"lilac/internal/core/environment"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

// KnownFiles keeps the reported state of files, so that the next start finds the changes
// that happened while the process was down.
type KnownFiles interface {
	// KnownFiles returns the files of a source. known is false if the source had other
	// paths, or if its first scan did not end.
	KnownFiles(q db.Queryer, source, scope string) (files map[string]Stamp, known bool, err error)
	// ForgetFiles removes a source, and MarkScanned records the end of its first
	// scan.
	ForgetFiles(tx *db.Tx, source string) error
	MarkScanned(tx *db.Tx, source, scope string) error
	// PutWatchedFile saves a file, and DeleteWatchedFile removes it.
	PutWatchedFile(tx *db.Tx, source, path string, s Stamp) error
	DeleteWatchedFile(tx *db.Tx, source, path string) error
	// KeepSources removes all sources that are not listed.
	KeepSources(tx *db.Tx, names []string) error
}

// Intake publishes events of sources; see [environment.Intake].
type Intake interface {
	Publish(ctx context.Context, from environment.SourceID, queue int, e event.EnvEvent, also func(*db.Tx) (bool, error)) (published bool, err error)
	Drop(from environment.SourceID, n int64)
	SetTrouble(from environment.SourceID, why string)
}

// Options configure a [Service].
type Options struct {
	DB     *db.DB
	Known  KnownFiles
	Intake Intake
	// Exclude are directories that are never watched.
	Exclude []string
	// AgentWritable are the real paths of directories that the agent may write.
	AgentWritable []string
	Logger        *slog.Logger
}
