package redisbus_test

import (
	"cmp"
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lilac/internal/engine/db"
	"lilac/internal/engine/delivery"
	"lilac/internal/engine/redisbus"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/redistest"
)

func TestMain(m *testing.M) {
	if bustest.RunChild(openChild, childPublish) {
		return
	}
	goleak.VerifyTestMain(m)
}

// TestConformance runs the whole suite on one server, each case with its own prefix.
func TestConformance(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	var n atomic.Int64
	bustest.Run(t, func(t testing.TB) bustest.Engine {
		return storage{
			server: server, prefix: "case" + strconv.FormatInt(n.Add(1), 10), dir: t.TempDir(), skew: new(atomic.Int64),
			times: delivery.Options{Grace: 20 * time.Millisecond},
		}.open(t)
	})
}

// storage is the storage and the clock of an engine.
type storage struct {
	server *redistest.Server
	prefix string
	dir    string
	sync   string // as in [db.Options]
	skew   *atomic.Int64
	times  delivery.Options
}

func (s storage) now() time.Time { return time.Now().Add(time.Duration(s.skew.Load())) }

func (s storage) open(t testing.TB) bustest.Engine {
	t.Helper()
	database, err := db.Open(context.Background(), db.Options{Dir: s.dir, Migrations: redisbus.Migrations, Now: s.now, Synchronous: s.sync})
	if err != nil {
		t.Fatalf("open database: %v", err)
	}
	return s.openOn(t, database)
}

func (s storage) openOn(t testing.TB, database *db.DB) bustest.Engine {
	t.Helper()
	opt := redisbus.Options{URL: s.server.URL(), Prefix: s.prefix, Options: s.times, ReplyWithin: patience}
	opt.Now, opt.TrimEvery = s.now, -1
	b, err := redisbus.Open(context.Background(), database, opt)
	if err != nil {
		database.Close()
		t.Fatalf("open bus: %v", err)
	}
	t.Cleanup(func() { closeBus(t, database, b) })
	return bustest.Engine{
		Bus: b, DB: database,
		Abilities: bustest.Abilities{SharedTransaction: true, OutputsExpireAlone: true},
		Advance: func(d time.Duration) {
			s.skew.Add(int64(d))
			age(s.server, s.prefix, d)
		},
		LoseOutputs: func(t testing.TB) bustest.Engine {
			closeBus(t, database, b)
			s.server.Do("EVAL", `for _, k in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', k) end`, "0", s.prefix+":*")
			return s.open(t)
		},
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
		Remember: s.server.Remember,
		Forget: func(everything bool) {
			if everything {
				s.server.FlushAll()
			} else {
				s.server.Forget()
			}
		},
	}
}

// age expires the keys below a prefix as if the given time had passed.
func age(server *redistest.Server, prefix string, d time.Duration) {
	server.Do("EVAL", `for _, k in ipairs(redis.call('KEYS', ARGV[1])) do
		local left = redis.call('PTTL', k)
		if left >= 0 then redis.call('PEXPIRE', k, left - tonumber(ARGV[2])) end
	end`, "0", prefix+":*", strconv.FormatInt(d.Milliseconds(), 10))
}

func openBus(t testing.TB, dir string, dbOpt db.Options, opt redisbus.Options) (*db.DB, *redisbus.Bus) {
	t.Helper()
	dbOpt.Dir, dbOpt.Migrations = dir, redisbus.Migrations
	opt.ReplyWithin = cmp.Or(opt.ReplyWithin, patience)
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
