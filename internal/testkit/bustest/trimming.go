package bustest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

// The settings of an engine that [Trimming] drives. They are short, so that the clock
// does not overflow after many sequences.
const (
	TrimAge     = time.Minute
	TrimSilence = 10_000 * 24 * time.Hour
	trimStep    = 2 * time.Minute
)

// averageSteps is the average length of a sequence: enough for a group to fall behind,
// miss a trim, and catch up.
const averageSteps = 36

// worldSize is the number of sequences per engine, each on its own topic. It is small,
// because every trim checks every topic, even those of finished sequences.
const worldSize = 10

// Trimming runs random sequences of publishing, handling, failing, trimming, restarting
// and, if the log supports it, forgetting, on an engine with [TrimAge] and [TrimSilence].
// Every group must handle every event once, in the order of its lane.
func Trimming(t *testing.T, sequences int, open func(testing.TB) Engine) {
	set := func(name string, value int) {
		if err := flag.Set(name, strconv.Itoa(value)); err != nil {
			t.Fatal(err)
		}
	}
	set("rapid.steps", averageSteps)
	var trimmed int64
	for done := 0; done < sequences && !t.Failed(); done += worldSize {
		set("rapid.checks", min(worldSize, sequences-done))
		t.Run(fmt.Sprint("from ", done), func(t *testing.T) {
			w := &trimWorld{t: t, Engine: open(t)}
			rapid.Check(t, func(rt *rapid.T) {
				m := w.machine()
				// Without this, a random sequence may have no event that both groups handled.
				m.publish(2)
				for g := range m.handled {
					m.serve(g, 2, patience, func(int) bool { return false })
				}
				m.trim()
				rt.Repeat(m.actions())
				if lost := m.lost(patience); len(lost) > 0 {
					rt.Fatalf("events that were never handled are gone: %v", lost)
				}
				if len(m.wrong) > 0 {
					rt.Fatal(m.wrong)
				}
				m.leave()
			})
			trimmed += w.trimmed
		})
	}
	if trimmed == 0 {
		t.Error("nothing was ever trimmed; the test shows nothing")
	}
	t.Logf("%d sequences, %d events trimmed", sequences, trimmed)
}

// TrimmingLoses is the control of [Trimming]: cut removes all but the newest events of a
// topic, or more, regardless of the groups. The test must notice the loss.
func TrimmingLoses(t *testing.T, open func(testing.TB) Engine, cut func(e Engine, topic event.Topic, newest int)) {
	w := &trimWorld{t: t, Engine: open(t)}
	m := w.machine()
	m.publish(5)
	m.serve(0, 2, patience, func(int) bool { return false })
	cut(w.Engine, m.topic, 2)
	// On a busy machine, a group may not reach the remaining events in this time.
	lost := m.lost(500 * time.Millisecond)
	for _, id := range []string{"e0-0", "e0-1", "e0-2"} {
		if !slices.Contains(lost, id) {
			t.Errorf("noticed that %v are lost, want those that were removed unread, too", lost)
		}
	}
}

// trimWorld is one engine for several sequences.
type trimWorld struct {
	t testing.TB
	Engine
	topics  int
	trimmed int64
}

// trimMachine drives two groups of one topic and records the events that each handled.
type trimMachine struct {
	*trimWorld
	topic event.Topic
	sent  []event.Event

	mu      sync.Mutex
	handled [2]map[string]int // index of each handled event among the sent events
	newest  [2]map[string]int // newest handled index per lane
	wrong   []string
}

func (w *trimWorld) machine() *trimMachine {
	w.topics++
	m := &trimMachine{trimWorld: w, topic: event.Topic(fmt.Sprint("test.trim", w.topics))}
	for g := range m.handled {
		m.handled[g], m.newest[g] = map[string]int{}, map[string]int{}
		if err := w.Bus.Declare(context.Background(), m.group(g)); err != nil {
			w.t.Fatal(err)
		}
	}
	return m
}

// leave drops the groups and events, so that the next sequence does not process them.
func (m *trimMachine) leave() {
	for g := range m.handled {
		if err := m.Bus.DropGroup(context.Background(), m.topic, m.group(g).Group); err != nil {
			m.t.Fatal(err)
		}
	}
	m.trim()
}

func (m *trimMachine) group(g int) bus.Subscription {
	return bus.Subscription{
		Topic: m.topic, Group: fmt.Sprint("g", g), Mode: bus.Fanout, Consumer: "c", Parallel: 2,
		MaxAttempts: 1 << 20, Backoff: func(int) time.Duration { return time.Millisecond },
	}
}

func (m *trimMachine) publish(n int) {
	events := Events(m.topic, fmt.Sprintf("e%d-", len(m.sent)), n, "x", "y", "z")
	publish(m.t, m.Bus, events...)
	m.sent = append(m.sent, events...)
}

func (m *trimMachine) trim() {
	m.Advance(trimStep)
	m.trimmed += trim(m.t, m.Bus)
}

// took records that a group has handled an event.
func (m *trimMachine) took(g int, id string) {
	at := slices.IndexFunc(m.sent, func(e event.Event) bool { return e.ID == id })
	lane := m.sent[at].Lane
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, again := m.handled[g][id]; again {
		m.wrong = append(m.wrong, fmt.Sprintf("group %d handled %s twice", g, id))
	}
	if newest, any := m.newest[g][lane]; any && at < newest {
		m.wrong = append(m.wrong, fmt.Sprintf("group %d handled %s behind a newer one of its lane", g, id))
	}
	m.handled[g][id], m.newest[g][lane] = at, at
}

var errRefused = errors.New("refused")

// serve lets a group handle up to n events; refuse reports which deliveries fail.
func (m *trimMachine) serve(g, n int, within time.Duration, refuse func(int) bool) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var mu sync.Mutex
	count := 0
	err := m.Bus.Subscribe(ctx, m.group(g), func(ctx context.Context, d bus.Delivery) error {
		mu.Lock()
		count++
		k := count
		mu.Unlock()
		if k > n {
			<-ctx.Done()
			return ctx.Err()
		}
		if k == n {
			defer cancel()
		}
		if refuse(k) {
			return errRefused
		}
		return m.DB.Update(context.WithoutCancel(ctx), func(tx *db.Tx) error {
			tx.AfterCommit(func() { m.took(g, d.ID) })
			return d.Ack(tx)
		})
	})
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *trimMachine) left(g int) int { return len(m.sent) - len(m.handled[g]) }

func (m *trimMachine) actions() map[string]func(*rapid.T) {
	actions := map[string]func(*rapid.T){
		"publish": func(rt *rapid.T) { m.publish(rapid.IntRange(1, 5).Draw(rt, "n")) },
		"trim":    func(*rapid.T) { m.trim() },
		"restart": func(rt *rapid.T) {
			if rapid.IntRange(0, 7).Draw(rt, "database") == 0 {
				m.Engine = m.Restart(m.t)
			} else {
				m.Engine = m.Reopen(m.t)
			}
		},
		"handle": func(rt *rapid.T) {
			g := rapid.IntRange(0, 1).Draw(rt, "group")
			n := rapid.IntRange(1, 6).Draw(rt, "n")
			bad := rapid.SliceOfN(rapid.Bool(), n, n).Draw(rt, "refuse")
			if left := m.left(g); left > 0 {
				m.serve(g, min(n, left), patience, func(k int) bool { return bad[k-1] })
			}
		},
	}
	if m.Forget != nil {
		actions["remember"] = func(*rapid.T) { m.Remember() }
		actions["forget"] = func(rt *rapid.T) {
			m.Forget(rapid.Bool().Draw(rt, "everything"))
			m.Engine = m.Reopen(m.t)
		}
	}
	return actions
}

// lost lets both groups finish and returns the events that one of them did not get.
// within is how long each group waits for more work.
func (m *trimMachine) lost(within time.Duration) (out []string) {
	for g := range m.handled {
		// A delivery can end without being handled when the consumer is stopped;
		// what is kept comes again, so it is given up only without progress.
		for before := -1; m.left(g) > 0 && m.left(g) != before; {
			before = m.left(g)
			m.serve(g, before, within, func(int) bool { return false })
		}
		for _, e := range m.sent {
			if _, ok := m.handled[g][e.ID]; !ok && !slices.Contains(out, e.ID) {
				out = append(out, e.ID)
			}
		}
	}
	return out
}
