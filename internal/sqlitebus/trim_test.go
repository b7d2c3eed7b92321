package sqlitebus_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lilac/internal/bus"
	"lilac/internal/bustest"
	"lilac/internal/db"
	"lilac/internal/sqlitebus"
)

// D4: whatever happens in whatever order, trimming removes nothing that a live
// group has not committed.
func TestTrimmingNeverDropsWork(t *testing.T) {
	checks := "25"
	if long() {
		checks = "10000"
	}
	flag.Set("rapid.checks", checks)
	rapid.Check(t, func(rt *rapid.T) {
		m := newTrimMachine(t, func(ctx context.Context, _ *db.DB, b *sqlitebus.Bus) error {
			_, err := b.Trim(ctx)
			return err
		})
		defer m.close()
		rt.Repeat(m.actions(rt))
		if lost := m.lost(); len(lost) > 0 {
			rt.Fatalf("events that were never handled are gone: %v", lost)
		}
	})
}

// The control of D4: a trim that looks at the age alone does lose work, and the
// machine notices.
func TestControlNaiveTrimLosesWork(t *testing.T) {
	m := newTrimMachine(t, func(ctx context.Context, d *db.DB, _ *sqlitebus.Bus) error {
		return d.Update(ctx, func(tx *db.Tx) error {
			if _, err := tx.Exec("DELETE FROM bus_log"); err != nil {
				return err
			}
			_, err := tx.Exec("UPDATE bus_topics SET trimmed = 2")
			return err
		})
	})
	defer m.close()
	m.patience = 200 * time.Millisecond
	m.publish(2)
	m.trim()
	if len(m.lost()) == 0 {
		t.Error("a trim that ignores the groups was not noticed")
	}
}

// trimMachine drives an engine with two groups and remembers what each has
// handled.
type trimMachine struct {
	t    *testing.T
	dir  string
	skew atomic.Int64
	db   *db.DB
	bus  *sqlitebus.Bus
	cut  func(context.Context, *db.DB, *sqlitebus.Bus) error
	// patience is how long lost work is waited for.
	patience time.Duration
	sent     []string
	handled  [2]map[string]bool
}

var machines atomic.Int64

func newTrimMachine(t *testing.T, cut func(context.Context, *db.DB, *sqlitebus.Bus) error) *trimMachine {
	m := &trimMachine{t: t, dir: filepath.Join(t.TempDir(), fmt.Sprint(machines.Add(1))), cut: cut, patience: 5 * time.Second}
	m.handled = [2]map[string]bool{{}, {}}
	m.open()
	for g := range m.handled {
		if err := m.bus.Declare(context.Background(), m.group(g)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func (m *trimMachine) open() {
	now := func() time.Time { return time.Now().Add(time.Duration(m.skew.Load())) }
	var err error
	// What is proved here is logic; the syncs would only make it slow.
	m.db, err = db.Open(context.Background(), db.Options{Dir: m.dir, Migrations: sqlitebus.Migrations, Now: now, Synchronous: "OFF"})
	if err != nil {
		m.t.Fatal(err)
	}
	m.bus, err = sqlitebus.New(m.db, sqlitebus.Options{Now: now, TrimEvery: -1, SilentAfter: 1000 * 24 * time.Hour})
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *trimMachine) shut() {
	if err := m.bus.Close(); err != nil {
		m.t.Error(err)
	}
	if err := m.db.Close(); err != nil {
		m.t.Error(err)
	}
}

func (m *trimMachine) close() {
	m.shut()
	os.RemoveAll(m.dir)
}

func (m *trimMachine) group(g int) bus.Subscription {
	return bus.Subscription{
		Topic: bustest.Topic, Group: fmt.Sprint("g", g), Mode: bus.Fanout, Consumer: "c", Parallel: 2,
		MaxAttempts: 1 << 20, Backoff: func(int) time.Duration { return time.Millisecond },
	}
}

func (m *trimMachine) publish(n int) {
	events := bustest.Events(bustest.Topic, fmt.Sprintf("e%d-", len(m.sent)), n, "x", "y", "z")
	if err := m.bus.Publish(context.Background(), events...); err != nil {
		m.t.Fatal(err)
	}
	for _, e := range events {
		m.sent = append(m.sent, e.ID)
	}
}

func (m *trimMachine) trim() {
	m.skew.Add(int64(8 * 24 * time.Hour))
	if err := m.cut(context.Background(), m.db, m.bus); err != nil {
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

func (m *trimMachine) actions(*rapid.T) map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"publish": func(rt *rapid.T) { m.publish(rapid.IntRange(1, 5).Draw(rt, "n")) },
		"trim":    func(*rapid.T) { m.trim() },
		"restart": func(*rapid.T) { m.shut(); m.open() },
		"handle": func(rt *rapid.T) {
			g := rapid.IntRange(0, 1).Draw(rt, "group")
			n := rapid.IntRange(1, 6).Draw(rt, "n")
			bad := rapid.SliceOfN(rapid.Bool(), n, n).Draw(rt, "refuse")
			if m.left(g) > 0 {
				m.serve(g, min(n, m.left(g)), 5*time.Second, func(k int) bool { return bad[k-1] })
			}
		},
	}
}

// lost lets both groups finish and says what neither got.
func (m *trimMachine) lost() []string {
	var out []string
	for g := range m.handled {
		// A delivery can end without being handled when the consumer is stopped;
		// what is kept comes again, so it is given up only without progress.
		for before := -1; m.left(g) > 0 && m.left(g) != before; {
			before = m.left(g)
			m.serve(g, before, m.patience, func(int) bool { return false })
		}
		for _, id := range m.sent {
			if !m.handled[g][id] && !slices.Contains(out, id) {
				out = append(out, id)
			}
		}
	}
	return out
}
