package redisbus_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/faultproxy"
	"lilac/internal/testkit/redistest"
)

// writers is the number of concurrent publishers: half publish to the topic of the group,
// half to the other. Each has its own lane, and publishes its next events once the last
// are accepted.
const writers = 16

// aheadMost is the maximum number of unsent events before the publishers pause. Together
// with the events that are just being written, it is less than a batch. Without it, a
// publisher that waits for Redis would never continue on a busy machine.
const aheadMost = 200

// Whatever happens to Redis while many publishers are active, the group, the tail and
// Redis get each accepted event once, in the order of its publisher.
func TestManyPublishersOutliveAnUnreliableRedis(t *testing.T) {
	servers, rounds := 1, 8
	if bustest.Long() {
		servers = 50
	}
	for n := range servers { // all of it is in memory as long as one serves
		t.Run(fmt.Sprint("server ", n), func(t *testing.T) {
			for _, wrong := range unreliable(t, rounds, patience, func(w *world, proxy *faultproxy.Proxy, random *rand.Rand) {
				mishaps[random.IntN(len(mishaps))](w, proxy, random)
			}) {
				t.Error(wrong)
			}
		})
	}
}

func TestControlManyPublishersLoseEventsWithoutOutgoingRows(t *testing.T) {
	wrong := unreliable(t, 1, time.Second, func(w *world, _ *faultproxy.Proxy, _ *rand.Rand) {
		forgetRows(t, w.db)
		w.afterLoss(w.server.FlushAll)
	})
	if !slices.ContainsFunc(wrong, func(s string) bool { return strings.Contains(s, "is lost") }) {
		t.Errorf("nothing is seen to be lost: %q", wrong)
	}
}

// unreliable publishes while mishaps happen. When no more events arrive for a while, it
// returns the errors that it found.
func unreliable(t *testing.T, rounds int, within time.Duration, mishap func(*world, *faultproxy.Proxy, *rand.Rand)) (wrong []string) {
	server := redistest.Start(t, redistest.Options{})
	proxy := faultproxy.Start(t, server.Addr)
	w := newWorld(t, server, "redis://"+proxy.Addr)
	w.attach()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	ctx, stop := context.WithCancel(context.Background())
	var writing sync.WaitGroup
	var published [writers]atomic.Int64
	for n := range writers {
		writing.Go(func() { w.write(ctx, n, &published[n]) })
	}
	goesOn := func() {
		w.server.Remember()
		writer := &published[2] // it publishes for the group, and waits for Redis
		some := writer.Load() + 3
		until(t, "publishing goes on", func() bool { return writer.Load() >= some })
	}
	goesOn()
	for range rounds {
		mishap(w, proxy, random)
		w.healthy()
		goesOn()
	}
	stop()
	writing.Wait()
	if !done(patience, w.unsent) {
		t.Fatalf("%d events that waited are not sent", w.unsent())
	}
	var want [2][]string
	for n := range writers {
		for i := range published[n].Load() {
			want[n%2] = append(want[n%2], fmt.Sprintf("%d:%d", n, i))
		}
	}
	t.Logf("%d mishaps, %d events, %d of them of no group", rounds, len(want[0])+len(want[1]), len(want[1]))
	done(within, func() int { return w.missing(len(want[0]), len(want[1])) })
	w.detach()
	for topic, ids := range map[event.Topic][]string{bustest.Topic: want[0], plain: want[1]} {
		listed, err := w.listed(topic)
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%s in Redis: what follows %d events is lost: %v", topic, len(listed), err))
			continue
		}
		wrong = append(wrong, astray(string(topic)+" in Redis", ids, listed)...)
	}
	wrong = append(wrong, astray("the group", want[0], w.handled)...)
	wrong = append(wrong, astray("the tail", want[1], w.tailed)...)
	return wrong
}

// write publishes until ctx ends, and counts accepted events. It repeats a call that
// timed out.
func (w *world) write(ctx context.Context, n int, published *atomic.Int64) {
	topic := []event.Topic{bustest.Topic, plain}[n%2]
	for i := 0; ctx.Err() == nil; {
		if w.unsent() > aheadMost {
			time.Sleep(time.Millisecond)
			continue
		}
		var events []event.Event
		for k := range 1 + i%3 {
			events = append(events, bustest.Event(topic, fmt.Sprintf("%d:%d", n, i+k), strconv.Itoa(n)))
		}
		var err error
		if n%4 == 0 { // in a transaction, as the cores do, without waiting for Redis
			err = w.db.Update(context.Background(), func(tx *db.Tx) error { return tx.Publish(events...) })
		} else {
			err = w.bus.Publish(context.Background(), events...)
		}
		if err != nil {
			w.t.Errorf("publish: %v", err)
			return
		}
		i += len(events)
		published.Store(int64(i))
	}
}

// mishaps are the failures of Redis, or of the connection to it.
var mishaps = []func(w *world, proxy *faultproxy.Proxy, random *rand.Rand){
	// Redis loses its newest events between two batches.
	func(w *world, _ *faultproxy.Proxy, _ *rand.Rand) { w.server.Forget() },
	func(w *world, _ *faultproxy.Proxy, _ *rand.Rand) { w.afterLoss(w.server.FlushAll) },
	func(w *world, _ *faultproxy.Proxy, _ *rand.Rand) {
		w.server.Kill()
		w.server.Restart()
	},
	func(w *world, _ *faultproxy.Proxy, random *rand.Rand) {
		early := w.server.Snapshot()
		time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond) // not to wait for something: to lose more or less
		w.server.Rollback(early)
	},
	// Replies are lost.
	func(w *world, proxy *faultproxy.Proxy, _ *rand.Rand) {
		proxy.LoseAnswers(true)
		until(w.t, "it is noticed", func() bool { return w.bus.Healthy(context.Background()) != nil })
		proxy.LoseAnswers(false)
	},
	func(w *world, _ *faultproxy.Proxy, random *rand.Rand) {
		for range 1 + random.IntN(3) {
			w.server.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		}
	},
}

// listed returns the events of a topic in Redis, in order.
func (w *world) listed(topic event.Topic) (ids []string, err error) {
	w.t.Helper()
	var after bus.Position
	for {
		got, err := w.tryFetch(topic, after)
		if err != nil || len(got) == 0 {
			return ids, err
		}
		for _, d := range got {
			ids, after = append(ids, d.ID), d.Position
		}
	}
}

// astray describes the events that were lost, duplicated, or reordered within their
// publisher.
func astray(where string, want, got []string) (wrong []string) {
	const enough = 10
	add := func(format string, args ...any) {
		if len(wrong) < enough {
			wrong = append(wrong, where+": "+fmt.Sprintf(format, args...))
		}
	}
	seen, next := map[string]bool{}, map[string]int{}
	for _, id := range got {
		if seen[id] {
			add("%s is there twice", id)
			continue
		}
		seen[id] = true
		publisher, text, _ := strings.Cut(id, ":")
		n, _ := strconv.Atoi(text)
		if n < next[publisher] {
			add("%s is behind %d", id, next[publisher]-1)
		}
		next[publisher] = max(next[publisher], n+1)
	}
	for _, id := range want {
		if !seen[id] {
			add("%s is lost", id)
		}
	}
	return wrong
}

// The reply to an event is lost, a reader reads the event before it is sent again, and
// then Redis loses it. The reader must not get the event again at another position.
func TestEventReadBeforeItsReplyIsNotReadAgain(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	proxy := faultproxy.Start(t, server.Addr)
	w := newWorld(t, server, "redis://"+proxy.Addr)
	w.attach()
	tailed := func(id string) (n int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, got := range w.tailed {
			if got == id {
				n++
			}
		}
		return n
	}
	publish := func(id string) {
		if err := w.bus.Publish(context.Background(), bustest.Event(plain, id, "lane")); err != nil {
			t.Errorf("publish %s: %v", id, err)
		}
	}
	publish("first")
	publish("before") // the output is noted in the database now
	epoch := w.epoch()
	// While the writer is held the publisher cannot write its row.
	release := w.hold()
	defer release()
	var work sync.WaitGroup
	proxy.LoseAnswerTo("unanswered")
	work.Go(func() { publish("unanswered") })
	until(t, "it is in Redis", func() bool { return server.Do("XLEN", "lilac:s:"+string(plain)) == int64(3) })
	until(t, "its answer is lost", func() bool { return w.bus.Healthy(context.Background()) != nil })
	proxy.LoseAnswers(false)
	until(t, "it was read", func() bool { return tailed("unanswered") == 1 })
	server.FlushAll()
	release()
	work.Wait()
	until(t, "the loss is noticed", func() bool { return w.bus.Healthy(context.Background()) == nil && w.epoch() > epoch })
	until(t, "all is sent", func() bool { return w.unsent() == 0 })
	publish("after")
	until(t, "what follows is read", func() bool { return tailed("after") == 1 })
	w.detach()
	if n := tailed("unanswered"); n != 1 {
		t.Errorf("the event was read %d times", n)
	}
}
