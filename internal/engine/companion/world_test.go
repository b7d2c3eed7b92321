package companion_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lilac/internal/engine/companion"
	"lilac/internal/engine/db"
	"lilac/internal/engine/delivery"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/redistest"
)

// The client of Redis has two goroutines that nothing ends earlier: one closes the connections to nodes
// that left a cluster five seconds later, and one waits for a second between two looks at the cluster.
func TestMain(m *testing.M) {
	effort.SideBySide(8)
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}

// patience is the timeout for something that must happen.
const patience = 30 * time.Second

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not so after %v: %s", patience, what)
		}
	}
}

// world is a database with a bus and its companion.
type world struct {
	t   testing.TB
	opt companion.Options
	dir string
	now func() time.Time
	age time.Duration

	log   output
	db    *db.DB
	bus   *sqlitebus.Bus
	redis *companion.Companion
	stop  context.CancelFunc
	ended sync.WaitGroup

	mu        sync.Mutex
	published []string // ids of events that were handed in, once per call
	refuse    error    // what Publish returns
	crash     bool     // Publish commits, and then fails as a process does that dies
}

func newWorld(t testing.TB, url string) *world {
	w := &world{t: t, opt: companion.Options{URL: url, CheckEvery: 200 * time.Millisecond}, dir: t.TempDir(), age: time.Hour, now: time.Now}
	w.start()
	t.Cleanup(w.close)
	return w
}

func (w *world) start() {
	w.t.Helper()
	var err error
	if w.db, err = db.Open(context.Background(), db.Options{Dir: w.dir, Migrations: sqlitebus.Migrations, Now: w.now}); err != nil {
		w.t.Fatal(err)
	}
	w.bus, err = sqlitebus.New(w.db, delivery.Options{TrimEvery: -1, Age: w.age, Now: w.now, Fed: func(r []*delivery.Record) { w.redis.Fed(r) }})
	if err != nil {
		w.t.Fatal(err)
	}
	opt := w.opt
	opt.Store, opt.Log, opt.Topics, opt.Publish = w.db.StoreID(), w.bus.Log(), w.bus.Topics, w.take
	opt.Logger = slog.New(slog.NewTextHandler(io.MultiWriter(w.t.Output(), &w.log), nil))
	if w.redis, err = companion.New(opt); err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	w.ended.Go(func() { _ = w.redis.Run(ctx) })
}

func (w *world) close() {
	w.t.Helper()
	if w.stop == nil {
		return
	}
	w.stop()
	w.stop = nil
	w.ended.Wait()
	if err := w.bus.Close(); err != nil {
		w.t.Error(err)
	}
	if err := w.db.Close(); err != nil {
		w.t.Error(err)
	}
}

// take publishes what was handed in, by its id.
func (w *world) take(ctx context.Context, _ string, raw []byte) error {
	w.mu.Lock()
	refuse, crash := w.refuse, w.crash
	w.mu.Unlock()
	if refuse != nil {
		return refuse
	}
	var e event.Event
	if err := json.Unmarshal(raw, &e); err != nil {
		return fault.Wrap(fault.Invalid, err, "The event is not valid JSON")
	}
	e.Topic, e.Type, e.TS, e.Data = topicIn, "test.event", 1, []byte("1")
	if err := w.bus.Publish(ctx, e); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.published = append(w.published, e.ID)
	if crash {
		return fault.New(fault.Unavailable, "the process dies")
	}
	return nil
}

func (w *world) setTake(refuse error, crash bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse, w.crash = refuse, crash
}

func (w *world) taken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.published...)
}

const (
	topic   event.Topic = "env"
	topicIn event.Topic = "test.handed"
)

func (w *world) publish(topic event.Topic, prefix string, n int) {
	w.t.Helper()
	if err := w.bus.Publish(context.Background(), bustest.Events(topic, prefix, n)...); err != nil {
		w.t.Fatal(err)
	}
}

// logged returns the ids of a topic in the log.
func (w *world) logged(topic event.Topic) (ids []string) {
	w.t.Helper()
	for after := int64(0); ; {
		_, records, err := w.bus.Log().Read(context.Background(), topic, after, "", 1000)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(records) == 0 {
			return ids
		}
		for _, r := range records {
			ids, after = append(ids, fmt.Sprintf("%d-0 %s", r.Seq, r.ID)), r.Seq
		}
	}
}

// mirrored returns the entries of a stream, in the form of logged.
func mirrored(s *redistest.Server, key string) (ids []string) {
	reply, err := s.TryDo("XRANGE", key, "-", "+")
	if err != nil {
		return []string{err.Error()}
	}
	entries, _ := reply.([]any)
	for _, e := range entries {
		entry := e.([]any)
		fields := entry[1].([]any)
		ids = append(ids, fmt.Sprint(entry[0], " ", fields[1]))
	}
	return ids
}

// same waits until the stream in Redis is the topic in the log.
func (w *world) same(s *redistest.Server, topic event.Topic) {
	w.t.Helper()
	want := strings.Join(w.logged(topic), "\n")
	var got string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if got = strings.Join(mirrored(s, "lilac:s:"+string(topic)), "\n"); got == want {
			return
		}
	}
	w.t.Fatalf("%s in Redis is\n%.2000s\nwant\n%.2000s", topic, got, want)
}

// says waits until the companion reports something, or is healthy for "".
func (w *world) says(what string) {
	w.t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if err = w.redis.Healthy(context.Background()); what == "" && err == nil || err != nil && what != "" && strings.Contains(err.Error(), what) {
			return
		}
	}
	w.t.Fatalf("the companion says %v, want %q", err, what)
}
