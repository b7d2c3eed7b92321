package sqlitebus_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"lilac/internal/bus"
	"lilac/internal/bustest"
	"lilac/internal/db"
	"lilac/internal/sqlitebus"
)

// long reports whether the long forms of the proofs were asked for.
func long() bool { return os.Getenv("LILAC_LONG") != "" }

func storedIDs(t testing.TB, b bus.Bus) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	var after bus.Position
	for {
		got, err := b.Fetch(context.Background(), bustest.Topic, after, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 {
			return out
		}
		for _, d := range got {
			out[d.ID], after = true, d.Position
		}
	}
}

func missing(acked []string, stored map[string]bool) (lost int) {
	for _, id := range acked {
		if !stored[id] {
			lost++
		}
	}
	return lost
}

// D1: what was acknowledged survives kill -9.
func TestAcknowledgedSurvivesKill(t *testing.T) {
	loops := 5
	if long() {
		loops = 200
	}
	dir := t.TempDir()
	var acked []string
	for n := range loops {
		c := bustest.StartChild(t, dir, "publish", nil, fmt.Sprintf("%s=%d", childFrom, n))
		for range 250 + 13*(n%20) {
			if id := c.Line(); id != "" {
				acked = append(acked, id)
			}
		}
		acked = append(acked, c.Kill()...)
		// What was cut off in the middle of a line was not acknowledged in full.
		if last := acked[len(acked)-1]; strings.Count(last, "-") != 3 {
			acked = acked[:len(acked)-1]
		}
	}
	_, b := openBus(t, dir, db.Options{}, sqlitebus.Options{TrimEvery: -1})
	stored := storedIDs(t, b)
	if lost := missing(acked, stored); lost > 0 {
		t.Errorf("%d of %d acknowledged events are lost", lost, len(acked))
	}
	t.Logf("%d kills, %d acknowledged, %d stored", loops, len(acked), len(stored))
	// The control: an event that was acknowledged and is not there is noticed.
	delete(stored, acked[0])
	if missing(acked, stored) != 1 {
		t.Error("control: the test does not notice a lost event")
	}
}

// D2: acknowledged means synced. Under strace no acknowledgement is written
// before a sync that began after the last write to the log of the database.
func TestAcknowledgedMeansSynced(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("strace is missing")
		}
		t.Skip("strace is missing: apt-get install strace")
	}
	if early, acks := earlyAcks(t, strace, "FULL"); early > 0 || acks < 100 {
		t.Errorf("%d of %d acknowledgements came before their sync", early, acks)
	}
	if early, acks := earlyAcks(t, strace, "OFF"); early < acks/2 {
		t.Errorf("control: with synchronous=OFF only %d of %d acknowledgements were found early", early, acks)
	}
}

var (
	straceLine = regexp.MustCompile(`^\d+\s+(?:<\.\.\. )?(pwrite64|write|fdatasync|fsync)(?:\((\d+)| resumed)(.*)`)
	eventID    = regexp.MustCompile(`e-\d+-\d+-\d+`)
)

// earlyAcks counts the acknowledgements (ids on stdout) that were written before
// a sync had ended that followed the write of the event to the database.
func earlyAcks(t *testing.T, strace, sync string) (early, acks int) {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace")
	c := bustest.StartChild(t, t.TempDir(), "publish",
		[]string{strace, "-f", "-o", trace, "-s", "4200", "-e", "trace=pwrite64,write,fdatasync,fsync"},
		childSync+"="+sync, childMost+"=25")
	for c.Line() != "" {
	}
	c.Wait()
	f, err := os.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dirty, synced := map[string]bool{}, map[string]bool{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		m := straceLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		switch call, fd, rest := m[1], m[2], m[3]; {
		case strings.HasSuffix(call, "sync"):
			if !strings.Contains(rest, "unfinished") {
				for id := range dirty {
					synced[id] = true
				}
				clear(dirty)
			}
		case call == "pwrite64":
			for _, id := range eventID.FindAllString(rest, -1) {
				dirty[id] = true
			}
		case call == "write" && fd == "1":
			for _, id := range eventID.FindAllString(rest, -1) {
				acks++
				if !synced[id] {
					early++
				}
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return early, acks
}

// D6: the work of a process that died is taken over: by the same consumer at
// once, by another one when the lease is over.
func TestDeadWorkIsTakenOver(t *testing.T) {
	for _, row := range []struct {
		name, successor string
		early           bool
	}{
		{"the same consumer takes it back at once", "first", true},
		{"another consumer waits for the lease", "second", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			prepare(t, dir)
			c := bustest.StartChild(t, dir, "consume", nil, bustest.ChildWho+"=first")
			if got := c.Line(); got != "poison 1" {
				t.Fatalf("first delivery %q", got)
			}
			bustest.AwaitHeartbeats(t, dir, time.Now())
			c.Kill()
			died := time.Now()
			lease := bustest.LeaseEnd(t, dir)
			next := bustest.StartChild(t, dir, "consume", nil, bustest.ChildWho+"="+row.successor)
			if got := next.Line(); got != "poison 2" {
				t.Fatalf("delivery after the death %q", got)
			}
			taken := time.Now()
			next.Kill()
			// The proof says two seconds; starting a process takes long on a busy machine.
			if after, limit := taken.Sub(died), bustest.ChildLease+time.Minute; after > limit {
				t.Errorf("taken over after %v, want at most %v", after, limit)
			}
			if !row.early && taken.Before(lease) {
				t.Errorf("taken over %v before the end of the lease", lease.Sub(taken))
			}
		})
	}
}

// The control of D6: had no heartbeat come, another consumer would not wait.
// A busy machine may make it wait now and then, but not always.
func TestControlWorkWithoutHeartbeatsIsTakenAtOnce(t *testing.T) {
	const tries = 10
	var after time.Duration
	for range tries {
		if after = takeLapsed(t); after < bustest.ChildLease/3 {
			return
		}
	}
	t.Errorf("taken over after %v, and never sooner than %v; a lease that was not renewed is not noticed", after, bustest.ChildLease/3)
}

// takeLapsed returns how long a consumer waits for work whose lease is over.
func takeLapsed(t *testing.T) time.Duration {
	t.Helper()
	dir := t.TempDir()
	prepare(t, dir)
	c := bustest.StartChild(t, dir, "consume", nil, bustest.ChildWho+"=first")
	if got := c.Line(); got != "poison 1" {
		t.Fatalf("first delivery %q", got)
	}
	c.Kill()
	database, b := openBus(t, dir, db.Options{}, sqlitebus.Options{TrimEvery: -1})
	defer closeBus(t, database, b)
	alter(t, database, fmt.Sprintf("UPDATE bus_pending SET lease_until = lease_until - %d", (3*bustest.ChildLease).Milliseconds()))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s := bustest.ChildGroup()
	s.Consumer = "second"
	began, after := time.Now(), time.Duration(-1)
	err := b.Subscribe(ctx, s, func(context.Context, bus.Delivery) error {
		after = time.Since(began)
		cancel()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if after < 0 {
		t.Fatal("never taken over")
	}
	return after
}

func prepare(t *testing.T, dir string) {
	t.Helper()
	database, b := openBus(t, dir, db.Options{}, sqlitebus.Options{TrimEvery: -1})
	if err := b.Declare(context.Background(), bustest.ChildGroup()); err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(context.Background(), bustest.Event(bustest.Topic, "poison", "l")); err != nil {
		t.Fatal(err)
	}
	closeBus(t, database, b)
}

// D7: a handler that ends the process gets exactly five attempts.
func TestExitingHandlerGoesToTheDeadLetters(t *testing.T) {
	dir := t.TempDir()
	prepare(t, dir)
	for attempt := 1; attempt <= 5; attempt++ {
		c := bustest.StartChild(t, dir, "exit", nil, bustest.ChildWho+"=c")
		if got, want := c.Line(), fmt.Sprint("poison ", attempt); got != want {
			t.Fatalf("delivery %q, want %q", got, want)
		}
		c.Wait()
	}
	_, b := openBus(t, dir, db.Options{}, sqlitebus.Options{TrimEvery: -1})
	ctx, cancel := context.WithCancel(context.Background())
	handled, done := make(chan string, 1), make(chan error, 1)
	s := bustest.ChildGroup()
	s.Consumer = "c"
	go func() {
		done <- b.Subscribe(ctx, s, func(_ context.Context, d bus.Delivery) error { handled <- d.ID; return nil })
	}()
	if err := b.Publish(ctx, bustest.Event(bustest.Topic, "next", "l")); err != nil {
		t.Fatal(err)
	}
	select {
	case id := <-handled:
		if id != "next" {
			t.Errorf("handled %s a sixth time", id)
		}
	case <-time.After(time.Minute):
		t.Error("the lane did not go on")
	}
	letters, err := b.DeadLetters(ctx, "", 10)
	if err != nil || len(letters) != 1 || letters[0].Attempts != 5 {
		t.Errorf("dead letters %+v, %v; want one after 5 attempts", letters, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
