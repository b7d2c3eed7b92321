package bench

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	e2e.RemoveBinary()
	os.Exit(code)
}

func start(b *testing.B, model *llmtest.Server) *e2e.Server {
	return e2e.Start(b, "OPENAI_BASE_URL="+model.URL+"/v1", "OPENAI_API_KEY=bench", "LILAC_MODEL=openai/bench")
}

func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)-1, int(float64(len(all))*q))]
}

func micros(b *testing.B, d time.Duration, unit string) {
	b.ReportMetric(float64(d.Nanoseconds())/1e3, unit)
}

// BenchmarkAcceptedToModel measures the time from the client's POST to the arrival of the call at
// the model's server. For comparison, it reports the time of four synced commits to the same disk
// plus one millisecond, which is the target.
func BenchmarkAcceptedToModel(b *testing.B) {
	called := make(chan time.Time, 1)
	model := llmtest.New(b, func(r llmtest.Request) llmtest.Script {
		called <- r.At
		return llmtest.Say("Yes.")
	})
	s := start(b, model)
	commit := commitTime(b, s.Dir)
	var took []time.Duration
	cpu := cpuTime(b, s.PID())
	for b.Loop() {
		session := ""
		for i := range 200 {
			if i%10 == 0 { // a new conversation for every ten prompts, so that conversations stay short
				session = s.NewSession()
			}
			begin := time.Now()
			a := s.Prompt(session, "are you there?", event.Prompt)
			took = append(took, (<-called).Sub(begin))
			s.WaitEnded(a.RequestID, 10*time.Second)
		}
	}
	micros(b, quantile(took, 0.5), "µs-p50")
	micros(b, quantile(took, 0.99), "µs-p99")
	micros(b, commit, "µs-commit")
	micros(b, (cpuTime(b, s.PID())-cpu)/time.Duration(len(took)), "µs-cpu/prompt")
	b.ReportMetric(float64(quantile(took, 0.5))/float64(4*commit+time.Millisecond), "of-aim")
}

// commitTime returns the median time of a synced one-row transaction in a database on the server's
// disk: the minimum that a commit can cost there.
func commitTime(b *testing.B, dir string) time.Duration {
	b.Helper()
	bare, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "bare.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		b.Fatal(err)
	}
	defer bare.Close()
	if _, err := bare.Exec("CREATE TABLE log (data BLOB)"); err != nil {
		b.Fatal(err)
	}
	row := make([]byte, 256)
	var took []time.Duration
	for range 200 {
		begin := time.Now()
		if _, err := bare.Exec("INSERT INTO log VALUES (?)", row); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	return quantile(took, 0.5)
}

// BenchmarkTokenToReader measures how late a token of one of 100 streams reaches its reader; the
// model's server writes the time into the token. Any delay above the interval at which deltas are
// batched (40 ms) is caused by Lilac. All streams begin and end together; p99-between is of the time
// when they only stream.
func BenchmarkTokenToReader(b *testing.B) {
	const streams, tokens, delay = 100, 60, 50 * time.Millisecond
	const edge = 10 * delay
	for b.Loop() {
		all, _ := run(b, streams, tokens, delay)
		slices.SortFunc(all, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
		between := slices.DeleteFunc(slices.Clone(all), func(a arrival) bool {
			return a.at < all[0].at+edge || a.at > all[len(all)-1].at-edge
		})
		micros(b, quantile(lateness(all), 0.5), "µs-p50")
		micros(b, quantile(lateness(all), 0.99), "µs-p99")
		micros(b, quantile(lateness(between), 0.99), "µs-p99-between")
	}
}

// arrival is a token that reached its reader, at a time since the start.
type arrival struct{ at, late time.Duration }

func lateness(all []arrival) []time.Duration {
	late := make([]time.Duration, len(all))
	for i, a := range all {
		late[i] = a.late
	}
	return late
}

// BenchmarkStreams measures the cost of 500 streams of 50 tokens a second, with the model and the
// readers on the same machine.
func BenchmarkStreams(b *testing.B) {
	for _, load := range []struct {
		streams int
		delay   time.Duration
	}{{125, 20 * time.Millisecond}, {250, 20 * time.Millisecond}, {500, 20 * time.Millisecond}, {1000, 50 * time.Millisecond}} {
		b.Run(fmt.Sprintf("%dx%d", load.streams, time.Second/load.delay), func(b *testing.B) {
			for b.Loop() {
				tokens := int(10 * time.Second / load.delay)
				late, used := run(b, load.streams, tokens, load.delay)
				perToken := float64(used.flowCPU.Microseconds()) / float64(used.flowTokens)
				b.ReportMetric(perToken, "µs-cpu/token")
				b.ReportMetric(float64(used.flowCPU.Microseconds())/float64(used.flowFrames), "µs-cpu/frame")
				b.ReportMetric((float64(used.cpu.Microseconds())-perToken*float64(load.streams*tokens))/1e3/float64(load.streams), "ms-cpu/request")
				b.ReportMetric(float64(used.rss-used.idle)/1024/float64(load.streams), "KiB/stream")
				micros(b, quantile(lateness(late), 0.99), "µs-p99")
			}
		})
	}
}

// usage holds the CPU time of a run: cpu spans from the first prompt to the last answer. flowCPU
// is the time for flowTokens in flowFrames in the middle of the run, while all streams are active.
type usage struct {
	cpu, flowCPU time.Duration
	flowTokens   int64
	flowFrames   int64
	rss, idle    int64
}

// run streams tokens in n concurrent sessions and returns when, and how late, the last token of each
// frame reached its reader. It fails if a token is lost.
func run(b *testing.B, n, tokens int, delay time.Duration) ([]arrival, usage) {
	b.Helper()
	base := time.Now()
	fake := (&stampedModel{base: base, tokens: tokens, delay: delay}).listen(b)
	s := e2e.Start(b, "OPENAI_BASE_URL="+fake+"/v1", "OPENAI_API_KEY=bench", "LILAC_MODEL=openai/bench")
	used := usage{idle: rss(b, s.PID())}
	var (
		mu    sync.Mutex
		late  []arrival
		lost  atomic.Int64
		peak  atomic.Int64
		read  atomic.Int64
		fed   atomic.Int64
		wait  sync.WaitGroup
		ready sync.WaitGroup
	)
	sessions := make([]string, n)
	for i := range sessions {
		sessions[i] = s.NewSession()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for _, session := range sessions {
		wait.Add(1)
		ready.Add(1)
		go func() {
			defer wait.Done()
			done, stop := context.WithCancel(ctx)
			defer stop()
			var own []arrival
			got := ""
			_ = s.Stream(done, "session_id="+session+"&from=begin", "", func(f e2e.Frame) {
				now := time.Since(base)
				switch f.Event {
				case "session.created":
					ready.Done()
				case "stream.text":
					var p struct{ Content string }
					if json.Unmarshal(f.Data.Payload, &p) != nil {
						return
					}
					got += p.Content
					fed.Add(1)
					read.Add(int64(strings.Count(p.Content, " ")))
					if sent, ok := lastStamp(p.Content); ok {
						own = append(own, arrival{now, now - sent})
					}
				case "stream.completed", "stream.error":
					stop()
				}
			})
			if strings.Count(got, " ") != tokens {
				lost.Add(1)
			}
			mu.Lock()
			late = append(late, own...)
			mu.Unlock()
		}()
	}
	ready.Wait()
	// Measure from here on, to exclude the cost of creating sessions and opening streams. Send all
	// prompts together, so that no stream ends before the last one starts.
	cpu := cpuTime(b, s.PID())
	var prompts sync.WaitGroup
	turn := make(chan struct{}, 50)
	for _, session := range sessions {
		turn <- struct{}{}
		prompts.Go(func() {
			defer func() { <-turn }()
			s.Prompt(session, "go", event.Prompt)
		})
	}
	prompts.Wait()
	stopped := make(chan struct{})
	go func() {
		for {
			select {
			case <-stopped:
				return
			case <-time.After(200 * time.Millisecond):
				peak.Store(max(peak.Load(), rss(b, s.PID())))
			}
		}
	}()
	// Measure the middle of the run, to exclude the start and the end of requests.
	total := int64(n * tokens)
	at := func(part int64) (cpu time.Duration, tokens, frames int64) {
		for read.Load() < total*part/100 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		return cpuTime(b, s.PID()), read.Load(), fed.Load()
	}
	cpuBegin, readBegin, fedBegin := at(25)
	cpuEnd, readEnd, fedEnd := at(75)
	used.flowCPU, used.flowTokens, used.flowFrames = cpuEnd-cpuBegin, max(1, readEnd-readBegin), max(1, fedEnd-fedBegin)
	wait.Wait()
	close(stopped)
	if lost.Load() > 0 {
		b.Errorf("%d of %d streams lost tokens", lost.Load(), n)
	}
	used.cpu, used.rss = cpuTime(b, s.PID())-cpu, peak.Load()
	return late, used
}

// lastStamp returns the time in the newest token of a frame.
func lastStamp(content string) (time.Duration, bool) {
	fields := strings.Fields(content)
	if len(fields) == 0 || !strings.HasSuffix(content, " ") {
		return 0, false
	}
	n, err := strconv.ParseInt(fields[len(fields)-1], 10, 64)
	return time.Duration(n), err == nil
}

// settled is the time from the start until memory is measured: the program gives memory back after two seconds.
const settled = 5 * time.Second

// BenchmarkStart measures the time from exec to the first response of /readyz, the memory of an
// idle process, and the size of the released binary.
func BenchmarkStart(b *testing.B) {
	var took []time.Duration
	var idle int64
	for b.Loop() {
		s := e2e.New(b)
		s.Restart()
		s.Terminate(10 * time.Second)
		for range 10 {
			begin := time.Now()
			s.Spawn()
			for !s.Ready() && time.Since(begin) < time.Minute {
				time.Sleep(200 * time.Microsecond)
			}
			took = append(took, time.Since(begin))
			s.Terminate(10 * time.Second)
		}
		s.Restart()
		time.Sleep(settled)
		idle = rss(b, s.PID())
	}
	micros(b, quantile(took, 0.5), "µs-ready-p50")
	b.ReportMetric(float64(idle)/(1<<20), "MiB-idle")
}

func rss(b testing.TB, pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				b.Error(err)
			}
			return n << 10
		}
	}
	return 0
}

// clockTick is the time unit of /proc/<pid>/stat on every Linux that Go supports.
const clockTick = 10 * time.Millisecond

func cpuTime(b testing.TB, pid int) time.Duration {
	b.Helper()
	if runtime.GOOS != "linux" {
		b.Skip("processor time is read from /proc: run this on Linux")
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(data)[strings.LastIndexByte(string(data), ')')+1:])
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * clockTick
}
