package redisbus_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/delivery"
	"lilac/internal/engine/redisbus"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/redistest"
)

// D4: in any sequence of operations, neither trimming nor a loss in Redis removes an
// event that a live group has not committed.
func TestTrimmingNeverDropsWork(t *testing.T) {
	sequences := 10
	if bustest.Long() {
		sequences = 10_000
	}
	bustest.Trimming(t, sequences, trimmedOn(redistest.Start(t, redistest.Options{})))
}

// Events that a group with a consumer has not committed can be restored to Redis, however
// long Redis was unavailable and however old they are. Only a group without a consumer
// for too long keeps nothing.
func TestALongOutageCostsNoGroupItsEvents(t *testing.T) {
	const weeks = 14 * 24 * time.Hour
	for name, served := range map[string]bool{"a group that is served": true, "control: a group that nobody serves": false} {
		t.Run(name, func(t *testing.T) {
			var passed atomic.Int64
			server := redistest.Start(t, redistest.Options{})
			dir := t.TempDir()
			options := redisbus.Options{URL: server.URL(), Options: delivery.Options{TrimEvery: -1, Now: func() time.Time {
				return time.Now().Add(time.Duration(passed.Load()))
			}}}
			database, b := openBus(t, dir, db.Options{}, options)
			if err := b.Declare(t.Context(), group); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var serving sync.WaitGroup
			begun := make(chan struct{}, 3)
			if served {
				serving.Go(func() {
					_ = b.Subscribe(ctx, group, func(ctx context.Context, _ bus.Delivery) error {
						begun <- struct{}{}
						<-ctx.Done() // it does not come to its end
						return ctx.Err()
					})
				})
			}
			if err := b.Publish(t.Context(), bustest.Events(bustest.Topic, "e", 3, "lane")...); err != nil {
				t.Fatal(err)
			}
			if served {
				<-begun
			}
			server.Kill()
			passed.Add(int64(weeks))
			if _, err := b.Trim(t.Context()); err != nil && fault.KindOf(err) != fault.Unavailable {
				t.Fatal(err)
			}
			stop()
			serving.Wait()
			closeBus(t, database, b)
			server.Restart()
			server.FlushAll()
			_, b = openBus(t, dir, db.Options{}, options)
			want := 0
			if served {
				want = 3
			}
			until(t, "what was kept is there again", func() bool {
				got, err := b.Fetch(t.Context(), bustest.Topic, "", 9)
				return err == nil && len(got) == want
			})
		})
	}
}

// The control of D4: XTRIM MAXLEN, which is commonly used, loses work, and so does a loss
// in Redis without outgoing rows.
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
