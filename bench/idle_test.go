package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"lilac/internal/e2e"
	"lilac/internal/event"
	"lilac/internal/llmtest"
)

// idleSessions is how many conversations wait in [BenchmarkIdleSessions].
const idleSessions = 100_000

// BenchmarkIdleSessions is P7: what a conversation costs in which nothing
// happens, as memory of the process, and how soon one of them is awake: from
// the client's POST to the model's server.
func BenchmarkIdleSessions(b *testing.B) {
	for b.Loop() {
		called := make(chan time.Time, 1)
		model := llmtest.New(b, func(llmtest.Request) llmtest.Script {
			called <- time.Now()
			return llmtest.Say("Yes.")
		})
		s := start(b, model)
		wake := func(session string) time.Duration {
			begin := time.Now()
			a := s.Prompt(session, "are you there?", event.Prompt)
			took := (<-called).Sub(begin)
			s.WaitEnded(a.RequestID, 10*time.Second)
			return took
		}
		// Both processes have answered the same before they are compared.
		warm := func() int64 {
			session := s.NewSession()
			for range 20 {
				wake(session)
			}
			return rss(b, s.PID())
		}
		empty := warm()
		s.Terminate(10 * time.Second)
		s.Exec(fmt.Sprintf(`INSERT INTO sessions (id, client, title, created_at, updated_at)
			WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			SELECT printf('idle-%%06d', i), 'web', 'A conversation of last week', i, i FROM n`, idleSessions))
		s.Restart()
		full := warm()
		var took []time.Duration
		for i := range 100 {
			took = append(took, wake(fmt.Sprintf("idle-%06d", 1+i*(idleSessions/100))))
		}
		b.ReportMetric(float64(max(0, full-empty))/idleSessions, "B/session")
		micros(b, quantile(took, 0.5), "µs-wake-p50")
		micros(b, quantile(took, 0.99), "µs-wake-p99")
		b.ReportMetric(float64(fewestWakeups(b, s.PID(), 5, 0)), "wakeups/s-idle")
	}
}

// TestNothingPollsWhenIdle counts how often the threads of the program wake up
// in a second in which nobody asks for anything. The control is the same count
// while one answer is streamed.
func TestNothingPollsWhenIdle(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("wake-ups are read from /proc: run this on Linux")
	}
	const most = 50
	fake := (&stampedModel{base: time.Now(), tokens: 3000, delay: 10 * time.Millisecond}).listen(t)
	s := e2e.Start(t, "OPENAI_BASE_URL="+fake+"/v1", "OPENAI_API_KEY=bench", "LILAC_MODEL=openai/bench")
	n := fewestWakeups(t, s.PID(), 20, most)
	t.Logf("%d wake-ups in a second", n)
	if n > most {
		t.Errorf("the idle program woke up %d times in its quietest second of 20, want at most %d", n, most)
	}
	session := s.NewSession()
	ctx, stop := context.WithCancel(context.Background())
	reading, read := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(read)
		first := true
		_ = s.Stream(ctx, "session_id="+session, "", func(f e2e.Frame) {
			if f.Event == "stream.text" && first {
				first = false
				close(reading)
			}
		})
	}()
	s.Prompt(session, "go", event.Prompt)
	defer func() { stop(); <-read }()
	select {
	case <-reading:
	case <-time.After(30 * time.Second):
		t.Fatal("the control did not begin")
	}
	if n := fewestWakeups(t, s.PID(), 3, most); n <= most {
		t.Errorf("control: the program woke up only %d times in a second of streaming; the count shows nothing", n)
	}
}

// fewestWakeups is how often the threads of a process woke up in the quietest
// of some seconds. It stops at the first second that is quiet enough.
func fewestWakeups(t testing.TB, pid, seconds int, enough int64) int64 {
	t.Helper()
	fewest := int64(-1)
	for range seconds {
		before := wakeups(t, pid)
		time.Sleep(time.Second)
		if n := wakeups(t, pid) - before; fewest < 0 || n < fewest {
			fewest = n
		}
		if fewest <= enough {
			break
		}
	}
	return fewest
}

// wakeups counts how often the threads of a process have waited.
func wakeups(t testing.TB, pid int) (n int64) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("no threads of %d: %v", pid, err)
	}
	for _, path := range threads {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		for line := range strings.Lines(string(data)) {
			if rest, ok := strings.CutPrefix(line, "voluntary_ctxt_switches:"); ok {
				more, err := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				n += more
			}
		}
	}
	return n
}
