package doctor_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/redisbus"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/operate/doctor"
	"lilac/internal/store"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/redistest"
)

// examineBus retries if the machine was too busy to connect in time.
func examineBus(t *testing.T, p doctor.Patient) (f doctor.Finding) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if f = examine(t, p, "bus"); !strings.Contains(f.Message, "deadline exceeded") && !strings.Contains(f.Message, "i/o timeout") {
			break
		}
	}
	return f
}

// With Redis, a deep check reads the entries there and the rows that are waiting to be sent to it.
func TestADeepLookFindsWhatIsDamagedInRedis(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	p := patient(t, map[string]string{"LILAC_BUS_URL": server.URL()}, "")
	p.Deep = true
	database, err := db.Open(t.Context(), db.Options{Dir: p.Config.DataDir, Migrations: slices.Concat(redisbus.Migrations, store.Migrations)})
	if err != nil {
		t.Fatal(err)
	}
	b, err := redisbus.Open(t.Context(), database, redisbus.Options{URL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(t.Context(), bustest.Events("env", "e", 3)...); err != nil {
		t.Fatal(err)
	}
	b.Close()
	// This damaged row was not sent before the program ended.
	err = database.Update(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec("INSERT INTO redis_outgoing (topic, id, head, data, sum) VALUES ('env', 'waits', x'7b7d', x'7b7d', 7)")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := database.Close(); err != nil {
		t.Fatal(err)
	}
	check(t, examineBus(t, p), doctor.OK, "all entries are intact")
	check(t, examine(t, p, "database"), doctor.Fail, "1 damaged rows or files; the first: The row 1 of the table redis_outgoing")
	server.Do("HDEL", "lilac:i:env", "e1")
	check(t, examineBus(t, p), doctor.Fail, "damaged in Redis: 2, the first: The topic env")
}

// A prefix belongs to the data directory that first used it; a start with another directory is
// refused.
func TestAPrefixOfAnotherStoreIsNamed(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	p := patient(t, map[string]string{"LILAC_BUS_URL": server.URL()}, "")
	check(t, examineBus(t, p), doctor.OK, "0 topics")
	owner, err := db.Open(t.Context(), db.Options{Dir: p.Config.DataDir, Migrations: slices.Concat(redisbus.Migrations, store.Migrations)})
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	b, err := redisbus.Open(t.Context(), owner, redisbus.Options{URL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	check(t, examineBus(t, p), doctor.OK, "Redis") // also while Redis is in use

	other := patient(t, map[string]string{"LILAC_BUS_URL": server.URL()}, "")
	for _, when := range []string{"without a database", "with one"} {
		f := examineBus(t, other)
		check(t, f, doctor.Fail, `prefix "lilac" belongs to another store (`+owner.StoreID()+`)`)
		if !strings.Contains(f.Advice, "bus.prefix") || !strings.Contains(f.Advice, "dataDir") {
			t.Errorf("%s the advice is %q", when, f.Advice)
		}
		second, err := db.Open(t.Context(), db.Options{Dir: other.Config.DataDir, Migrations: slices.Concat(redisbus.Migrations, store.Migrations)})
		if err != nil {
			t.Fatal(err)
		}
		if err := second.Close(); err != nil {
			t.Fatal(err)
		}
	}
	other.Config.Bus.Prefix = "mine"
	check(t, examineBus(t, other), doctor.OK, "0 topics")
}

// The finding names the certificate as the cause, so that users don't search for a network
// problem.
func TestACertificateThatIsNotTrustedIsNamed(t *testing.T) {
	server := redistest.Start(t, redistest.Options{TLS: true})
	p := patient(t, map[string]string{"LILAC_BUS_URL": server.URL()}, "")
	f := examineBus(t, p)
	check(t, f, doctor.Fail, "certificate signed by unknown authority")
	if !strings.Contains(f.Advice, "bus.caFile") {
		t.Errorf("the advice is %q", f.Advice)
	}
}

// Redis answers all queries of the check but rejects writes.
func TestARedisThatTakesNoEventsIsNamed(t *testing.T) {
	server := redistest.Start(t, redistest.Options{Config: []string{"save 3600 1000000"}})
	p := patient(t, map[string]string{"LILAC_BUS_URL": server.URL()}, "")
	server.Do("CONFIG", "SET", "maxmemory", "100mb")
	check(t, examineBus(t, p), doctor.OK, "Redis")
	server.Do("CONFIG", "SET", "maxmemory", "6mb")
	check(t, examineBus(t, p), doctor.Fail, "used up its memory (maxmemory 6.00M)")
	server.Do("CONFIG", "SET", "maxmemory", "0")
	server.Do("CONFIG", "SET", "min-replicas-to-write", "1")
	check(t, examineBus(t, p), doctor.Fail, "too few replicas")
	server.Do("CONFIG", "SET", "min-replicas-to-write", "0")
	failSnapshot(t, server)
	check(t, examineBus(t, p), doctor.Fail, "its last save to the disk failed")
	server.Do("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
	check(t, examineBus(t, p), doctor.OK, "Redis")
	server.Do("REPLICAOF", "127.0.0.1", "1")
	f := examineBus(t, p)
	if check(t, f, doctor.Fail, "is a replica"); !strings.Contains(f.Advice, "Name its primary in bus.url") {
		t.Errorf("the advice is %q", f.Advice)
	}
	if keys := server.Do("DBSIZE"); keys != int64(0) {
		t.Errorf("looking left %v keys", keys)
	}
}

// failSnapshot makes saving fail: it puts a directory at the path of the snapshot file.
func failSnapshot(t *testing.T, server *redistest.Server) {
	t.Helper()
	dir := server.Do("CONFIG", "GET", "dir").([]any)[1].(string)
	if err := os.MkdirAll(filepath.Join(dir, "dump.rdb", "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	server.Do("BGSAVE")
	for end := time.Now().Add(time.Minute); !strings.Contains(server.Do("INFO", "persistence").(string), "rdb_last_bgsave_status:err"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the save did not fail")
		}
	}
}

// A start would be refused, because the previous engine still has unhandled events.
func TestAnEngineThatCannotBeLeftIsNamed(t *testing.T) {
	p := patient(t, nil, "")
	database, err := db.Open(t.Context(), db.Options{Dir: p.Config.DataDir, Migrations: slices.Concat(redisbus.Migrations, store.Migrations)})
	if err != nil {
		t.Fatal(err)
	}
	b, err := sqlitebus.New(database, sqlitebus.Options{TrimEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Declare(t.Context(), bus.Subscription{Topic: "env", Group: "g"}); err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(t.Context(), bustest.Events("env", "e", 3)...); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.Close(), database.Close()); err != nil {
		t.Fatal(err)
	}
	check(t, examine(t, p, "database"), doctor.OK, "lilac.db")
	p.Config.Bus.URL = "redis://127.0.0.1:1"
	check(t, examine(t, p, "database"), doctor.Fail, "3 events in the bus that was used before (sqlite) were not handled")
}
