package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

// idleSessions is the number of idle conversations in [BenchmarkIdleSessions].
const idleSessions = 100_000

// BenchmarkIdleSessions is benchmark P7. It measures the cost of an idle conversation in memory,
// goroutines, and startup time, and the time to wake one: from the client's POST to the arrival of
// the call at the model's server. "Goroutines" is the difference to a server without these
// conversations, also after a thousand of them were woken.
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
		// Both processes must have handled the same requests before they are compared.
		warm := func() (memory int64, goroutines int) {
			session := s.NewSession()
			for range 20 {
				wake(session)
			}
			return rss(b, s.PID()), fewestGoroutines(b, s)
		}
		empty, base := warm()
		before := readyAfter(s)
		s.Exec(fmt.Sprintf(`INSERT INTO sessions (id, client, title, created_at, updated_at)
			WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			SELECT printf('idle-%%06d', i), 'web', 'A conversation of last week', i, i FROM n`, idleSessions))
		s.Restart()
		after := readyAfter(s)
		s.Restart()
		full, _ := warm()
		var took []time.Duration
		for i := range 1000 {
			took = append(took, wake(fmt.Sprintf("idle-%06d", 1+i*(idleSessions/1000))))
		}
		micros(b, before, "µs-ready-without")
		micros(b, after, "µs-ready")
		b.ReportMetric(float64(fewestGoroutines(b, s)-base), "goroutines")
		b.ReportMetric(float64(max(0, full-empty))/idleSessions, "B/session")
		micros(b, quantile(took, 0.5), "µs-wake-p50")
		micros(b, quantile(took, 0.99), "µs-wake-p99")
		b.ReportMetric(float64(fewestWakeups(b, s.PID(), 5, time.Second, 0)), "wakeups/s-idle")
	}
}

// readyAfter stops the server and returns the median time of ten starts. It leaves the server
// stopped.
func readyAfter(s *e2e.Server) time.Duration {
	s.Terminate(10 * time.Second)
	var took []time.Duration
	for range 10 {
		begin := time.Now()
		s.Restart()
		took = append(took, time.Since(begin))
		s.Terminate(10 * time.Second)
	}
	return quantile(took, 0.5)
}

// fewestGoroutines returns the number of goroutines once all requests are finished.
func fewestGoroutines(b *testing.B, s *e2e.Server) int {
	b.Helper()
	fewest := -1
	for range 20 {
		if n := goroutines(b, s); fewest < 0 || n < fewest {
			fewest = n
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fewest
}

// goroutines reads the number of goroutines from the metrics of the process.
func goroutines(b *testing.B, s *e2e.Server) int {
	b.Helper()
	req, err := http.NewRequest(http.MethodGet, "http://"+s.Addr+"/metrics", nil)
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+e2e.Token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "lilac_goroutines "); ok {
			n, err := strconv.Atoi(strings.TrimSpace(rest))
			if err != nil {
				b.Fatal(err)
			}
			return n
		}
	}
	b.Fatalf("no goroutines among the metrics: status %d", res.StatusCode)
	return 0
}

// TestNothingPollsWhenIdle counts how often the threads of the program wake up in ten seconds
// without requests, and how often the model is called. The control is the same count while one
// answer is streamed.
func TestNothingPollsWhenIdle(t *testing.T) {
	effort.SkipDetail(t)
	e2e.OnEach(t, nothingPolls)
}

func nothingPolls(t *testing.T, bus e2e.Engine) {
	if runtime.GOOS != "linux" {
		t.Skip("wake-ups are read from /proc: run this on Linux")
	}
	const most, long = 5, 10 * time.Second
	model := &stampedModel{base: time.Now(), tokens: 3000, delay: 10 * time.Millisecond}
	s := e2e.Start(t, append(bus(t), "OPENAI_BASE_URL="+model.listen(t)+"/v1", "OPENAI_API_KEY=bench", "LILAC_MODEL=openai/bench")...)
	// The program may do periodic work once a minute. On a busy machine, it may become idle only
	// after the first minute; a program that polls never becomes idle.
	n := fewestWakeups(t, s.PID(), 20, long, most)
	t.Logf("%d wake-ups in %s", n, long)
	if n > most {
		t.Errorf("the idle program woke up %d times in its quietest %s of three minutes, want at most %d", n, long, most)
	}
	session := s.NewSession()
	if asked := model.asked.Load(); asked != 0 {
		t.Errorf("the model was asked %d times, and nobody had spoken", asked)
	}
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
	case <-time.After(time.Minute):
		t.Fatal("the control did not begin")
	}
	if model.asked.Load() == 0 {
		t.Error("control: the calls of the model are not counted")
	}
	// On a busy machine, the process may get no CPU time for seconds.
	loud := int64(0)
	for range 20 {
		if loud = max(loud, fewestWakeups(t, s.PID(), 1, time.Second, 0)); loud > 10*most {
			return
		}
	}
	t.Errorf("control: the program woke up at most %d times in a second of streaming; the count shows nothing", loud)
}

// fewestWakeups returns how often the threads of a process woke up in the quietest of several
// intervals of equal length. It stops at the first interval that is quiet enough.
func fewestWakeups(t testing.TB, pid, times int, long time.Duration, enough int64) int64 {
	t.Helper()
	fewest := int64(-1)
	for range times {
		before := wakeups(t, pid)
		time.Sleep(long)
		if n := wakeups(t, pid) - before; fewest < 0 || n < fewest {
			fewest = n
		}
		if fewest <= enough {
			break
		}
	}
	return fewest
}

// wakeups returns how often the threads of a process have blocked (voluntary context switches).
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
