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
	"sync/atomic"
	"testing"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/dbtest"
	"lilac/internal/testkit/effort"
)

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

// D1: acknowledged events survive kill -9.
func TestAcknowledgedSurvivesKill(t *testing.T) {
	loops := 5
	if bustest.Long() {
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
		// An incomplete last line is not a full acknowledgement.
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
	effort.SkipSlow(t)
	dbtest.FileOnly(t)
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

// earlyAcks counts the acknowledgements (ids on stdout) that were written before the end
// of a sync that followed the write of the event.
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

// D6: the work of a process that died is taken over.
func TestDeadWorkIsTakenOver(t *testing.T) {
	effort.SkipSlow(t)
	bustest.DeadWork(t, fresh)
}

func TestControlWorkWithoutHeartbeatsIsTakenAtOnce(t *testing.T) { bustest.LapsedWork(t, fresh(t)) }

// D7: a handler that ends the process gets exactly five attempts.
func TestPoisonThatEndsTheProcessIsCounted(t *testing.T) { bustest.ExitingPoison(t, fresh(t)) }

// fresh returns unused storage.
func fresh(t testing.TB) bustest.Storage {
	s := storage{dir: t.TempDir(), skew: new(atomic.Int64)}
	return bustest.Storage{Dir: s.dir, Open: s.open}
}
