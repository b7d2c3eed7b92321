package redisbus_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lilac/internal/bustest"
	"lilac/internal/db"
	"lilac/internal/delivery"
	"lilac/internal/redisbus"
	"lilac/internal/redistest"
)

func TestMain(m *testing.M) {
	if bustest.RunChild(openChild, childPublish) {
		return
	}
	goleak.VerifyTestMain(m)
}

// TestConformance runs the whole suite on one server, each case below a prefix
// of its own.
func TestConformance(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	var n atomic.Int64
	bustest.Run(t, func(t testing.TB) bustest.Engine {
		return openEngine(t, server, "case"+strconv.FormatInt(n.Add(1), 10), t.TempDir(), new(atomic.Int64))
	})
}

func openEngine(t testing.TB, server *redistest.Server, prefix, dir string, skew *atomic.Int64) bustest.Engine {
	t.Helper()
	now := func() time.Time { return time.Now().Add(time.Duration(skew.Load())) }
	database, b := openBus(t, dir, db.Options{Now: now}, redisbus.Options{
		URL: server.URL(), Prefix: prefix,
		Options: delivery.Options{Now: now, TrimEvery: -1, Grace: 20 * time.Millisecond},
	})
	return bustest.Engine{
		Bus: b, DB: database,
		Abilities: bustest.Abilities{SharedTransaction: true, OutputsExpireAlone: true},
		Advance: func(d time.Duration) {
			skew.Add(int64(d))
			age(server, prefix, d)
		},
		LoseOutputs: func(t testing.TB) bustest.Engine {
			closeBus(t, database, b)
			server.Do("EVAL", `for _, k in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', k) end`, "0", prefix+":*")
			return openEngine(t, server, prefix, dir, skew)
		},
		Restart: func(t testing.TB) bustest.Engine {
			closeBus(t, database, b)
			return openEngine(t, server, prefix, dir, skew)
		},
	}
}

// age lets the keys below a prefix expire as if time had passed.
func age(server *redistest.Server, prefix string, d time.Duration) {
	server.Do("EVAL", `for _, k in ipairs(redis.call('KEYS', ARGV[1])) do
		local left = redis.call('PTTL', k)
		if left >= 0 then redis.call('PEXPIRE', k, left - tonumber(ARGV[2])) end
	end`, "0", prefix+":*", strconv.FormatInt(d.Milliseconds(), 10))
}

func openBus(t testing.TB, dir string, dbOpt db.Options, opt redisbus.Options) (*db.DB, *redisbus.Bus) {
	t.Helper()
	dbOpt.Dir, dbOpt.Migrations = dir, redisbus.Migrations
	database, err := db.Open(context.Background(), dbOpt)
	if err != nil {
		t.Fatalf("open database: %v", err)
	}
	b, err := redisbus.Open(context.Background(), database, opt)
	if err != nil {
		database.Close()
		t.Fatalf("open bus: %v", err)
	}
	t.Cleanup(func() { closeBus(t, database, b) })
	return database, b
}

func closeBus(t testing.TB, database *db.DB, b *redisbus.Bus) {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Errorf("close bus: %v", err)
	}
	if err := database.Close(); err != nil {
		t.Errorf("close database: %v", err)
	}
}
