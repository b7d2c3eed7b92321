package bustest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"testing"
	"time"

	"lilac/internal/engine/bus"
)

// run is one run of a handler: the index of the event in its lane, and whether it
// succeeded.
type run struct {
	lane  string
	index int
	well  bool
}

// orderFault describes the first error in the order of runs, or returns "". Within a
// lane, an event must run until it succeeds, and again if its commit was lost, before the
// next one runs. An earlier event must not run again.
func orderFault(runs []run) string {
	at, well := map[string]int{}, map[string]bool{}
	for n, r := range runs {
		switch current := at[r.lane]; {
		case r.index == current:
		case r.index == current+1 && well[r.lane]:
		case r.index > current:
			return fmt.Sprintf("run %d: event %d of lane %s before event %d was done", n, r.index, r.lane, current)
		default:
			return fmt.Sprintf("run %d: event %d of lane %s after event %d", n, r.index, r.lane, current)
		}
		at[r.lane], well[r.lane] = r.index, r.well
	}
	return ""
}

// orderKept checks that each lane is handled in the order of publishing while handlers
// sometimes fail and the engine restarts.
func orderKept(t *testing.T, open func(testing.TB) Engine) {
	const lanes, each, phases = 4, 12, 4
	e := open(t)
	var mu sync.Mutex
	var runs []run
	done := 0
	handle := func(_ context.Context, d bus.Delivery) error {
		var r run
		if _, err := fmt.Sscanf(d.ID, "%1s-%d", &r.lane, &r.index); err != nil {
			return bus.Permanent(err)
		}
		sum := fnv.New32a()
		fmt.Fprint(sum, d.ID, d.Attempt)
		r.well = sum.Sum32()%3 > 0
		mu.Lock()
		defer mu.Unlock()
		if runs = append(runs, r); !r.well {
			return errors.New("not this time")
		}
		done++
		return nil
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return done
	}
	sub := work("g")
	sub.Parallel, sub.MaxAttempts = 3, 1<<20
	sub.Backoff = func(int) time.Duration { return 2 * time.Millisecond }
	next := 0
	for phase := range phases {
		c := subscribe(t, e.Bus, sub, handle)
		before := count()
		for range each {
			for l := range lanes {
				lane := string(rune('a' + l))
				publish(t, e.Bus, Event(Topic, fmt.Sprintf("%s-%d", lane, next), lane))
			}
			next++
		}
		if phase < phases-1 {
			until(t, "some of the phase are handled", func() bool { return count() > before+lanes })
			c.end()
			e = e.Restart(t)
		}
	}
	until(t, "nothing is left", func() bool {
		g, err := e.Bus.Groups(context.Background())
		return err == nil && len(g) == 1 && g[0].Pending == 0 && g[0].Backlog == 0
	})
	mu.Lock()
	defer mu.Unlock()
	if fault := orderFault(runs); fault != "" {
		t.Error(fault)
	}
	last, retries := map[string]int{}, 0
	for _, r := range runs {
		if last[r.lane] = r.index; !r.well {
			retries++
		}
	}
	for lane, index := range last {
		if index != next-1 {
			t.Errorf("lane %s ended with event %d, want %d", lane, index, next-1)
		}
	}
	if len(last) != lanes || retries == 0 {
		t.Errorf("%d lanes, %d retries: the test shows nothing", len(last), retries)
	}
	controlOrder(t, runs)
}

// controlOrder is the control of orderFault: it must find errors added to these runs.
func controlOrder(t *testing.T, runs []run) {
	t.Helper()
	first := runs[0]
	if orderFault(append(slices.Clone(runs), first)) == "" {
		t.Error("control: the first event behind the last was not noticed")
	}
	without := slices.DeleteFunc(slices.Clone(runs), func(r run) bool { return r.lane == first.lane && r.index == 5 })
	if orderFault(without) == "" {
		t.Error("control: an event that was passed over was not noticed")
	}
}
