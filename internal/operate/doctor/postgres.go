package doctor

import (
	"context"
	"fmt"
	"net/url"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/osfile"
	"lilac/internal/operate/config"
)

// postgres checks a database on PostgreSQL. It changes nothing, and does not disturb the process
// that owns the database.
func (p Patient) postgres(ctx context.Context, _ bool) Finding {
	const check = "database"
	info, err := db.ExamineServer(ctx, p.Config.Database.URL.Reveal(), migrations())
	standby := p.Deep && fault.ToWire(err).Code == "database_read_only" // good enough to verify the rows
	if err != nil && !standby {
		return refused(check, err)
	}
	where := fmt.Sprintf("PostgreSQL %s at %s", info.Version, p.Config.Database.URL)
	switch {
	case info.Owner != "":
		where += "; the active process is " + info.Owner
	case info.Empty:
		return Finding{check, OK, where + "; empty: the first start creates the tables", ""}
	}
	if info.Standbys > 0 {
		where += fmt.Sprintf("; synchronous standbys: %d", info.Standbys)
	}
	database, err := openAsItIs(ctx, p.location())
	if err != nil {
		return refused(check, err)
	}
	defer database.Close()
	f := p.contents(ctx, database, where)
	if f.Status != OK {
		return f
	}
	if file := exposedFile(p.Config.Database.URL.Reveal()); file != "" {
		return Finding{check, Warn, "other users can read " + file + ", which LILAC_DB_URL names", "chmod 600 " + file}
	}
	if standby {
		return Finding{check, Warn, f.Message + ", but the server is read-only", "To start Lilac on it, promote it, or make it writable."}
	}
	return f
}

// exposedFile returns the first file of a URL with a key or passwords that other users can read, or "".
// Programs with libpq refuse such a file.
func exposedFile(databaseURL string) string {
	address, err := url.Parse(databaseURL)
	if err != nil || !osfile.HasModes {
		return ""
	}
	for _, name := range []string{"sslkey", "passfile"} {
		if file := address.Query().Get(name); file != "" && othersCanRead(file) {
			return file
		}
	}
	return ""
}

func (p Patient) location() config.Location {
	return config.Location{DataDir: p.Config.DataDir, Database: p.Config.Database.URL}
}

// storeID returns the identity of the database, or "" if there is none.
func (p Patient) storeID(ctx context.Context) (string, error) {
	if !p.Config.Database.URL.Postgres() {
		return db.ReadStoreID(ctx, p.Config.DataDir)
	}
	database, err := openAsItIs(ctx, p.location())
	if fault.KindOf(err) == fault.NotFound {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer database.Close()
	return database.StoreID(), nil
}
