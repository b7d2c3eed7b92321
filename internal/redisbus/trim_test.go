package redisbus_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"lilac/internal/bustest"
	"lilac/internal/delivery"
	"lilac/internal/event"
	"lilac/internal/redisbus"
	"lilac/internal/redistest"
)

// D4: whatever happens in whatever order, neither trimming nor a Redis that
// forgets costs an event that a live group has not committed.
func TestTrimmingNeverDropsWork(t *testing.T) {
	sequences := 10
	if bustest.Long() {
		sequences = 10_000
	}
	bustest.Trimming(t, sequences, trimmedOn(redistest.Start(t, redistest.Options{})))
}

// The control of D4: XTRIM MAXLEN, which is what others use, does lose work, and
// so does a Redis that forgets when no rows are kept for it.
func TestControlTrimmingByLengthLosesWork(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	for name, cut := range map[string]func(e bustest.Engine, topic event.Topic, newest int){
		"by length": func(_ bustest.Engine, topic event.Topic, newest int) {
			server.Do("XTRIM", redisbus.DefaultPrefix+":s:"+string(topic), "MAXLEN", fmt.Sprint(newest))
		},
		"all, with the rows": func(e bustest.Engine, _ event.Topic, _ int) {
			forgetRows(t, e.DB)
			e.Forget(true)
		},
	} {
		t.Run(name, func(t *testing.T) { bustest.TrimmingLoses(t, trimmedOn(server), cut) })
	}
}

// trimmedOn opens engines for sequences, one after the other on an empty
// server. What they prove is logic; the syncs of the database would only make it
// slow.
func trimmedOn(server *redistest.Server) func(testing.TB) bustest.Engine {
	return func(t testing.TB) bustest.Engine {
		t.Helper()
		server.FlushAll()
		return storage{
			server: server, prefix: redisbus.DefaultPrefix, dir: t.TempDir(), sync: "OFF", skew: new(atomic.Int64),
			times: delivery.Options{Age: bustest.TrimAge, SilentAfter: bustest.TrimSilence},
		}.open(t)
	}
}
