package redisbus_test

import (
	stdcmp "cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/delivery"
	"lilac/internal/engine/redisbus"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/redistest"
)

// patience is the timeout for something that must happen.
const patience = time.Minute

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not so after %v: %s", patience, what)
		}
	}
}

// done waits until left returns 0, as long as the number keeps falling, because a busy
// machine is slow. It reports whether left reached 0.
func done(within time.Duration, left func() int) bool {
	fewest, end := math.MaxInt, time.Time{}
	for {
		switch n := left(); {
		case n == 0:
			return true
		case n < fewest:
			fewest, end = n, time.Now().Add(within)
		case time.Now().After(end):
			return false
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// world is one engine with a group and a tail on the suite's topic.
type world struct {
	t        testing.TB
	server   *redistest.Server
	dir, url string
	caFile   string
	// replyWithin is the timeout of a reply of Redis. The default is patience, because
	// a suspended machine is not an outage.
	replyWithin time.Duration
	acceptLoss  bool
	db          *db.DB
	bus         *redisbus.Bus

	mu      sync.Mutex
	handled []string
	tailed  []string
	// topic is the topic of the tail; default plain.
	topic event.Topic
	now   func() time.Time
	stop  context.CancelFunc
	ended sync.WaitGroup
}

var group = bus.Subscription{Topic: bustest.Topic, Group: "g"}

// plain is an output, which no group handles; aged is a topic with an index of ids.
const (
	plain event.Topic = "out.req.test:plain:1"
	aged  event.Topic = "test.aged"
)

func (w *world) unhandled() event.Topic { return stdcmp.Or(w.topic, plain) }

func newWorld(t testing.TB, server *redistest.Server, url string) *world {
	w := &world{t: t, server: server, dir: t.TempDir(), url: stdcmp.Or(url, server.URL())}
	w.open()
	return w
}

// newHastyWorld uses the program's timeout for replies of Redis, for tests in which
// replies are lost.
func newHastyWorld(t testing.TB, server *redistest.Server, url string) *world {
	w := &world{t: t, server: server, dir: t.TempDir(), url: url, replyWithin: 3 * time.Second}
	w.open()
	return w
}

func (w *world) open() {
	w.t.Helper()
	w.db, w.bus = openBus(w.t, w.dir, db.Options{}, redisbus.Options{
		URL: w.url, CAFile: w.caFile, Options: delivery.Options{TrimEvery: -1, Now: w.now}, ReplyWithin: w.replyWithin, AcceptLoss: w.acceptLoss,
	})
}

func (w *world) close() {
	w.t.Helper()
	w.detach()
	closeBus(w.t, w.db, w.bus)
}

// attach consumes and tails until detach. The handler acknowledges in the transaction of
// its work, as the cores do.
func (w *world) attach() {
	w.t.Helper()
	if err := w.bus.Declare(context.Background(), group); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	ready := make(chan struct{})
	w.ended.Go(func() {
		err := w.bus.Subscribe(ctx, group, func(ctx context.Context, d bus.Delivery) error {
			if err := w.db.Update(ctx, func(tx *db.Tx) error { return d.Ack(tx) }); err != nil {
				return err
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.handled = append(w.handled, d.ID)
			return nil
		})
		if err != nil {
			w.t.Errorf("subscribe: %v", err)
		}
	})
	w.ended.Go(func() {
		t := bus.Tail{Topic: w.unhandled(), FromNow: true, Ready: func() { close(ready) }}
		err := w.bus.Tail(ctx, t, func(d bus.Delivery) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.tailed = append(w.tailed, d.ID)
			return nil
		})
		if err != nil {
			w.t.Errorf("tail: %v", err)
		}
	})
	<-ready
}

func (w *world) detach() {
	if w.stop != nil {
		w.stop()
		w.ended.Wait()
		w.stop = nil
	}
}

// publish publishes n events for the group and n for the tail, alternating.
func (w *world) publish(prefix string, n int) {
	w.t.Helper()
	for i := range n {
		id := fmt.Sprint(prefix, i)
		for _, topic := range []event.Topic{bustest.Topic, w.unhandled()} {
			if err := w.bus.Publish(context.Background(), bustest.Event(topic, id, fmt.Sprint("lane", i%3))); err != nil {
				w.t.Fatalf("publish: %v", err)
			}
		}
	}
}

func (w *world) counts() (handled, tailed int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.handled), len(w.tailed)
}

// missing returns how many of the expected events have not arrived yet.
func (w *world) missing(handled, tailed int) int {
	h, l := w.counts()
	return max(0, handled-h) + max(0, tailed-l)
}

func names(groups ...any) (out []string) {
	for i := 0; i < len(groups); i += 2 {
		for n := range groups[i+1].(int) {
			out = append(out, fmt.Sprint(groups[i], n))
		}
	}
	return out
}

// expect waits for the events and checks that each arrived once, and at the tail in
// order.
func (w *world) expect(want []string) {
	w.t.Helper()
	if wrong := w.differs(want, patience); wrong != "" {
		w.t.Fatal(wrong)
	}
}

// differs waits for the events as long as more of them arrive. It describes the
// difference from the expected result: each event once, and at the tail in order.
func (w *world) differs(want []string, within time.Duration) (wrong string) {
	done(within, func() int { return w.missing(len(want), len(want)) })
	w.mu.Lock()
	defer w.mu.Unlock()
	if diff := cmp.Diff(want, w.tailed); diff != "" {
		wrong += fmt.Sprintf("tail (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(w.handled))); diff != "" {
		wrong += fmt.Sprintf("handled (-want +got):\n%s", diff)
	}
	return wrong
}

// fetch reads the events after a position. It retries, because on a busy machine Redis
// can be unavailable for a moment.
func (w *world) fetch(topic event.Topic, after bus.Position) []bus.Delivery {
	w.t.Helper()
	got, err := w.tryFetch(topic, after)
	if err != nil {
		w.t.Fatalf("fetch: %v", err)
	}
	return got
}

func (w *world) tryFetch(topic event.Topic, after bus.Position) (got []bus.Delivery, err error) {
	w.t.Helper()
	until(w.t, "Redis can be read", func() bool {
		got, err = w.bus.Fetch(context.Background(), topic, after, 1000)
		return err == nil || fault.KindOf(err) != fault.Unavailable
	})
	return got, err
}

// places returns the events of a topic in Redis with their positions.
func (w *world) places(topic event.Topic) map[string]bus.Position {
	out := map[string]bus.Position{}
	var after bus.Position
	for {
		got := w.fetch(topic, after)
		if len(got) == 0 {
			return out
		}
		for _, d := range got {
			out[d.ID], after = d.Position, d.Position
		}
	}
}

// hold blocks all writes to the database until release is called. release may be called
// again.
func (w *world) hold() (release func()) {
	w.t.Helper()
	held, released, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- w.db.Update(context.Background(), func(*db.Tx) error { close(held); <-released; return nil })
	}()
	<-held
	return sync.OnceFunc(func() {
		close(released)
		if err := <-ended; err != nil {
			w.t.Errorf("hold the writer: %v", err)
		}
	})
}

func (w *world) healthy() {
	w.t.Helper()
	until(w.t, "Redis can be used", func() bool { return w.bus.Healthy(context.Background()) == nil })
}

// afterLoss runs lose and waits until the loss is noticed and repaired, which increments
// the epoch. It queries Redis, because the engine does not check an idle Redis.
func (w *world) afterLoss(lose func()) {
	w.t.Helper()
	before := w.epoch()
	lose()
	until(w.t, "the loss is noticed", func() bool { return w.bus.Healthy(context.Background()) == nil && w.epoch() > before })
	w.healthy()
}

func (w *world) epoch() (n int64) {
	err := w.db.Read(context.Background(), func(q db.Queryer) error {
		return q.QueryRow("SELECT epoch FROM redis_state").Scan(&n)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}
