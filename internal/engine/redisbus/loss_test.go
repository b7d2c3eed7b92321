package redisbus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/delivery"
	"lilac/internal/engine/redisbus"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/faultproxy"
	"lilac/internal/testkit/redistest"
)

// losses are the ways in which Redis loses acknowledged events.
var losses = map[string]func(s *redistest.Server, before redistest.Snapshot){
	"its last appends": func(s *redistest.Server, before redistest.Snapshot) { s.Rollback(before) },
	"everything":       func(s *redistest.Server, _ redistest.Snapshot) { s.FlushAll() },
}

// A loss in Redis is invisible to consumers: lost events are restored at their old
// positions, and each event is handled once.
func TestEventsThatRedisLosesAreRestored(t *testing.T) {
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

// The control: without the outgoing rows and the events in memory, the events are lost,
// and the comparison above detects it.
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

// An event whose reply was lost keeps a position before events that are sent before its
// second attempt. All of them reach the tail, and are restored when Redis loses them.
func TestResentEventsAreDeliveredAndRestored(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	proxy := faultproxy.Start(t, server.Addr)
	w := newWorld(t, server, "redis://"+proxy.Addr)
	w.attach()
	publish := func(ctx context.Context, id string) error { return w.bus.Publish(ctx, bustest.Event(plain, id, "l")) }
	for _, id := range []string{"early", "before"} { // the output is noted in the database before the second
		if err := publish(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	// Its publisher gives up before it writes a row.
	release := w.hold()
	defer release()
	proxy.LoseAnswerTo("first")
	ctx, giveUp := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- publish(ctx, "first") }()
	until(t, "Redis has the first", func() bool { return server.Do("XLEN", "lilac:s:"+string(plain)) == int64(3) })
	giveUp()
	if err := <-ended; err == nil {
		t.Fatal("published without an answer of Redis")
	}
	release()
	until(t, "it is noticed", func() bool { return w.bus.Healthy(context.Background()) != nil })
	for _, id := range []string{"second", "first"} {
		if err := publish(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	proxy.LoseAnswers(false)
	w.healthy()
	until(t, "both are sent", func() bool { return w.unsent() == 0 })
	before := w.places(plain)
	if diff := cmp.Diff([]string{"early", "before", "first", "second"}, inOrder(before)); diff != "" {
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

// A tail that has caught up continues when Redis has lost all events permanently. A tail
// that has seen nothing continues when the reply to the first event is lost.
func TestTailThatIsCaughtUpContinues(t *testing.T) {
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
	w.open() // the new process does not have the sent events in memory
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

// Events that Redis loses long after they were handled cannot be restored. A reader that
// continues from before them gets ErrTrimmed; a reader that has seen them does not.
func TestReaderGetsErrTrimmedForEventsLostForGood(t *testing.T) {
	var passed atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
	server := redistest.Start(t, redistest.Options{})
	w := &world{t: t, server: server, dir: t.TempDir(), url: server.URL(), topic: aged}
	w.db, w.bus = openBus(t, w.dir, db.Options{}, redisbus.Options{URL: w.url, Options: delivery.Options{TrimEvery: -1, Now: now}})
	topics := []event.Topic{bustest.Topic, aged}
	read := func(from map[event.Topic]bus.Position, want int, wantErr error) {
		t.Helper()
		for _, topic := range topics {
			if got, err := w.bus.Fetch(t.Context(), topic, from[topic], 100); len(got) != want || !errors.Is(err, wantErr) {
				t.Errorf("%s: behind %s %d events are read, %v; want %d, %v", topic, from[topic], len(got), err, want, wantErr)
			}
		}
	}
	ends := func() map[event.Topic]bus.Position {
		t.Helper()
		out := map[event.Topic]bus.Position{}
		for _, topic := range topics {
			end, err := w.bus.Last(t.Context(), topic)
			if err != nil {
				t.Fatal(err)
			}
			out[topic] = end
		}
		return out
	}
	minutesPass := func() {
		t.Helper()
		passed.Add(int64(2 * time.Minute))
		if _, err := w.bus.Trim(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.attach()
	w.publish("a", 3)
	w.expect(names("a", 3))
	afterA := ends()
	written(t, server)
	before := server.Snapshot()
	w.publish("b", 3)
	w.expect(names("a", 3, "b", 3))
	afterB := ends()
	minutesPass()
	w.afterLoss(func() { server.Rollback(before) }) // nothing is given back
	read(afterA, 0, bus.ErrTrimmed)
	read(afterB, 0, nil)
	read(ends(), 0, nil)

	written(t, server)
	before = server.Snapshot()
	w.publish("c", 3)
	w.expect(names("a", 3, "b", 3, "c", 3))
	afterC := ends()
	minutesPass()
	w.publish("d", 3)
	w.afterLoss(func() { server.Rollback(before) }) // what came last is given back
	w.publish("e", 3)
	w.expect(names("a", 3, "b", 3, "c", 3, "d", 3, "e", 3))
	read(afterB, 0, bus.ErrTrimmed)
	read(afterC, 6, nil)
	w.detach()
}

// forgetRows removes all outgoing rows, sent and unsent.
func forgetRows(t testing.TB, database *db.DB) {
	t.Helper()
	if err := database.Update(context.Background(), func(tx *db.Tx) error {
		_, err := tx.Exec("DELETE FROM redis_outgoing")
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// If the first group of a topic is declared after a publisher found none, the group must
// still get the publisher's events, even if Redis loses them.
func TestAPublisherThatIsLateForTheFirstGroupLosesNothing(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	dir := t.TempDir()
	var late atomic.Bool
	looked, declared := make(chan struct{}), make(chan struct{})
	options := redisbus.Options{URL: server.URL(), Options: delivery.Options{TrimEvery: -1, Now: func() time.Time {
		// Publish reads the clock after it has checked for groups.
		if late.Load() && bytes.Contains(debug.Stack(), []byte("(*Bus).Publish(")) && late.CompareAndSwap(true, false) {
			close(looked)
			<-declared
		}
		return time.Now()
	}}}
	database, b := openBus(t, dir, db.Options{}, options)
	published := make(chan error, 1)
	late.Store(true)
	go func() { published <- b.Publish(context.Background(), bustest.Event(plain, "late", "l")) }()
	<-looked
	if err := b.Declare(t.Context(), bus.Subscription{Topic: plain, Group: "g"}); err != nil {
		t.Error(err)
	}
	close(declared)
	if err := <-published; err != nil {
		t.Fatal(err)
	}
	closeBus(t, database, b)
	server.FlushAll()
	_, b = openBus(t, dir, db.Options{}, options)
	until(t, "the group's event is there again", func() bool {
		got, err := b.Fetch(t.Context(), plain, "", 9)
		return err == nil && len(got) == 1 && got[0].ID == "late"
	})
}

// Unhandled events survive a loss in Redis, even if the loss happens while no process of
// the program is running.
func TestPendingRowsSurviveALossInRedis(t *testing.T) {
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
				if !done(patience, func() int { return w.missing(len(events), 0) }) {
					t.Errorf("%d are not handled", w.missing(len(events), 0))
				}
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

// If another Redis replaces the usual one for a while (a volume that is not mounted, or a
// wrong database index in the URL), the usual one receives the missing events when it
// comes back.
func TestOlderRedisReceivesTheMissingEvents(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server, server.URL())
	w.attach()
	w.publish("handled", 9)
	w.expect(names("handled", 9))
	forgetRows(t, w.db) // as after a while
	w.close()
	first := server.Snapshot()
	server.Rollback(redistest.Snapshot{})
	w.open()
	if err := w.bus.Publish(context.Background(), bustest.Events(bustest.Topic, "waits", 3)...); err != nil {
		t.Fatal(err)
	}
	w.close()
	server.Rollback(first)
	w.open()
	w.attach()
	if want := 9 + 3; !done(patience, func() int { return w.missing(want, 0) }) {
		t.Errorf("handled are %v", w.handled)
	}
	w.detach()
}

// Events that are published while Redis is unavailable are accepted and arrive in order.
func TestEventsPublishedDuringAnOutageArrive(t *testing.T) {
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
