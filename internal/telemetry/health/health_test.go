package health_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/telemetry/health"
)

func status(r health.Report, name string) health.Status {
	for _, p := range r.Parts {
		if p.Name == name {
			return p.Status
		}
	}
	return "missing"
}

func TestEachPartTurnsRedAndGreenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sick atomic.Bool
		var told []health.Part
		m := health.New(health.Options{
			Probes: []health.Probe{
				{Name: "writer", Run: func(context.Context) error {
					if sick.Load() {
						return errors.New("the disk is gone")
					}
					return nil
				}},
				{Name: "other", Run: func(context.Context) error { return nil }},
			},
			Changed: func(p health.Part, _ error) { told = append(told, p) },
		})
		if m.Report().Ready {
			t.Error("ready before it worked")
		}
		m.Check(t.Context())
		if m.Report().Ready {
			t.Error("ready while it starts")
		}
		m.Working()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- m.Run(ctx) }()
		time.Sleep(time.Second)
		if r := m.Report(); !r.Ready || r.Reason() != "" {
			t.Errorf("not ready: %+v", r)
		}
		sick.Store(true)
		time.Sleep(health.DefaultEvery)
		if r := m.Report(); r.Ready || status(r, "writer") != health.Failed || status(r, "other") != health.OK || r.Reason() != "writer: the disk is gone" {
			t.Errorf("a sick part does not show: %+v", r)
		}
		sick.Store(false)
		time.Sleep(health.DefaultEvery)
		if r := m.Report(); !r.Ready {
			t.Errorf("not green again: %+v", r)
		}
		m.Stopping()
		if m.Report().Ready {
			t.Error("ready while it stops")
		}
		stop()
		<-done
		if len(told) != 2 || told[0].Status != health.Failed || told[1].Status != health.OK {
			t.Errorf("changes told: %+v", told)
		}
	})
}

func TestAPartThatFailsForLongIsLookedAtAsOftenAsOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		m := health.New(health.Options{Every: 5 * time.Second, Probes: []health.Probe{
			{Name: "broken", Run: func(context.Context) error { looks++; return errors.New("it is broken") }},
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := m.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if looks < 700 || looks > 740 {
			t.Errorf("it was looked at %d times in an hour", looks)
		}
	})
}

// A part at rest is hardly looked at, until somebody asks or something is done.
// The control is a part that never rests.
func TestAPartAtRestIsLookedAtWhenItMatters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks, control atomic.Int64
		var sick, stuck atomic.Bool
		told := make(chan health.Status, 10)
		m := health.New(health.Options{
			Probes: []health.Probe{
				{Name: "rests", Rests: func() bool { return true }, Run: func(ctx context.Context) error {
					looks.Add(1)
					if stuck.Load() {
						<-ctx.Done()
					}
					if sick.Load() {
						return errors.New("the disk is gone")
					}
					return ctx.Err()
				}},
				{Name: "control", Run: func(context.Context) error { control.Add(1); return nil }},
			},
			Changed: func(p health.Part, _ error) { told <- p.Status },
		})
		m.Working()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- m.Run(ctx) }()

		time.Sleep(time.Hour)
		if n, c := looks.Load(), control.Load(); n > 65 || c < 700 {
			t.Errorf("in an hour it was looked at %d times, the control %d times", n, c)
		}
		for _, want := range []health.Status{health.Failed, health.OK} {
			sick.Store(want == health.Failed)
			time.Sleep(health.DefaultEvery)
			begin := time.Now()
			if r := m.Report(); status(r, "rests") != want || r.Ready != (want == health.OK) || time.Since(begin) > 0 {
				t.Errorf("the answer after %s is %+v, want %s", time.Since(begin), r, want)
			}
			if got := <-told; got != want {
				t.Errorf("told %s, want %s", got, want)
			}
		}

		time.Sleep(time.Hour + 10*time.Second)
		sick.Store(true)
		m.Work()
		begin := time.Now()
		if got := <-told; got != health.Failed || time.Since(begin) > health.DefaultEvery {
			t.Errorf("%s is told %s after the work began", got, time.Since(begin))
		}
		sick.Store(false)
		<-told

		time.Sleep(time.Hour + 10*time.Second)
		stuck.Store(true)
		begin = time.Now()
		if r := m.Report(); !r.Ready || time.Since(begin) > 2*time.Second {
			t.Errorf("a look that has only begun is a failure, or holds up the answer for %s: %+v", time.Since(begin), r)
		}
		time.Sleep(health.DefaultPatience)
		if m.Report().Ready {
			t.Error("a look that does not come back is no failure")
		}
		stop()
		<-done
	})
}

func TestHangingProbeIsAFailureAndHidesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		stuck := make(chan struct{})
		m := health.New(health.Options{Probes: []health.Probe{
			{Name: "obeys", Run: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
			{Name: "hangs", Run: func(context.Context) error { <-stuck; return nil }},
			{Name: "works", Run: func(context.Context) error { looks.Add(1); return nil }},
		}})
		m.Working()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- m.Run(ctx) }()
		time.Sleep(time.Minute)
		r := m.Report()
		if r.Ready || status(r, "obeys") != health.Failed || status(r, "hangs") != health.Failed || status(r, "works") != health.OK {
			t.Errorf("reported %+v", r)
		}
		if !m.Hangs() {
			t.Error("it does not say that a probe hangs")
		}
		if looks.Load() < 10 {
			t.Errorf("the other part was looked at %d times", looks.Load())
		}
		close(stuck)
		stop()
		<-done
		time.Sleep(time.Hour)
		if r := m.Report(); status(r, "works") != health.Failed {
			t.Errorf("a report that nobody renews counts: %+v", r)
		}
	})
}

func TestAPartThatHasWaitedForOthersSaysSoItself(t *testing.T) {
	m := health.New(health.Options{Probes: []health.Probe{{Name: "bus", Run: func(context.Context) error {
		return fmt.Errorf("no answer from Redis: %w", context.DeadlineExceeded)
	}}}})
	m.Working()
	m.Check(t.Context())
	if parts := m.Report().Parts; !strings.HasPrefix(parts[len(parts)-1].Message, "no answer from Redis") {
		t.Errorf("reported %+v", parts)
	}
}

// A part without which no answer comes is the reason why none does, however it fails.
func TestOnlyAPartThatIsNeededHinders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := func(context.Context) error { return errors.New("it is broken") }
		hang := make(chan struct{})
		m := health.New(health.Options{Probes: []health.Probe{
			{Name: "other", Run: broken},
			{Name: "needed", Needed: true, Run: func(context.Context) error { <-hang; return nil }},
		}})
		if got := m.Report().Hindrance(); got != "not checked yet" {
			t.Errorf("at the start the hindrance is %q", got)
		}
		m.Working()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- m.Run(ctx) }()
		time.Sleep(time.Minute)
		if got := m.Report().Hindrance(); !strings.HasPrefix(got, "not responding") {
			t.Errorf("the hindrance is %q", got)
		}
		close(hang)
		synctest.Wait()
		if r := m.Report(); r.Ready || r.Hindrance() != "" {
			t.Errorf("another part is the hindrance %q: %+v", r.Hindrance(), r)
		}
		stop()
		<-done
	})
}

func TestWarningsDoNotMakeItUnready(t *testing.T) {
	m := health.New(health.Options{Probes: []health.Probe{{Name: "disk", Run: func(context.Context) error { return health.Warn("%d MiB free", 7) }}}})
	m.Working()
	m.Check(t.Context())
	if r := m.Report(); !r.Ready || status(r, "disk") != health.Warning {
		t.Errorf("reported %+v", r)
	}
}

func TestOnlyWhatLastsLongerThanTheStartIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		probe func(age time.Duration) error
		want  string
	}{
		"it is up a moment later": {func(age time.Duration) error {
			if age == 0 {
				return health.Warn("not reached yet")
			}
			return nil
		}, ""},
		"it stays down": {func(time.Duration) error { return health.Warn("not reached yet") }, "not reached yet"},
		"it fails":      {func(time.Duration) error { return errors.New("broken") }, "broken"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun, told := time.Now(), ""
				m := health.New(health.Options{
					Probes:  []health.Probe{{Name: "part", Run: func(context.Context) error { return c.probe(time.Since(begun)) }}},
					Changed: func(p health.Part, _ error) { told += p.Message },
				})
				ctx, stop := context.WithTimeout(t.Context(), health.DefaultEvery/2)
				defer stop()
				_ = m.Run(ctx)
				if told != "" {
					t.Errorf("at the start, it told %q", told)
				}
				ctx, stop = context.WithTimeout(t.Context(), 3*health.DefaultEvery)
				defer stop()
				_ = m.Run(ctx)
				if told != c.want {
					t.Errorf("it told %q, want %q", told, c.want)
				}
			})
		})
	}
}

// A probe that the end of the monitor interrupts says nothing about its part.
func TestAnInterruptedProbeTellsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		probes := 0
		m := health.New(health.Options{
			Probes: []health.Probe{{Name: "part", Run: func(ctx context.Context) error {
				if probes++; probes == 1 {
					return nil
				}
				<-ctx.Done()
				return ctx.Err()
			}}},
			Changed: func(p health.Part, _ error) { t.Errorf("it told %+v", p) },
		})
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(health.DefaultEvery+time.Second, stop)
		_ = m.Run(ctx)
		if probes != 2 {
			t.Fatalf("%d probes, want 2", probes)
		}
		if s := status(m.Report(), "part"); s != health.OK {
			t.Errorf("the part is %s", s)
		}
	})
}

func TestPanickingProbeIsAFailure(t *testing.T) {
	m := health.New(health.Options{Probes: []health.Probe{{Name: "p", Run: func(context.Context) error { panic("no") }}}})
	m.Working()
	m.Check(t.Context())
	if m.Report().Ready {
		t.Error("it is ready")
	}
}

func TestConsumersThatDoNotGetOnAreSeen(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	p := &health.Progress{Stuck: time.Minute, Must: []string{"runner"}, Now: func() time.Time { return now }}
	see := func(b health.Backlog) error { b.Name = "runner"; return p.Check([]health.Backlog{b}) }
	busy := func(age time.Duration) health.Backlog {
		return health.Backlog{Waiting: 3, Oldest: age, Served: true}
	}
	if err := p.Check(nil); err == nil || !strings.Contains(err.Error(), "has no consumer") {
		t.Errorf("a missing consumer: %v", err)
	}
	// After a long stop much is old, and it gets on.
	for age := time.Hour; age > 0; age -= 2 * time.Minute {
		now = now.Add(30 * time.Second)
		if err := see(busy(age)); err != nil {
			t.Fatalf("work that gets on: %v", err)
		}
	}
	// One event stays the first.
	start := now
	var err error
	for err == nil && now.Sub(start) < 10*time.Minute {
		now = now.Add(10 * time.Second)
		err = see(busy(now.Sub(start)))
	}
	if took := now.Sub(start); err == nil || took < time.Minute || took > 2*time.Minute {
		t.Errorf("a stuck consumer: %v after %s", err, took)
	}
	if err := see(health.Backlog{Served: true}); err != nil {
		t.Errorf("still red with nothing waiting: %v", err)
	}
	if err := see(health.Backlog{}); err == nil {
		t.Error("a consumer that left is not seen")
	}
}

func TestDisk(t *testing.T) {
	if _, err := health.DiskAt(t.TempDir() + "/not/there/yet"); err != nil {
		t.Error(err)
	}
	for free, want := range map[uint64]string{10 << 20: "the disk is full: only 10 MiB free", 500 << 20: "500 MiB free"} {
		if err := (health.Disk{Free: free}).Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes free: %v", free, err)
		}
	}
	if err := (health.Disk{Free: 10 << 30}).Check(); err != nil {
		t.Errorf("with room: %v", err)
	}
	if got := (health.Disk{Type: 0x6969}).Network(); got != "NFS" {
		t.Errorf("NFS is called %q", got)
	}
}

// A reason stands in a sentence that has an end of its own.
func TestAReasonIsNoSentence(t *testing.T) {
	r := health.Report{Parts: []health.Part{{Name: "writer", Status: health.Failed, Message: "The database cannot be written."}}}
	if got := r.Reason(); got != "writer: The database cannot be written" {
		t.Errorf("the reason is %q", got)
	}
}
