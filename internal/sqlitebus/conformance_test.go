package sqlitebus_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lilac/internal/bustest"
	"lilac/internal/db"
	"lilac/internal/sqlitebus"
)

func TestMain(m *testing.M) {
	if bustest.RunChild(openChild, childPublish) {
		return
	}
	goleak.VerifyTestMain(m)
}

func TestConformance(t *testing.T) {
	bustest.Run(t, func(t testing.TB) bustest.Engine {
		skew := new(atomic.Int64)
		return openEngine(t, t.TempDir(), skew)
	})
}

func openEngine(t testing.TB, dir string, skew *atomic.Int64) bustest.Engine {
	t.Helper()
	now := func() time.Time { return time.Now().Add(time.Duration(skew.Load())) }
	database, b := openBus(t, dir, db.Options{Now: now}, sqlitebus.Options{Now: now, TrimEvery: -1, Grace: 20 * time.Millisecond})
	return bustest.Engine{
		Bus: b, DB: database,
		Abilities: bustest.Abilities{SharedTransaction: true},
		LoseOutputs: func(t testing.TB) bustest.Engine {
			skew.Add(int64(48 * time.Hour))
			if _, err := b.Trim(context.Background()); err != nil {
				t.Fatal(err)
			}
			closeBus(t, database, b)
			return openEngine(t, dir, skew)
		},
		Advance: func(d time.Duration) { skew.Add(int64(d)) },
		Restart: func(t testing.TB) bustest.Engine {
			closeBus(t, database, b)
			return openEngine(t, dir, skew)
		},
	}
}

func openBus(t testing.TB, dir string, dbOpt db.Options, opt sqlitebus.Options) (*db.DB, *sqlitebus.Bus) {
	t.Helper()
	dbOpt.Dir, dbOpt.Migrations = dir, sqlitebus.Migrations
	database, err := db.Open(context.Background(), dbOpt)
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
