package redisbus_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lilac/internal/bus"
	"lilac/internal/bustest"
	"lilac/internal/db"
	"lilac/internal/delivery"
	"lilac/internal/redisbus"
	"lilac/internal/redistest"
)

// trimMachine drives an engine with two groups and remembers what each has
// handled.
type trimMachine struct {
	t       *testing.T
	server  *redistest.Server
	dir     string
	prefix  string
	skew    atomic.Int64
	db      *db.DB
	bus     *redisbus.Bus
	sent    []string
	handled [2]map[string]bool
}

var machines atomic.Int64

func newTrimMachine(t *testing.T, server *redistest.Server) *trimMachine {
	m := &trimMachine{t: t, server: server, dir: t.TempDir(), prefix: fmt.Sprint("m", machines.Add(1))}
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
	m.db, err = db.Open(context.Background(), db.Options{Dir: m.dir, Migrations: redisbus.Migrations, Now: now, Synchronous: "OFF"})
	if err != nil {
		m.t.Fatal(err)
	}
	m.bus, err = redisbus.Open(context.Background(), m.db, redisbus.Options{
		URL: m.server.URL(), Prefix: m.prefix,
		Options: delivery.Options{Now: now, TrimEvery: -1, SilentAfter: 1000 * 24 * time.Hour},
	})
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *trimMachine) close() { closeBus(m.t, m.db, m.bus) }

func (m *trimMachine) group(g int) bus.Subscription {
	return bus.Subscription{
		Topic: bustest.Topic, Group: fmt.Sprint("g", g), Mode: bus.Fanout, Parallel: 2,
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
	if _, err := m.bus.Trim(context.Background()); err != nil {
		m.t.Fatal(err)
	}
}

// forget lets Redis lose everything.
func (m *trimMachine) forget() {
	keys := m.server.Do("KEYS", m.prefix+":*").([]any)
	del := []string{"DEL"}
	for _, k := range keys {
		del = append(del, k.(string))
	}
	if len(keys) > 0 {
		m.server.Do(del...)
	}
}

// serve lets a group handle up to n events; refuse says which deliveries fail.
// It reports whether it came to n in time.
func (m *trimMachine) serve(g, n int, within time.Duration, refuse func(int) bool) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var mu sync.Mutex
	count := 0
	err := m.bus.Subscribe(ctx, m.group(g), func(ctx context.Context, d bus.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		if count++; count >= n {
			defer cancel()
		}
		if count > n || refuse(count) {
			return errors.New("refused")
		}
		if err := m.db.Update(context.WithoutCancel(ctx), d.Ack); err != nil {
			return err
		}
		m.handled[g][d.ID] = true
		return nil
	})
	if err != nil {
		m.t.Fatal(err)
	}
}

// lost lets both groups finish and says what neither got.
func (m *trimMachine) lost(within time.Duration) (out []string) {
	for g := range m.handled {
		for before := -1; len(m.handled[g]) < len(m.sent) && len(m.handled[g]) != before; {
			before = len(m.handled[g])
			m.serve(g, len(m.sent)-before, within, func(int) bool { return false })
		}
		for _, id := range m.sent {
			if !m.handled[g][id] && !slices.Contains(out, id) {
				out = append(out, id)
			}
		}
	}
	return out
}

// D4: whatever happens in whatever order, neither trimming nor a Redis that
// forgets costs an event that a live group has not committed.
func TestTrimmingNeverDropsWork(t *testing.T) {
	checks := "8"
	if long() {
		checks = "10000"
	}
	if err := flag.Set("rapid.checks", checks); err != nil {
		t.Fatal(err)
	}
	server := redistest.Start(t, redistest.Options{})
	rapid.Check(t, func(rt *rapid.T) {
		m := newTrimMachine(t, server)
		defer m.close()
		rt.Repeat(map[string]func(*rapid.T){
			"publish": func(rt *rapid.T) { m.publish(rapid.IntRange(1, 5).Draw(rt, "n")) },
			"trim":    func(*rapid.T) { m.trim() },
			"restart": func(*rapid.T) { m.close(); m.open() },
			"forget":  func(*rapid.T) { m.forget(); m.close(); m.open() },
			"handle": func(rt *rapid.T) {
				g := rapid.IntRange(0, 1).Draw(rt, "group")
				n := rapid.IntRange(1, 6).Draw(rt, "n")
				bad := rapid.SliceOfN(rapid.Bool(), n, n).Draw(rt, "refuse")
				if left := len(m.sent) - len(m.handled[g]); left > 0 {
					m.serve(g, min(n, left), patience, func(k int) bool { return bad[k-1] })
				}
			},
		})
		if lost := m.lost(patience); len(lost) > 0 {
			rt.Fatalf("events that were never handled are gone: %v", lost)
		}
	})
}

// The control of D4: XTRIM MAXLEN, which is what others use, does lose work,
// and the machine notices.
func TestControlTrimmingByLengthLosesWork(t *testing.T) {
	m := newTrimMachine(t, redistest.Start(t, redistest.Options{}))
	defer m.close()
	m.publish(3)
	m.server.Do("XTRIM", m.prefix+":s:"+string(bustest.Topic), "MAXLEN", "1")
	if len(m.lost(500*time.Millisecond)) == 0 {
		t.Error("a trim that ignores the groups was not noticed")
	}
}
