package redisbus_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/bus"
	"lilac/internal/bustest"
	"lilac/internal/db"
	"lilac/internal/delivery"
	"lilac/internal/event"
	"lilac/internal/redisbus"
	"lilac/internal/redistest"
)

// patience is how long something that must happen is waited for.
const patience = time.Minute

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not so after %v: %s", patience, what)
		}
	}
}

// world is one engine with a group and a tail on the suite's topic.
type world struct {
	t        testing.TB
	server   *redistest.Server
	dir, url string
	db       *db.DB
	bus      *redisbus.Bus

	mu      sync.Mutex
	handled []string
	tailed  []string
	stop    context.CancelFunc
	ended   sync.WaitGroup
}

var group = bus.Subscription{Topic: bustest.Topic, Group: "g"}

// plain is a topic that no group handles.
const plain event.Topic = "test.plain"

func newWorld(t testing.TB, server *redistest.Server, url string) *world {
	w := &world{t: t, server: server, dir: t.TempDir(), url: url}
	w.open()
	return w
}

func (w *world) open() {
	w.t.Helper()
	w.db, w.bus = openBus(w.t, w.dir, db.Options{}, redisbus.Options{URL: w.url, Options: delivery.Options{TrimEvery: -1}})
}

func (w *world) close() {
	w.t.Helper()
	w.detach()
	closeBus(w.t, w.db, w.bus)
}

// attach consumes and tails until detach. A handler's work and its
// acknowledgement are one transaction, as in the cores.
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
		t := bus.Tail{Topic: plain, FromNow: true, Ready: func() { close(ready) }}
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

// publish publishes n events for the group and n for the tail, in turn.
func (w *world) publish(prefix string, n int) {
	w.t.Helper()
	for i := range n {
		id := fmt.Sprint(prefix, i)
		for _, topic := range []event.Topic{bustest.Topic, plain} {
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

func names(groups ...any) (out []string) {
	for i := 0; i < len(groups); i += 2 {
		for n := range groups[i+1].(int) {
			out = append(out, fmt.Sprint(groups[i], n))
		}
	}
	return out
}

// expect waits for the events and checks that each came once, and to the tail
// in order.
func (w *world) expect(want []string) {
	w.t.Helper()
	if wrong := w.differs(want, patience); wrong != "" {
		w.t.Fatal(wrong)
	}
}

// differs waits for the events, and says what is different from each of them
// having come once, and to the tail in order.
func (w *world) differs(want []string, within time.Duration) (wrong string) {
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if h, l := w.counts(); h >= len(want) && l >= len(want) {
			break
		}
	}
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

// places are the events of a topic that Redis holds, with their positions.
func (w *world) places(topic event.Topic) map[string]bus.Position {
	out := map[string]bus.Position{}
	var after bus.Position
	for {
		got, err := w.bus.Fetch(context.Background(), topic, after, 100)
		if err != nil {
			w.t.Fatalf("fetch: %v", err)
		}
		if len(got) == 0 {
			return out
		}
		for _, d := range got {
			out[d.ID], after = d.Position, d.Position
		}
	}
}

func (w *world) healthy() {
	w.t.Helper()
	until(w.t, "Redis can be used", func() bool { return w.bus.Healthy(context.Background()) == nil })
}

// afterLoss waits until a loss is noticed and mended: there is one more epoch.
// Nobody looks at a Redis from which nobody wants anything, so it is asked.
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

// losses are the ways in which Redis forgets what it acknowledged.
var losses = map[string]func(s *redistest.Server, before redistest.Snapshot){
	"its last appends": func(s *redistest.Server, before redistest.Snapshot) { s.Rollback(before) },
	"everything":       func(s *redistest.Server, _ redistest.Snapshot) { s.FlushAll() },
}

// Nobody notices that Redis forgot: what it lost is there again at the places
// it had, and each event is handled once.
func TestWhatRedisForgetsIsGivenBack(t *testing.T) {
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, redistest.Options{})
			w := newWorld(t, server, server.URL())
			w.attach()
			w.publish("a", 5)
			w.expect(names("a", 5))
			before := server.Snapshot()
			w.publish("b", 20)
			w.expect(names("a", 5, "b", 20))
			grouped, plainly := w.places(bustest.Topic), w.places(plain)
			w.afterLoss(func() { lose(server, before) })
			if diff := cmp.Diff(grouped, w.places(bustest.Topic)); diff != "" {
				t.Errorf("events with a group (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(plainly, w.places(plain)); diff != "" {
				t.Errorf("events without a group (-before +after):\n%s", diff)
			}
			w.publish("c", 5)
			w.expect(names("a", 5, "b", 20, "c", 5))
			w.detach()
		})
	}
}

// The control: without the outgoing rows and what is in memory the events are
// gone, and the comparison above sees it.
func TestControlWithoutOutgoingRowsRedisLosesEvents(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server, server.URL())
	w.attach()
	w.publish("a", 20)
	w.expect(names("a", 20))
	before := w.places(bustest.Topic)
	forgetRows(t, w.db)
	w.afterLoss(server.FlushAll)
	if cmp.Equal(before, w.places(bustest.Topic)) {
		t.Error("Redis forgot everything, no row was left, and the events are there")
	}
	w.detach()
}

// An event whose answer got lost has its place before events that are sent
// earlier than it the second time. All of them reach the tail, and are given
// back when Redis forgets.
func TestWhatWasSentTwiceIsSeenAndGivenBack(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	proxy, url := proxied(t, server)
	w := newWorld(t, server, url)
	w.attach()
	publish := func(ctx context.Context, id string) error { return w.bus.Publish(ctx, bustest.Event(plain, id, "l")) }
	if err := publish(t.Context(), "early"); err != nil { // Redis has the scripts now
		t.Fatal(err)
	}
	cure := poison(t, proxy, "answers", "timeout", "downstream", `{"timeout":0}`)
	ctx, giveUp := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- publish(ctx, "first") }()
	until(t, "Redis has the first", func() bool { return server.Do("XLEN", "lilac:s:"+string(plain)) == int64(2) })
	giveUp()
	if err := <-ended; err == nil {
		t.Fatal("published without an answer of Redis")
	}
	until(t, "it is noticed", func() bool { return w.bus.Healthy(context.Background()) != nil })
	for _, id := range []string{"second", "first"} {
		if err := publish(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	cure()
	w.healthy()
	until(t, "both are sent", func() bool { return w.unsent() == 0 })
	before := w.places(plain)
	if diff := cmp.Diff([]string{"early", "first", "second"}, inOrder(before)); diff != "" {
		t.Fatalf("in Redis (-want +got):\n%s", diff)
	}
	until(t, "the tail sees the last", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.Contains(w.tailed, "second")
	})
	w.afterLoss(server.FlushAll)
	if diff := cmp.Diff(before, w.places(plain)); diff != "" {
		t.Errorf("after everything was lost (-before +after):\n%s", diff)
	}
	w.detach()
	if diff := cmp.Diff(inOrder(before), w.tailed); diff != "" {
		t.Errorf("tail (-want +got):\n%s", diff)
	}
}

// A tail that has seen all there was goes on when Redis has lost it for good, and
// one that has seen nothing when the first event's answer gets lost.
func TestATailThatHasSeenEverythingGoesOn(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server, server.URL())
	publish := func(id string) {
		t.Helper()
		if err := w.bus.Publish(t.Context(), bustest.Event(plain, id, "l")); err != nil {
			t.Fatal(err)
		}
	}
	w.attach()
	w.afterLoss(server.FlushAll) // before there was anything
	publish("first")
	until(t, "the first is seen", func() bool { _, n := w.counts(); return n == 1 })
	w.detach()
	w.close()
	w.open() // what was sent is not in memory any more
	w.attach()
	w.afterLoss(server.FlushAll)
	w.healthy()
	publish("second")
	until(t, "the second is seen", func() bool { _, n := w.counts(); return n == 2 })
	w.afterLoss(server.FlushAll)
	publish("third")
	until(t, "the third is seen", func() bool { _, n := w.counts(); return n == 3 })
	w.detach()
	if diff := cmp.Diff([]string{"first", "second", "third"}, w.tailed); diff != "" {
		t.Errorf("tail (-want +got):\n%s", diff)
	}
}

// forgetRows removes the outgoing rows, of what was sent and of what waits.
func forgetRows(t testing.TB, database *db.DB) {
	t.Helper()
	if err := database.Update(context.Background(), func(tx *db.Tx) error {
		_, err := tx.Exec("DELETE FROM redis_outgoing")
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// Events that nobody has handled yet survive a Redis that forgets, also while
// no process of ours runs.
func TestWhatWaitsSurvivesRedisForgetting(t *testing.T) {
	for name, lose := range losses {
		for _, running := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, running=%v", name, running), func(t *testing.T) {
				server := redistest.Start(t, redistest.Options{})
				w := newWorld(t, server, server.URL())
				if err := w.bus.Declare(context.Background(), group); err != nil {
					t.Fatal(err)
				}
				before := server.Snapshot()
				// More than a group keeps in memory or takes at once.
				var lanes []string
				for i := range 97 {
					lanes = append(lanes, fmt.Sprint("lane", i))
				}
				events := bustest.Events(bustest.Topic, "e", 5000, lanes...)
				for part := range slices.Chunk(events, 500) {
					if err := w.bus.Publish(context.Background(), part...); err != nil {
						t.Fatal(err)
					}
				}
				if running {
					w.afterLoss(func() { lose(server, before) })
				} else {
					w.close()
					lose(server, before)
					w.open()
				}
				w.attach()
				until(t, "all are handled", func() bool { h, _ := w.counts(); return h >= len(events) })
				w.detach()
				seen := map[string]int{}
				for _, id := range w.handled {
					seen[id]++
				}
				if len(seen) != len(events) || len(w.handled) != len(events) {
					t.Errorf("%d of %d events were handled, in %d deliveries", len(seen), len(events), len(w.handled))
				}
			})
		}
	}
}

// What is published while Redis is away is accepted, and arrives in order.
func TestWhatIsPublishedWhileRedisIsAwayArrives(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server, server.URL())
	w.attach()
	w.publish("a", 3)
	w.expect(names("a", 3))
	written(t, server)
	server.Kill()
	until(t, "it is noticed that Redis is away", func() bool { return w.bus.Healthy(context.Background()) != nil })
	w.publish("b", 10)
	// Also when our process ends and begins meanwhile.
	w.close()
	w.open()
	if w.bus.Healthy(context.Background()) == nil {
		t.Error("healthy without Redis")
	}
	if err := w.bus.Declare(context.Background(), group); err != nil {
		t.Errorf("declare again without Redis: %v", err)
	}
	w.publish("c", 3)
	server.Restart()
	w.healthy()
	until(t, "all is in Redis", func() bool { return len(w.places(plain)) == 16 })
	w.attach()
	until(t, "all is handled", func() bool { h, _ := w.counts(); return h >= 16 })
	if diff := cmp.Diff(names("a", 3, "b", 10, "c", 3), inOrder(w.places(plain))); diff != "" {
		t.Errorf("order in Redis (-want +got):\n%s", diff)
	}
	w.detach()
}

func inOrder(places map[string]bus.Position) []string {
	ids := make([]string, 0, len(places))
	for id := range places {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int { return compare(places[a], places[b]) })
	return ids
}

func compare(a, b bus.Position) int {
	var ae, an, be, bn int
	fmt.Sscanf(string(a), "%d-%d", &ae, &an)
	fmt.Sscanf(string(b), "%d-%d", &be, &bn)
	if ae != be {
		return ae - be
	}
	return an - bn
}
