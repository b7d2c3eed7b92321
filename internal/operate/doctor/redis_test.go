package doctor_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lilac/internal/operate/doctor"
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

// A prefix belongs to the data directory that first used it; another one is told, and starts.
func TestAPrefixOfAnotherStoreIsNamed(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	p := patient(t, map[string]string{"LILAC_BUS_URL": server.URL()}, "")
	check(t, examineBus(t, p), doctor.OK, "Redis")
	server.Do("SET", "lilac:owner", "another-store")
	f := examineBus(t, p)
	check(t, f, doctor.Warn, `prefix "lilac" belongs to another store (another-store)`)
	if !strings.Contains(f.Advice, "bus.prefix") || !strings.Contains(f.Advice, "dataDir") {
		t.Errorf("the advice is %q", f.Advice)
	}
	p.Config.Bus.Prefix = "mine"
	check(t, examineBus(t, p), doctor.OK, "Redis")
}

// Entries of other programs that could not be used are named.
func TestForeignEntriesInRedisAreNamed(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	p := patient(t, map[string]string{"LILAC_BUS_URL": server.URL()}, "")
	server.Do("XADD", "lilac:in:dead", "*", "stream", "lilac:s:env", "entry", "7-1", "reason", "it is foreign")
	f := examineBus(t, p)
	check(t, f, doctor.Warn, "the newest is 7-1 of lilac:s:env: it is foreign")
	if !strings.Contains(f.Advice, "lilac:in:dead") {
		t.Errorf("the advice is %q", f.Advice)
	}
}

// The finding names the certificate as the cause, so that users don't search for a network
// problem.
func TestACertificateThatIsNotTrustedIsNamed(t *testing.T) {
	server := redistest.Start(t, redistest.Options{TLS: true})
	p := patient(t, map[string]string{"LILAC_BUS_URL": server.URL()}, "")
	f := examineBus(t, p)
	check(t, f, doctor.Warn, "certificate signed by unknown authority")
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
	server.Do("CONFIG", "SET", "maxmemory", "1")
	check(t, examineBus(t, p), doctor.Warn, "used up its memory")
	server.Do("CONFIG", "SET", "maxmemory", "0")
	server.Do("CONFIG", "SET", "min-replicas-to-write", "1")
	check(t, examineBus(t, p), doctor.Warn, "too few replicas")
	server.Do("CONFIG", "SET", "min-replicas-to-write", "0")
	failSnapshot(t, server)
	check(t, examineBus(t, p), doctor.Warn, "it cannot save to its disk")
	server.Do("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
	check(t, examineBus(t, p), doctor.OK, "Redis")
	server.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	check(t, examineBus(t, p), doctor.Warn, "maxmemory-policy is allkeys-lru")
	server.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
	server.Do("REPLICAOF", "127.0.0.1", "1")
	f := examineBus(t, p)
	if check(t, f, doctor.Warn, "is a replica"); !strings.Contains(f.Advice, "Name its primary in bus.url") {
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
