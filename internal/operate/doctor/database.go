package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"lilac/internal/engine/db"
	"lilac/internal/engine/longtext"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/osfile"
	"lilac/internal/operate/config"
	"lilac/internal/store"
)

func (p Patient) database(ctx context.Context, running bool) Finding {
	if p.Config.Database.URL.Postgres() {
		return p.postgres(ctx, running)
	}
	const check = "database"
	path := filepath.Join(p.Config.DataDir, db.FileName)
	info, err := os.Stat(path)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return Finding{check, Fail, "cannot open the database: " + fault.Plain(err), asItsUser}
	case err != nil && running:
		return Finding{
			check, Warn, "there is none in " + p.Config.DataDir + ", though a server runs",
			"If this is that server's data directory, the database was taken from it: put all of its files back, or stop the server and restore a backup.",
		}
	case err != nil || info.Size() == 0:
		return p.noDatabase()
	}
	if running {
		f := Finding{check, OK, "in use by the running server", ""}
		if p.Deep {
			f.Status, f.Advice = Warn, "Stop the server for a deep look."
		}
		return f
	}
	database, err := openAsItIs(ctx, p.location())
	if err != nil {
		return Finding{check, Fail, says(err), adviceFor(err)}
	}
	defer database.Close()
	return p.contents(ctx, database, path)
}

// contents checks an open database, which where names.
func (p Patient) contents(ctx context.Context, database *db.DB, where string) Finding {
	const check = "database"
	bad, err := database.Verify(ctx)
	older := len(database.PendingMigrations()) > 0
	if err == nil && p.Deep && !older {
		var found []string
		found, err = damaged(ctx, p.Config, database)
		bad = append(bad, found...)
	}
	switch {
	case err != nil:
		return Finding{check, Fail, "cannot read the whole database: " + fault.Plain(err), "Keep a copy of the data directory, and check the disk."}
	case len(bad) > 0:
		return Finding{check, Fail, fmt.Sprintf("%d damaged rows or files; the first: %s", len(bad), bad[0]), "Keep a copy of the data directory, and restore a backup."}
	case older && p.Deep:
		return Finding{check, Warn, "written by an older version of Lilac; rows not checked", "Check with the version that wrote it, or after the next start, which migrates it."}
	case older:
		return Finding{check, OK, where + "; written by an older version of Lilac; the next start migrates it", ""}
	}
	if p.Deep {
		return Finding{check, OK, "all rows and stored files are intact", ""}
	}
	return Finding{check, OK, where, ""}
}

// noDatabase returns the finding for a data directory without a database. The directory is new,
// unless it contains files that a database refers to.
func (p Patient) noDatabase() Finding {
	if _, err := os.Stat(filepath.Join(p.Config.DataDir, "blobs")); err == nil {
		return Finding{"database", Warn, "missing or empty, although there are stored files", "Restore a backup. Otherwise, the next start creates an empty database."}
	}
	return Finding{"database", OK, "none yet; the first start creates it", ""}
}

// openAsItIs opens a database without migrating it, so that the version of Lilac that wrote it can
// still open it.
func openAsItIs(ctx context.Context, at config.Location) (*db.DB, error) {
	opt := db.Options{Dir: at.DataDir, Migrations: migrations(), SkipMigrations: true}
	if at.Database.Postgres() {
		opt.URL, opt.ReadOnly = at.Database.Reveal(), true
	}
	return db.Open(ctx, opt)
}

func migrations() []db.Migration { return slices.Concat(sqlitebus.Migrations, store.Migrations) }

// damaged reads all rows and the stored files that they refer to, and lists those that are
// damaged.
func damaged(ctx context.Context, c *config.Config, database *db.DB) ([]string, error) {
	b, err := sqlitebus.New(database, sqlitebus.Options{Logger: slog.New(slog.DiscardHandler), TrimEvery: -1})
	if err != nil {
		return nil, fmt.Errorf("open the bus: %w", err)
	}
	defer b.Close()
	bad, err := b.Verify(ctx)
	if err != nil {
		return bad, err
	}
	texts, err := longtext.Verify(ctx, database)
	bad = append(bad, texts...)
	if err != nil {
		return bad, err
	}
	rows, err := store.New(database).Verify(ctx)
	bad = append(bad, rows...)
	if err != nil {
		return bad, err
	}
	bucket, err := config.BlobsBucket(c)
	if err != nil {
		return bad, err
	}
	stored, err := store.New(database).VerifyFiles(ctx, config.BlobsDir(c), bucket)
	return append(bad, stored...), err
}

// asItsUser is the advice for data that the current user may not read.
const asItsUser = "Run this as the user that the server runs as, and look at who owns the data directory."

func adviceFor(err error) string {
	if osfile.IsFull(err) {
		return "Look again when there is room: whether anything is damaged cannot be told before."
	}
	if errors.Is(err, syscall.EROFS) {
		return "Look at the disk, whose file system the kernel makes read-only when it fails, and at how it is mounted. Keep a copy of the data directory before anything else."
	}
	switch fault.ToWire(err).Code {
	case "damaged_database":
		return "Keep a copy of the data directory and restore a backup into an empty one."
	case "database_locked":
		return "Nothing is damaged. Run this again when that program has ended."
	case "newer_database":
		return "Start the newer program, or restore a backup that the older one made into an empty directory."
	case "foreign_database":
		return "Choose another --data, or move that file away."
	}
	switch fault.KindOf(err) {
	case fault.Denied:
		return asItsUser
	case fault.Conflict:
		return "If another Lilac runs on it, stop that one or choose another --data."
	}
	return "Keep a copy of the data directory before anything else."
}
