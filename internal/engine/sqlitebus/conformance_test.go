package sqlitebus_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lilac/internal/engine/db"
	"lilac/internal/engine/delivery"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/dbtest"
)

func TestMain(m *testing.M) {
	if bustest.RunChild(openChild, childPublish) {
		return
	}
	goleak.VerifyTestMain(dbtest.Engines(m))
}

func TestConformance(t *testing.T) {
	bustest.Run(t, func(t testing.TB) bustest.Engine {
		return storage{dir: t.TempDir(), skew: new(atomic.Int64), times: delivery.Options{Grace: 20 * time.Millisecond}}.open(t)
	})
}

// storage is the storage and the clock of an engine.
type storage struct {
	dir   string
	sync  string // as in [db.Options]
	skew  *atomic.Int64
	times delivery.Options
}

func (s storage) now() time.Time { return time.Now().Add(time.Duration(s.skew.Load())) }

func (s storage) open(t testing.TB) bustest.Engine {
	t.Helper()
	database, err := db.Open(context.Background(), dbtest.Options(db.Options{Dir: s.dir, Migrations: sqlitebus.Migrations, Now: s.now, Synchronous: s.sync}))
	if err != nil {
		t.Fatalf("open database: %v", err)
	}
	return s.openOn(t, database)
}

func (s storage) openOn(t testing.TB, database *db.DB) bustest.Engine {
	t.Helper()
	opt := s.times
	opt.Now, opt.TrimEvery = s.now, -1
	b, err := sqlitebus.New(database, opt)
	if err != nil {
		t.Fatalf("open bus: %v", err)
	}
	t.Cleanup(func() { closeBus(t, database, b) })
	return bustest.Engine{
		Bus: b, DB: database,
		Abilities: bustest.Abilities{SharedTransaction: true},
		LoseOutputs: func(t testing.TB) bustest.Engine {
			s.skew.Add(int64(48 * time.Hour))
			if _, err := b.Trim(context.Background()); err != nil {
				t.Fatal(err)
			}
			closeBus(t, database, b)
			return s.open(t)
		},
		Advance: func(d time.Duration) { s.skew.Add(int64(d)) },
		Restart: func(t testing.TB) bustest.Engine {
			closeBus(t, database, b)
			return s.open(t)
		},
		Close: func(t testing.TB) { closeBus(t, database, b) },
		Reopen: func(t testing.TB) bustest.Engine {
			if err := b.Close(); err != nil {
				t.Errorf("close bus: %v", err)
			}
			return s.openOn(t, database)
		},
	}
}

func openBus(t testing.TB, dir string, dbOpt db.Options, opt sqlitebus.Options) (*db.DB, *sqlitebus.Bus) {
	t.Helper()
	dbOpt.Dir, dbOpt.Migrations = dir, sqlitebus.Migrations
	database, err := db.Open(context.Background(), dbtest.Options(dbOpt))
	if err != nil {
		t.Fatalf("open database: %v", err)
	}
	b, err := sqlitebus.New(database, opt)
	if err != nil {
		t.Fatalf("open bus: %v", err)
	}
	t.Cleanup(func() { closeBus(t, database, b) })
	return database, b
}

func closeBus(t testing.TB, database *db.DB, b *sqlitebus.Bus) {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Errorf("close bus: %v", err)
	}
	if err := database.Close(); err != nil {
		t.Errorf("close database: %v", err)
	}
}
