package redisbus_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/delivery"
	"lilac/internal/engine/redisbus"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/redistest"
)

// Environment variables of a child, in addition to those that all engines use.
const (
	childURL   = "LILAC_TEST_URL"
	childRound = "LILAC_TEST_ROUND"
)

func openChild(ctx context.Context, dir string) (bus.Bus, error) {
	database, err := db.Open(ctx, db.Options{Dir: dir, Migrations: redisbus.Migrations})
	if err != nil {
		return nil, err
	}
	return redisbus.Open(ctx, database, redisbus.Options{URL: os.Getenv(childURL)})
}

// childPublish publishes forever, half of the events to a topic with a group, and prints
// topic and id of each event once it is acknowledged.
func childPublish(b bus.Bus) error {
	var all sync.WaitGroup
	for w := range 8 {
		topic := []event.Topic{bustest.Topic, plain}[w%2]
		all.Go(func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("e-%s-%d-%d", os.Getenv(childRound), w, i)
				if err := b.Publish(context.Background(), bustest.Event(topic, id, "l")); err != nil {
					return
				}
				os.Stdout.WriteString(string(topic) + " " + id + " .\n")
			}
		})
	}
	all.Wait()
	return nil
}

func startChild(t testing.TB, server *redistest.Server, dir, role string, env ...string) *bustest.Child {
	t.Helper()
	return bustest.StartChild(t, dir, role, nil, append(env, childURL+"="+server.URL())...)
}

func missing(acked []string, w *world) (lost int) {
	held := map[string]map[string]bus.Position{string(bustest.Topic): w.places(bustest.Topic), string(plain): w.places(plain)}
	for _, line := range acked {
		topic, id, _ := strings.Cut(strings.TrimSuffix(line, " ."), " ")
		if _, ok := held[topic][id]; !ok {
			lost++
		}
	}
	return lost
}

// handledOnly removes the events that no group handles. If Redis dies together with the
// program, which keeps these events only in memory, the last two seconds may be lost.
func handledOnly(acked []string) (out []string) {
	for _, line := range acked {
		if strings.HasPrefix(line, string(bustest.Topic)+" ") {
			out = append(out, line)
		}
	}
	return out
}

// written waits until Redis has written its append-only file. During a slow sync, Redis
// replies before it writes.
func written(t testing.TB, server *redistest.Server) {
	t.Helper()
	until(t, "the append-only file is written", func() bool {
		return strings.Contains(server.Do("INFO", "persistence").(string), "aof_buffer_length:0\r")
	})
}

// D1: acknowledged events survive kill -9 of the program. Events of a topic with a group
// survive kill -9 of the program and Redis together.
func TestAcknowledgedSurvivesKill(t *testing.T) {
	loops, each := 6, 250
	if bustest.Long() {
		loops, each = 200, 600
	}
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server, server.URL())
	if err := w.bus.Declare(context.Background(), group); err != nil {
		t.Fatal(err)
	}
	w.close()
	var all []string
	for n := range loops {
		var acked []string
		c := startChild(t, server, w.dir, "publish", fmt.Sprint(childRound, "=", n))
		for range each + 13*(n%20) {
			acked = append(acked, c.Line())
		}
		if n%3 == 1 { // the program keeps running while Redis is killed
			server.Kill()
			for range 50 {
				acked = append(acked, c.Line())
			}
		}
		acked = append(acked, c.Kill()...)
		if n%3 == 2 {
			server.Kill()
		}
		// An incomplete last line is not a full acknowledgement.
		if last := acked[len(acked)-1]; !strings.HasSuffix(last, " .") {
			acked = acked[:len(acked)-1]
		}
		if n%3 == 0 {
			written(t, server)
		} else {
			server.Restart()
			acked = handledOnly(acked)
		}
		all = append(all, acked...)
	}
	w.open()
	w.healthy()
	until(t, "what waited is sent", func() bool { return w.unsent() == 0 })
	if lost := missing(all, w); lost > 0 {
		t.Errorf("%d of %d acknowledged events are lost", lost, len(all))
	}
	t.Logf("%d kills, %d acknowledged", loops, len(all))
	// The control: an acknowledged event that is missing is noticed.
	topic, id, _ := strings.Cut(strings.TrimSuffix(all[0], " ."), " ")
	server.Do("XDEL", "lilac:s:"+topic, string(w.places(event.Topic(topic))[id]))
	if lost := missing(all, w); lost != 1 {
		t.Errorf("control: %d were found missing, want 1", lost)
	}
}

func (w *world) unsent() (n int) {
	err := w.db.Read(context.Background(), func(q db.Queryer) error {
		return q.QueryRow("SELECT count(*) FROM redis_outgoing WHERE pos = 0").Scan(&n)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// D6: the work of a process that died is taken over.
func TestDeadWorkIsTakenOver(t *testing.T) { bustest.DeadWork(t, fresh) }

func TestControlWorkWithoutHeartbeatsIsTakenAtOnce(t *testing.T) { bustest.LapsedWork(t, fresh(t)) }

// D7: an event whose handler ends the process is tried five times.
func TestPoisonThatEndsTheProcessIsCounted(t *testing.T) { bustest.ExitingPoison(t, fresh(t)) }

// fresh returns unused storage.
func fresh(t testing.TB) bustest.Storage {
	server := redistest.Start(t, redistest.Options{})
	s := storage{server: server, prefix: redisbus.DefaultPrefix, dir: t.TempDir(), skew: new(atomic.Int64)}
	return bustest.Storage{Dir: s.dir, Env: []string{childURL + "=" + server.URL()}, Open: s.open}
}

// lines is told each line of a log as it is written.
type lines func(string)

func (l lines) Write(p []byte) (int, error) {
	l(string(p))
	return len(p), nil
}

// An event that Redis has, but that the program did not mark as sent before it died, is
// sent again before a group or a tail can read it. If Redis then loses the event, it is
// restored at the position where it was read.
func TestEventsOfADeadProcessAreRecordedBeforeReads(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server, server.URL())
	if err := w.bus.Declare(t.Context(), group); err != nil {
		t.Fatal(err)
	}
	for _, e := range bustest.Events(bustest.Topic, "e", 3) {
		if err := w.bus.Publish(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "it is noted", func() bool { return w.unsent() == 0 })
	if err := w.db.Update(t.Context(), func(tx *db.Tx) error { // as it was before
		_, err := tx.Exec("UPDATE redis_outgoing SET pos = 0, batch = 0 WHERE id = 'e2'")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	w.close()
	var err error
	if w.db, err = db.Open(t.Context(), db.Options{Dir: w.dir, Migrations: redisbus.Migrations}); err != nil {
		t.Fatal(err)
	}
	// The log line that Redis is usable is written before any other batch is sent, so a
	// row that is unmarked then cannot be marked by chance later.
	unsent := -1
	log := slog.New(slog.NewTextHandler(lines(func(line string) {
		if unsent < 0 && strings.Contains(line, "redis can be used") {
			unsent = w.unsent()
		}
	}), nil))
	w.bus, err = redisbus.Open(t.Context(), w.db, redisbus.Options{URL: w.url, Options: delivery.Options{TrimEvery: -1, Logger: log}, ReplyWithin: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeBus(t, w.db, w.bus) })
	if unsent != 0 {
		t.Errorf("%d events are not noted as the bus can be read", unsent)
	}
	before := w.places(bustest.Topic)
	w.afterLoss(server.FlushAll)
	if diff := cmp.Diff(before, w.places(bustest.Topic)); diff != "" {
		t.Errorf("after everything was lost (-before +after):\n%s", diff)
	}
}
