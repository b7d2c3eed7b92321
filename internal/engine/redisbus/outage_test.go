package redisbus_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
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

// backWithin returns how soon work must resume after an outage: five seconds, or more on
// a busy machine.
func backWithin() time.Duration {
	if bustest.Long() {
		return 5 * time.Second
	}
	return patience
}

// An outage is something that happens to the way to Redis, and its end.
type outage struct {
	name  string
	begin func(t testing.TB, s *redistest.Server, p *faultproxy.Proxy) (end func())
}

var outages = []outage{
	{"cut", func(t testing.TB, _ *redistest.Server, p *faultproxy.Proxy) func() {
		p.Refuse()
		return func() { p.Accept(t) }
	}},
	{"reset", func(_ testing.TB, _ *redistest.Server, p *faultproxy.Proxy) func() {
		p.Reset(true)
		return func() { p.Reset(false) }
	}},
	{"delay", func(_ testing.TB, _ *redistest.Server, p *faultproxy.Proxy) func() {
		p.Delay(4500 * time.Millisecond)
		return func() { p.Delay(0) }
	}},
	{"half-open", func(_ testing.TB, _ *redistest.Server, p *faultproxy.Proxy) func() {
		p.Silence(true)
		return func() { p.Silence(false) }
	}},
	{"restart", func(_ testing.TB, s *redistest.Server, _ *faultproxy.Proxy) func() {
		s.Kill()
		return s.Restart
	}},
	{"standstill", func(_ testing.TB, s *redistest.Server, _ *faultproxy.Proxy) func() {
		s.Pause()
		return s.Resume
	}},
}

// pipelining has the client of Redis send what is asked whether or not what was
// asked before is answered. It reads and writes a connection in the goroutine of
// the caller, until two callers use it at the same moment: then it starts one that
// writes and one that reads, for as long as the connection lasts.
func (w *world) pipelining() {
	w.t.Helper()
	until(w.t, "the client has started its goroutines", func() bool {
		var all sync.WaitGroup
		for range 32 {
			all.Go(func() { _, _ = w.bus.Last(context.Background(), plain) })
		}
		all.Wait()
		stacks := make([]byte, 4<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return bytes.Contains(stacks, []byte("rueidis.(*pipe)._backgroundWrite")) && bytes.Contains(stacks, []byte("rueidis.(*pipe)._backgroundRead"))
	})
}

// baseOf counts the goroutines of an idle world, including those of the client. A
// connection that replaces a lost one must not add to them.
func (w *world) baseOf() int {
	w.t.Helper()
	w.pipelining()
	// Some goroutines are short-lived, so use the minimum over a period.
	base := goroutines()
	for range 20 {
		time.Sleep(5 * time.Millisecond)
		base = min(base, goroutines())
	}
	return base
}

// goroutines returns the number of goroutines.
func goroutines() int { return runtime.NumGoroutine() }

// D8: prompts are accepted during any outage of Redis, work resumes within five seconds
// after it, no event is lost or duplicated, and no goroutine leaks.
func TestOutagesAreSurvived(t *testing.T) {
	for _, o := range outages {
		t.Run(o.name, func(t *testing.T) {
			w, base, end := o.happen(t)
			end()
			over := time.Now()
			w.expect(names("before", 5, "during", 20))
			if took := time.Since(over); took > backWithin() {
				t.Errorf("work went on %v after the outage", took)
			} else {
				t.Logf("work went on %v after the outage", took.Round(time.Millisecond))
			}
			w.healthy()
			w.publish("after", 5)
			w.expect(names("before", 5, "during", 20, "after", 5))
			until(t, "the goroutines are back to base", func() bool { return goroutines() <= base })
			w.detach()
		})
	}
}

// The control of D8: without outgoing rows, events that are published during an outage
// are lost. The short form tests only the first outage.
func TestControlAnOutageWithoutOutgoingRowsLosesEvents(t *testing.T) {
	chosen := outages
	if !bustest.Long() {
		chosen = outages[:1]
	}
	for _, o := range chosen {
		t.Run(o.name, func(t *testing.T) {
			w, _, end := o.happen(t)
			forgetRows(t, w.db)
			end()
			w.healthy()
			if w.differs(names("before", 5, "during", 20), 500*time.Millisecond) == "" {
				t.Error("the rows were removed before Redis was back, and nothing is missing")
			}
			w.detach()
		})
	}
}

// happen lets an outage begin and events be published in it, and returns what
// ends it and how many goroutines there were before.
func (o outage) happen(t *testing.T) (w *world, base int, end func()) {
	t.Helper()
	server := redistest.Start(t, redistest.Options{})
	proxy := faultproxy.Start(t, server.Addr)
	w = newHastyWorld(t, server, "redis://"+proxy.Addr)
	w.attach()
	w.publish("before", 5)
	w.expect(names("before", 5))
	base = w.baseOf()
	end = o.begin(t, server, proxy)
	published := make(chan struct{})
	go func() {
		defer close(published)
		w.publish("during", 20)
	}()
	until(t, "it is noticed", func() bool { return w.bus.Healthy(context.Background()) != nil })
	select { // nobody waits for Redis
	case <-published:
	case <-time.After(patience):
		t.Error("publishing waits for Redis")
	}
	return w, base, end
}

// Stopping does not wait for a Redis that does not reply.
func TestStoppingIsPromptWithoutRedis(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	w := newHastyWorld(t, server, server.URL())
	w.attach()
	w.publish("a", 1)
	w.expect(names("a", 1))
	server.Pause()
	defer server.Resume()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := w.bus.Publish(ctx, bustest.Event(plain, "e", "l")); err == nil {
		t.Error("publish with a context that has ended returned nil")
	}
	began := time.Now()
	w.detach()
	closeBus(t, w.db, w.bus)
	if took := time.Since(began); took > backWithin() {
		t.Errorf("stopping took %v", took)
	}
}

// If Redis is unreachable at the first start, the address is probably wrong, so Open
// fails. Later, it is an outage.
func TestAnAddressThatNeverWorkedIsRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	database, err := db.Open(context.Background(), db.Options{Dir: t.TempDir(), Migrations: redisbus.Migrations})
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	_, err = redisbus.Open(context.Background(), database, redisbus.Options{URL: "redis://" + addr, Options: delivery.Options{TrimEvery: -1}})
	if err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("open with nobody at the address: %v, want an error that names it", err)
	}
}

// A timeout at the first start is retried, because this machine may have been suspended.
func TestAFirstStartOutlastsAnAnswerThatDoesNotCome(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	proxy := faultproxy.Start(t, server.Addr)
	proxy.IgnoreNext()
	w := newHastyWorld(t, server, "redis://"+proxy.Addr)
	if !proxy.IgnoredOne() {
		t.Error("every connection was answered; the test shows nothing")
	}
	w.publish("a", 1)
	if got := len(w.places(plain)); got != 1 {
		t.Errorf("Redis has %d events, want 1", got)
	}
}

// Any number of live tails shares one connection.
func TestTailsShareAConnection(t *testing.T) {
	const tails = 1000
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server, server.URL())
	connections := func() int {
		return strings.Count(server.Do("CLIENT", "LIST").(string), "name=lilac")
	}
	before := connections()
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan struct{}, tails)
	seen := make(chan string, tails)
	for i := range tails {
		topic := topicOf(i)
		w.ended.Go(func() {
			err := w.bus.Tail(ctx, bus.Tail{Topic: topic, Ready: func() { ready <- struct{}{} }}, func(d bus.Delivery) error {
				seen <- d.ID
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range tails {
		<-ready
	}
	for i := range tails {
		if err := w.bus.Publish(ctx, bustest.Event(topicOf(i), "e", "l")); err != nil {
			t.Fatal(err)
		}
	}
	for range tails {
		select {
		case <-seen:
		case <-time.After(patience):
			t.Fatal("a tail saw nothing")
		}
	}
	if now := connections(); now > before {
		t.Errorf("%d connections with %d tails, %d without", now, tails, before)
	}
	cancel()
	w.ended.Wait()
}

func topicOf(i int) event.Topic { return bustest.Topic + event.Topic(fmt.Sprint(".", i)) }

// A tail that fell behind continues at its position when Redis is back.
func TestASlowTailOutlastsAnOutage(t *testing.T) {
	const events = 500
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server, server.URL())
	ctx, cancel := context.WithCancel(context.Background())
	ready, gate := make(chan struct{}), make(chan struct{})
	var seen []string
	w.ended.Go(func() {
		err := w.bus.Tail(ctx, bus.Tail{Topic: plain, FromNow: true, Ready: func() { close(ready) }}, func(d bus.Delivery) error {
			<-gate
			if seen = append(seen, d.ID); len(seen) == events {
				cancel()
			}
			return nil
		})
		if err != nil {
			t.Errorf("tail: %v", err)
		}
	})
	<-ready
	want := bustest.Events(plain, "e", events)
	if err := w.bus.Publish(ctx, want...); err != nil { // more than the queue of a tail holds
		t.Fatal(err)
	}
	server.Kill()
	until(t, "it is noticed", func() bool { return w.bus.Healthy(context.Background()) != nil })
	close(gate)
	server.Restart()
	ended := make(chan struct{})
	go func() { w.ended.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(patience):
		cancel()
		t.Fatal("the tail does not go on")
	}
	if diff := cmp.Diff(names("e", events), seen); diff != "" {
		t.Errorf("tail (-want +got):\n%s", diff)
	}
}
