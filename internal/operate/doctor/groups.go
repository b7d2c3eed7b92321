package doctor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
	"lilac/internal/operate/config"
)

const (
	// undoneAfter is the age at which an unhandled event causes a warning about its group.
	undoneAfter = 10 * time.Minute
	// silentApart applies while no server runs, when no group has consumers. A group that has been
	// without a consumer for this much longer than the others is reported as unused.
	silentApart = 24 * time.Hour
)

// groups finds consumer groups of the running server that are stuck or have no consumer.
func (p Patient) groups(ctx context.Context) Finding {
	groups, err := p.Server.Groups(ctx)
	if err != nil {
		advice := ""
		if fault.KindOf(err) == fault.Unauthenticated {
			advice = "Set LILAC_TOKEN to the server's token, or use its data directory."
		}
		return Finding{"groups", Warn, says(err), advice}
	}
	for _, g := range groups {
		waiting, oldest := g.Pending+g.Backlog, time.Duration(g.OldestMS)*time.Millisecond
		undone := waiting > 0 && oldest >= undoneAfter
		message := fmt.Sprintf("the group %s of %s has %s to handle, the oldest for %s", g.Group, g.Topic, text.Count(waiting, "event"), oldest.Round(time.Second))
		switch {
		case undone && g.Active:
			return Finding{"groups", Fail, message, "See its log for the reason. A restart retries the events."}
		case undone:
			return Finding{"groups", Warn, message + ", and has no consumer", "It prevents the removal of old events. " + dropIt(g)}
		case g.Silent() && waiting == 0:
			return Finding{"groups", Warn, "no consumer for " + describeSilent(g), dropIt(g)}
		}
	}
	return Finding{"groups", OK, "no consumer group is stuck", ""}
}

// leftBehind finds groups in the database that have been without a consumer for much longer than
// the other groups.
func (p Patient) leftBehind(ctx context.Context) Finding {
	var all []bus.GroupStatus
	err := WithGroups(ctx, p.location(), false, func(b *sqlitebus.Bus) (err error) {
		all, err = b.Groups(ctx)
		return err
	})
	if err != nil {
		return Finding{"groups", Warn, "cannot read the consumer groups: " + says(err), "See the finding about the database."}
	}
	if len(all) == 0 {
		return Finding{"groups", OK, "none yet", ""}
	}
	least := all[0].SilentMS
	for _, g := range all {
		least = min(least, g.SilentMS)
	}
	for _, g := range all {
		if g.SilentMS-least > silentApart.Milliseconds() {
			return Finding{"groups", Warn, "no consumer for " + describeSilent(g), dropIt(g)}
		}
	}
	return Finding{"groups", OK, "no consumer group is unused", ""}
}

func describeSilent(g bus.GroupStatus) string {
	return fmt.Sprintf("the group %s of %s, for %s now", g.Group, g.Topic, (time.Duration(g.SilentMS) * time.Millisecond).Round(time.Hour))
}

func dropIt(g bus.GroupStatus) string {
	return fmt.Sprintf("If it belongs to something that is gone: lilac groups drop %s %s", g.Topic, g.Group)
}

// WithGroups opens the database that no server has open, and passes its consumer groups to fn.
// The database holds the groups whichever bus engine is configured. WithGroups does nothing if
// there is no database yet. It returns an error for a database that the next start would migrate.
// On PostgreSQL, fn may change groups only with change, for which no other process may be active.
func WithGroups(ctx context.Context, at config.Location, change bool, fn func(b *sqlitebus.Bus) error) error {
	database, err := openForGroups(ctx, at, change)
	if database == nil || err != nil {
		return err
	}
	defer database.close()
	if len(database.PendingMigrations()) > 0 {
		return fault.New(fault.Conflict, "an older Lilac wrote the database: start the server, which brings it up to date, or use that version")
	}
	b, err := sqlitebus.New(database.DB, sqlitebus.Options{Logger: slog.New(slog.DiscardHandler), TrimEvery: -1})
	if err != nil {
		return err
	}
	defer b.Close()
	return fn(b)
}

// owned is an open database and, on PostgreSQL, its ownership.
type owned struct {
	*db.DB
	lease *db.Lease
}

func (o *owned) close() {
	_ = o.Close()
	if o.lease != nil {
		_ = o.lease.Release()
	}
}

// openForGroups returns nil if there is no database.
func openForGroups(ctx context.Context, at config.Location, change bool) (*owned, error) {
	if !at.Database.Postgres() {
		if info, err := os.Stat(filepath.Join(at.DataDir, db.FileName)); err != nil || info.Size() == 0 {
			return nil, nil
		}
	}
	if !at.Database.Postgres() || !change {
		database, err := openAsItIs(ctx, at)
		if fault.KindOf(err) == fault.NotFound {
			return nil, nil
		}
		return &owned{DB: database}, err
	}
	lease, err := db.AwaitLease(ctx, db.LeaseOptions{Dir: at.DataDir, URL: at.Database.Reveal(), Migrations: migrations(), NoWait: true})
	if err != nil {
		return nil, err
	}
	database, err := db.Open(ctx, db.Options{Dir: at.DataDir, URL: at.Database.Reveal(), Lease: lease, Migrations: migrations(), SkipMigrations: true})
	if err != nil {
		return nil, errors.Join(err, lease.Release())
	}
	return &owned{database, lease}, nil
}
