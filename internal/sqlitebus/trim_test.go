package sqlitebus_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lilac/internal/bus"
	"lilac/internal/bustest"
	"lilac/internal/db"
	"lilac/internal/event"
	"lilac/internal/sqlitebus"
)

// D4: whatever is published, handled, refused, trimmed and restarted, every
// event is handled by every group. Each sequence has a topic of its own in one
// database, which is what makes ten thousand of them a matter of minutes.
func TestTrimmingNeverDropsWork(t *testing.T) {
	checks := "40"
	if long() {
		checks = "10000"
	}
	flag.Set("rapid.checks", checks)
	// Enough for a group to fall behind, be trimmed around, and come back.
	flag.Set("rapid.steps", "20")
	w := newTrimWorld(t)
	var trimmed int64
	rapid.Check(t, func(rt *rapid.T) {
		m := w.machine(func(ctx context.Context, b *sqlitebus.Bus) error {
			n, err := b.Trim(ctx)
			trimmed += n
			return err
		})
		// Chance alone may find nothing that both groups have handled.
		m.publish(2)
		for g := range m.handled {
			m.serve(g, 2, time.Minute, func(int) bool { return false })
		}
		m.trim()
		rt.Repeat(m.actions())
		if lost := m.lost(time.Minute); len(lost) > 0 {
			rt.Fatalf("events that were never handled are gone: %v", lost)
		}
		m.forget()
	})
	if trimmed == 0 {
		t.Error("nothing was ever trimmed; the test shows nothing")
	}
	t.Logf("%s sequences, %d events trimmed, 0 lost", checks, trimmed)
}

// The control of D4: a trim that keeps the newest events and looks at nothing
// else, as MAXLEN does, loses work, and the machine notices.
func TestControlMaxLenLosesWork(t *testing.T) {
	w := newTrimWorld(t)
	m := w.machine(func(ctx context.Context, _ *sqlitebus.Bus) error {
		return w.db.Update(ctx, func(tx *db.Tx) error {
			const newest = 2
			if _, err := tx.Exec("DELETE FROM bus_log WHERE pos <= (SELECT max(pos) FROM bus_log) - ?", newest); err != nil {
				return err
			}
			_, err := tx.Exec("UPDATE bus_topics SET trimmed = (SELECT max(pos) & 0xffffffff FROM bus_log) - ?", newest)
			return err
		})
	})
	m.publish(5)
	m.serve(0, 2, time.Minute, func(int) bool { return false })
	m.trim()
	// On a busy machine a group may not come to the others in this time.
	if lost := m.lost(200 * time.Millisecond); !slices.Contains(lost, "e0-0") || !slices.Contains(lost, "e0-1") || !slices.Contains(lost, "e0-2") {
		t.Errorf("noticed that %v are lost, want those that were removed unread, too", lost)
	}
}

// The times of the world are short, so that ten thousand sequences do not leave
// what a clock can count.
const (
	trimAge  = time.Minute
	trimStep = 2 * time.Minute
)

// trimWorld is one database with its engine, for many sequences.
type trimWorld struct {
	t    *testing.T
	dir  string
	skew atomic.Int64
	db   *db.DB
	bus  *sqlitebus.Bus
	next int
}

func newTrimWorld(t *testing.T) *trimWorld {
	w := &trimWorld{t: t, dir: t.TempDir()}
	w.openDB()
	w.openBus()
	t.Cleanup(func() { w.closeBus(); w.closeDB() })
	return w
}

func (w *trimWorld) now() time.Time { return time.Now().Add(time.Duration(w.skew.Load())) }

func (w *trimWorld) openDB() {
	var err error
	// What is proved here is logic; the syncs would only make it slow.
	w.db, err = db.Open(context.Background(), db.Options{Dir: w.dir, Migrations: sqlitebus.Migrations, Now: w.now, Synchronous: "OFF"})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *trimWorld) openBus() {
	var err error
	w.bus, err = sqlitebus.New(w.db, sqlitebus.Options{Now: w.now, TrimEvery: -1, Age: trimAge, SilentAfter: 10_000 * 24 * time.Hour})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *trimWorld) closeBus() {
	if err := w.bus.Close(); err != nil {
		w.t.Error(err)
	}
}

func (w *trimWorld) closeDB() {
	if err := w.db.Close(); err != nil {
		w.t.Error(err)
	}
}

// trimMachine drives two groups of one topic and remembers what each handled.
type trimMachine struct {
	*trimWorld
	topic   event.Topic
	cut     func(context.Context, *sqlitebus.Bus) error
	sent    []string
	handled [2]map[string]bool
}

// worldSize is how many sequences one database serves: every trim looks at
// every topic, also at those of sequences that are over.
const worldSize = 50

func (w *trimWorld) machine(cut func(context.Context, *sqlitebus.Bus) error) *trimMachine {
	if w.next++; w.next%worldSize == 0 {
		w.closeBus()
		w.closeDB()
		if err := os.RemoveAll(w.dir); err != nil {
			w.t.Fatal(err)
		}
		w.openDB()
		w.openBus()
	}
	m := &trimMachine{trimWorld: w, topic: event.Topic(fmt.Sprintf("test.trim%d", w.next)), cut: cut}
	m.handled = [2]map[string]bool{{}, {}}
	for g := range m.handled {
		if err := w.bus.Declare(context.Background(), m.group(g)); err != nil {
			w.t.Fatal(err)
		}
	}
	return m
}

// forget drops the groups and the events, so that the next sequence does not
// look at them.
func (m *trimMachine) forget() {
	for g := range m.handled {
		if err := m.bus.DropGroup(context.Background(), m.topic, m.group(g).Group); err != nil {
			m.t.Fatal(err)
		}
	}
	m.skew.Add(int64(trimStep))
	if _, err := m.bus.Trim(context.Background()); err != nil {
		m.t.Fatal(err)
	}
}

func (m *trimMachine) group(g int) bus.Subscription {
	return bus.Subscription{
		Topic: m.topic, Group: fmt.Sprint("g", g), Mode: bus.Fanout, Consumer: "c", Parallel: 2,
		MaxAttempts: 1 << 20, Backoff: func(int) time.Duration { return time.Millisecond },
	}
}

func (m *trimMachine) publish(n int) {
	events := bustest.Events(m.topic, fmt.Sprintf("e%d-", len(m.sent)), n, "x", "y", "z")
	if err := m.bus.Publish(context.Background(), events...); err != nil {
		m.t.Fatal(err)
	}
	for _, e := range events {
		m.sent = append(m.sent, e.ID)
	}
}

func (m *trimMachine) trim() {
	m.skew.Add(int64(trimStep))
	if err := m.cut(context.Background(), m.bus); err != nil {
		m.t.Fatal(err)
	}
}

// serve lets a group handle up to n events; refuse says which deliveries fail.
func (m *trimMachine) serve(g, n int, patience time.Duration, refuse func(int) bool) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	results := make(chan string, n)
	var count atomic.Int64
	err := m.bus.Subscribe(ctx, m.group(g), func(ctx context.Context, d bus.Delivery) error {
		k := int(count.Add(1))
		if k > n {
			<-ctx.Done()
			return ctx.Err()
		}
		if refuse(k) {
			results <- ""
		} else if err := m.db.Update(context.WithoutCancel(ctx), d.Ack); err != nil {
			results <- ""
			return err
		} else {
			results <- d.ID
		}
		if k == n {
			cancel()
		}
		if refuse(k) {
			return fmt.Errorf("refused")
		}
		return nil
	})
	if err != nil {
		m.t.Fatal(err)
	}
	close(results)
	for id := range results {
		if id != "" {
			m.handled[g][id] = true
		}
	}
}

func (m *trimMachine) left(g int) int { return len(m.sent) - len(m.handled[g]) }

func (m *trimMachine) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"publish": func(rt *rapid.T) { m.publish(rapid.IntRange(1, 5).Draw(rt, "n")) },
		"trim":    func(*rapid.T) { m.trim() },
		"restart": func(rt *rapid.T) {
			m.closeBus()
			if rapid.IntRange(0, 7).Draw(rt, "database") == 0 {
				m.closeDB()
				m.openDB()
			}
			m.openBus()
		},
		"handle": func(rt *rapid.T) {
			g := rapid.IntRange(0, 1).Draw(rt, "group")
			n := rapid.IntRange(1, 6).Draw(rt, "n")
			bad := rapid.SliceOfN(rapid.Bool(), n, n).Draw(rt, "refuse")
			if m.left(g) > 0 {
				m.serve(g, min(n, m.left(g)), time.Minute, func(k int) bool { return bad[k-1] })
			}
		},
	}
}

// lost lets both groups finish and says what one of them did not get. Patience
// is how long each waits for work that does not come.
func (m *trimMachine) lost(patience time.Duration) (out []string) {
	for g := range m.handled {
		// A delivery can end without being handled when the consumer is stopped;
		// what is kept comes again, so it is given up only without progress.
		for before := -1; m.left(g) > 0 && m.left(g) != before; {
			before = m.left(g)
			m.serve(g, before, patience, func(int) bool { return false })
		}
		for _, id := range m.sent {
			if !m.handled[g][id] && !slices.Contains(out, id) {
				out = append(out, id)
			}
		}
	}
	slices.SortFunc(out, strings.Compare)
	return out
}
