package clock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/core/clock"
	"lilac/internal/core/environment"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/store"
	"lilac/internal/testkit/dbtest"
)

// intake is the real one, and knows what was published.
type intake struct {
	*environment.Intake
	mu    sync.Mutex
	fired []string
	fail  error
}

func (i *intake) Publish(ctx context.Context, from environment.SourceID, queue int, e event.EnvEvent, also func(*db.Tx) (bool, error)) (bool, error) {
	i.mu.Lock()
	fail := i.fail
	i.mu.Unlock()
	if fail != nil {
		return false, fail
	}
	published, err := i.Intake.Publish(ctx, from, queue, e, also)
	if published {
		i.mu.Lock()
		i.fired = append(i.fired, e.ID)
		i.mu.Unlock()
	}
	return published, err
}

func (i *intake) all() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.fired)
}

func (i *intake) failing(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.fail = err
}

// inBubble runs fn with a service whose time is that of a bubble. The clock
// that it reads can be set.
func inBubble(t *testing.T, fn func(t *testing.T, i *intake, start func(now func() time.Time, timers ...clock.Timer) (stop func()))) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		database, err := db.Open(context.Background(), dbtest.Options(db.Options{Dir: dir, Migrations: slices.Concat(sqlitebus.Migrations, store.Migrations)}))
		if err != nil {
			t.Fatal(err)
		}
		b, err := sqlitebus.New(database, sqlitebus.Options{})
		if err != nil {
			t.Fatal(err)
		}
		i := &intake{Intake: environment.NewIntake(database, store.Inbox{})}
		fn(t, i, func(now func() time.Time, timers ...clock.Timer) func() {
			s := clock.New(clock.Options{DB: database, Timers: store.Timers{}, Intake: i, Now: now})
			s.Set(timers)
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- s.Run(ctx) }()
			return func() {
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		})
		if err := errors.Join(b.Close(), database.Close()); err != nil {
			t.Error(err)
		}
	})
}

func ids(name string, slots ...time.Time) (out []string) {
	for _, s := range slots {
		out = append(out, fmt.Sprintf("timer:%s:%d", name, s.Unix()))
	}
	return out
}

// The time of a bubble begins at midnight on the first of January 2000.
func day(hour, minute int) time.Time { return time.Date(2000, 1, 1, hour, minute, 0, 0, time.UTC) }

func TestTimersFireAtTheirSlots(t *testing.T) {
	inBubble(t, func(t *testing.T, i *intake, start func(func() time.Time, ...clock.Timer) func()) {
		stop := start(time.Now, timer(t, "30 * * * *", "UTC", false))
		time.Sleep(2*time.Hour + time.Second)
		stop()
		if got, want := i.all(), ids("t", day(0, 30), day(1, 30)); !slices.Equal(got, want) {
			t.Errorf("fired %q, want %q", got, want)
		}
	})
}

func TestASlotThatWasMissedFiresOnce(t *testing.T) {
	for name, skip := range map[string]bool{"once": false, "skip": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, i *intake, start func(func() time.Time, ...clock.Timer) func()) {
				tm := timer(t, "0 * * * *", "UTC", skip)
				stop := start(time.Now, tm)
				time.Sleep(time.Second)
				stop()
				time.Sleep(5*time.Hour + 30*time.Minute) // down
				for range 2 {                            // the second start finds nothing to do
					stop = start(time.Now, tm)
					time.Sleep(time.Minute)
					stop()
				}
				want := ids("t", day(5, 0))
				if skip {
					want = nil
				}
				if got := i.all(); !slices.Equal(got, want) {
					t.Errorf("fired %q, want %q", got, want)
				}
			})
		})
	}
}

func TestAClockThatIsSet(t *testing.T) {
	for name, c := range map[string]struct {
		by   time.Duration
		want []time.Time
	}{
		// At 00:30 it is set by two hours: 02:00 was passed over and comes at once.
		"forward": {2 * time.Hour, []time.Time{day(2, 0), day(3, 0), day(4, 0)}},
		// At 01:30 of the bubble it shows 00:30 again: 01:00 has been.
		"back": {-time.Hour, []time.Time{day(1, 0), day(2, 0)}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, i *intake, start func(func() time.Time, ...clock.Timer) func()) {
				var mu sync.Mutex
				var by time.Duration
				stop := start(func() time.Time {
					mu.Lock()
					defer mu.Unlock()
					return time.Now().Add(by)
				}, timer(t, "0 * * * *", "UTC", false))
				set := 30 * time.Minute
				if c.by < 0 {
					set += time.Hour
				}
				time.Sleep(set)
				mu.Lock()
				by = c.by
				mu.Unlock()
				time.Sleep(95 * time.Minute) // shows 04:05, 02:05
				stop()
				if got, want := i.all(), ids("t", c.want...); !slices.Equal(got, want) {
					t.Errorf("fired %q, want %q", got, want)
				}
			})
		})
	}
}

func TestWhatCannotBeWrittenIsTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, i *intake, start func(func() time.Time, ...clock.Timer) func()) {
		stop := start(time.Now, timer(t, "0 * * * *", "UTC", false))
		defer func() { stop() }()
		i.failing(errors.New("the disk is full"))
		time.Sleep(time.Hour + 10*time.Second)
		i.failing(nil)
		time.Sleep(10 * time.Second)
		if got, want := i.all(), ids("t", day(1, 0)); !slices.Equal(got, want) {
			t.Errorf("fired %q, want %q", got, want)
		}
		// What is dropped at the limit is not tried again and again.
		i.failing(fault.New(fault.RateLimited, "full"))
		time.Sleep(time.Hour)
		i.failing(nil)
		time.Sleep(time.Hour)
		if got, want := i.all(), ids("t", day(1, 0), day(3, 0)); !slices.Equal(got, want) {
			t.Errorf("fired %q, want %q", got, want)
		}
	})
}

func TestATimerThatCameBackBeginsAnew(t *testing.T) {
	inBubble(t, func(t *testing.T, i *intake, start func(func() time.Time, ...clock.Timer) func()) {
		tm := timer(t, "0 * * * *", "UTC", false)
		start(time.Now, tm)()
		start(time.Now, tm)()
		stop := start(time.Now, tm)
		time.Sleep(time.Second)
		stop()
		stop = start(time.Now) // it was taken out of the configuration
		time.Sleep(3 * time.Hour)
		stop()
		stop = start(time.Now, tm)
		time.Sleep(time.Minute)
		stop()
		if got := i.all(); len(got) > 0 {
			t.Errorf("fired %q for the time in which there was no timer", got)
		}
	})
}
