package bustest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
)

// Storage is the storage of an engine that several processes open in turn.
type Storage struct {
	Dir string
	// Env holds the environment variables that a child needs in addition to the
	// directory.
	Env []string
	// Open opens the engine in this process. The engine closes when the test ends, or
	// earlier.
	Open func(t testing.TB) Engine
}

func (s Storage) start(t testing.TB, role, consumer string) *Child {
	t.Helper()
	return StartChild(t, s.Dir, role, nil, append(s.Env, ChildWho+"="+consumer)...)
}

// poisoned publishes an event for the children's group, then closes the engine.
func (s Storage) poisoned(t testing.TB) {
	t.Helper()
	e := s.Open(t)
	if err := e.Bus.Declare(context.Background(), ChildGroup()); err != nil {
		t.Fatal(err)
	}
	publish(t, e.Bus, Event(Topic, "poison", "l"))
	e.Close(t)
}

// begun starts a child and waits until its handler has the event.
func (s Storage) begun(t testing.TB) *Child {
	t.Helper()
	s.poisoned(t)
	c := s.start(t, "consume", "first")
	if got := c.Line(); got != "poison 1" {
		t.Fatalf("first delivery %q", got)
	}
	return c
}

// takenWithin returns how soon after the end of a lease the work of a dead process must
// be taken over: two seconds, or twenty times that on a busy machine.
func takenWithin() time.Duration {
	if Long() {
		return 2 * time.Second
	}
	return 40 * time.Second
}

// DeadWork checks that the work of a process that died is taken over: by the same
// consumer at once, and by another one only after the lease has expired.
func DeadWork(t *testing.T, fresh func(testing.TB) Storage) {
	for name, successor := range map[string]string{
		"the same consumer takes it back at once": "first",
		"another consumer waits for the lease":    "second",
	} {
		t.Run(name, func(t *testing.T) {
			s := fresh(t)
			c := s.begun(t)
			AwaitHeartbeats(t, s.Dir, time.Now())
			c.Kill()
			died, lease := time.Now(), LeaseEnd(t, s.Dir)
			next := s.start(t, "consume", successor)
			if got := next.Line(); got != "poison 2" {
				t.Fatalf("delivery after the death %q", got)
			}
			taken := time.Now()
			next.Kill()
			limit := takenWithin()
			if successor == "second" {
				limit += ChildLease
			}
			if after := taken.Sub(died); after > limit {
				t.Errorf("taken over after %v, want at most %v", after, limit)
			} else {
				t.Logf("taken over after %v", after.Round(time.Millisecond))
			}
			if successor == "second" && taken.Before(lease) {
				t.Errorf("taken over %v before the end of the lease", lease.Sub(taken))
			}
		})
	}
}

// LapsedWork is the control of [DeadWork]: without heartbeats, another consumer does not
// wait. That consumer's own lease is so long that the test cannot be waiting for it.
func LapsedWork(t *testing.T, s Storage) {
	s.begun(t).Kill()
	e := s.Open(t)
	if err := e.DB.Update(context.Background(), func(tx *db.Tx) error {
		_, err := tx.Exec("UPDATE bus_pending SET lease_until = lease_until - ?", (3 * ChildLease).Milliseconds())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	taken := make(chan struct{})
	sub := ChildGroup()
	sub.Consumer, sub.Lease = "second", time.Hour
	subscribe(t, e.Bus, sub, func(context.Context, bus.Delivery) error {
		close(taken)
		return nil
	})
	receive(t, "the work of the dead consumer", taken)
}

// ExitingPoison checks that an event whose handler ends the process is tried five times
// and then becomes a dead letter that can be replayed, and that its lane continues.
func ExitingPoison(t *testing.T, s Storage) {
	s.poisoned(t)
	for attempt := 1; attempt <= 5; attempt++ {
		c := s.start(t, "exit", "first")
		if got, want := c.Line(), fmt.Sprint("poison ", attempt); got != want {
			t.Fatalf("delivery %q, want %q", got, want)
		}
		c.Wait()
	}
	e := s.Open(t)
	var replayed atomic.Bool
	handled := make(chan string, 2)
	sub := ChildGroup()
	sub.Consumer = "first"
	subscribe(t, e.Bus, sub, func(_ context.Context, d bus.Delivery) error {
		if d.ID == "poison" && !replayed.Load() {
			t.Error("it was handled a sixth time")
			return errors.New("poison")
		}
		handled <- d.ID
		return nil
	})
	publish(t, e.Bus, Event(Topic, "next", "l"))
	if id := receive(t, "the next of its lane", handled); id != "next" {
		t.Errorf("handled %s, want the next of its lane", id)
	}
	letters, err := e.Bus.DeadLetters(context.Background(), "", 10)
	if err != nil || len(letters) != 1 || letters[0].Event.ID != "poison" || letters[0].Attempts != 5 {
		t.Fatalf("dead letters %+v, %v; want one after 5 attempts", letters, err)
	}
	replayed.Store(true)
	if err := e.Bus.Replay(context.Background(), letters[0].ID); err != nil {
		t.Fatal(err)
	}
	if id := receive(t, "the replay", handled); id != "poison" {
		t.Errorf("handled %s, want the replayed event", id)
	}
}
