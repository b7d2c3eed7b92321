package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/telemetry/health"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
	"lilac/internal/testkit/redistest"
)

const (
	// outage is how long a broker is unavailable.
	outage = 2 * time.Second
	// late is the prompt that is sent while the broker is unavailable.
	late = "count, too"
)

// backWithin is how soon after an outage the program must work again.
func backWithin() time.Duration { return effort.Within(5 * time.Second) }

// A misfortune is a failure of a broker during conversations. At its end, the broker serves again,
// possibly with less data. It calls away at its worst moment.
type misfortune struct {
	name string
	// gone means that the broker does not answer while away is called.
	gone   bool
	strike func(r *redistest.Server, away func())
}

var misfortunes = []misfortune{
	{"it is killed and started again", true, func(r *redistest.Server, away func()) {
		r.Kill()
		away()
		r.Restart()
	}},
	{"it stands still", true, func(r *redistest.Server, away func()) {
		r.Pause()
		away()
		r.Resume()
	}},
	{"its connections are cut, again and again", false, func(r *redistest.Server, away func()) {
		for range 20 {
			r.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			time.Sleep(outage / 20)
		}
		away()
	}},
	{"it loses its last second", true, func(r *redistest.Server, away func()) {
		early := r.Snapshot()
		time.Sleep(time.Second)
		r.Kill()
		away()
		r.Rollback(early)
	}},
	{"it loses everything while it is down", true, func(r *redistest.Server, away func()) {
		r.Kill()
		away()
		r.Rollback(redistest.Snapshot{})
	}},
	{"it has no memory left", true, func(r *redistest.Server, away func()) {
		r.Do("CONFIG", "SET", "maxmemory", "1")
		away()
		r.Do("CONFIG", "SET", "maxmemory", "0")
	}},
	{"it becomes a replica for a while", true, func(r *redistest.Server, away func()) {
		r.Do("REPLICAOF", "127.0.0.1", "1")
		away()
		r.Do("REPLICAOF", "NO", "ONE")
	}},
	flushed,
}

var flushed = misfortune{"it is flushed while it runs", false, func(r *redistest.Server, away func()) {
	r.FlushAll()
	away()
}}

// Whatever happens to the broker during a conversation, each request gets exactly one answer, also
// one that is sent while the broker is unavailable. Readers of the event stream see every answer
// once. The short form tests only the first misfortune.
func TestConversationsOutliveTheirBroker(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	chosen := misfortunes
	if testing.Short() {
		chosen = misfortunes[:1]
	}
	for _, m := range chosen {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			for _, wrong := range outlive(t, m) {
				t.Error(wrong)
			}
		})
	}
}

// outlive makes a misfortune happen while answers stream. It returns the problems that remain at
// the end.
func outlive(t *testing.T, m misfortune) (wrong []string) {
	t.Helper()
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	const words, lateWords = 100, 5
	model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		n := words
		if r.LastText() == late {
			n = lateWords
		}
		return llmtest.Script{Text: llmtest.Words(numbers(n)), Delay: 50 * time.Millisecond}
	})
	r := redistest.Start(t, redistest.Options{})
	s := e2e.Start(t, append(e2e.WithRedis(r), modelEnv(model.URL)...)...)
	reader := follow(t, s, "")
	all := startMany(t, s, many(5, 20))
	var asked []e2e.Accepted
	m.strike(r, func() {
		a, code := s.TryPrompt(s.NewSession(), late, event.Prompt, "")
		if code != http.StatusOK {
			add("a prompt was answered with %d", code)
			return
		}
		asked = append(asked, a)
		if m.gone && !e2e.Poll(answerWithin, func() bool { return degraded(s) }) {
			add("/readyz does not say that the broker is away")
		}
		if !s.Ready() {
			add("/readyz is not ready, although only the broker is away")
		}
		time.Sleep(outage)
	})
	back := time.Now()
	if !e2e.Poll(backWithin(), func() bool { return model.Count() >= len(all)+len(asked) }) {
		add("the program was not at work %s after the broker was back", backWithin())
	}
	t.Logf("at work %s after the broker was back", time.Since(back))
	wrong = append(wrong, unanswered(t, s, all, numbers(words), 2*answerWithin)...)
	wrong = append(wrong, unanswered(t, s, asked, numbers(lateWords), answerWithin)...)
	wrong = append(wrong, reader.missed(all, numbers(words), answerWithin)...)
	wrong = append(wrong, reader.missed(asked, numbers(lateWords), answerWithin)...)
	all = append(all, asked...)
	for _, a := range all {
		if n := s.Story(a.RequestID).Recoveries; n > 0 {
			add("%s was taken up %d times, but the program went on", a.RequestID, n)
		}
	}
	running, ends := map[string]int{}, map[string]int{}
	e2e.Poll(answerWithin, func() bool {
		clear(running)
		clear(ends)
		for _, e := range s.Topic("evt.request") {
			p, _ := event.Decode(e)
			switch l, _ := p.(event.RequestLifecycle); {
			case l.State == event.StateRunning:
				running[e.Headers.RequestID()]++
			case l.State.Ended():
				ends[e.Headers.RequestID()]++
			}
		}
		return len(ends) >= len(all)
	})
	if len(running) != len(all) || len(ends) != len(all) {
		add("of %d requests %d were seen running and %d were seen to end", len(all), len(running), len(ends))
	}
	if !e2e.Poll(answerWithin, func() bool { return s.Ready() && !degraded(s) }) {
		add("/readyz does not say that the broker is back")
	}
	if !e2e.Poll(answerWithin, func() bool { return r.Do("XLEN", "lilac:s:evt.request") == int64(len(s.Topic("evt.request"))) }) {
		add("%v events are mirrored, of %d", r.Do("XLEN", "lilac:s:evt.request"), len(s.Topic("evt.request")))
	}
	return wrong
}

// degraded reports whether /readyz says that the broker does not do its work.
func degraded(s *e2e.Server) bool {
	var report health.Report
	s.Request("GET", "/readyz", nil, &report)
	return slices.ContainsFunc(report.Parts, func(p health.Part) bool {
		return p.Name == "redis" && p.Status == health.Warning && strings.Contains(p.Message, "degraded")
	})
}

// A stop finishes in time even if the broker hangs.
func TestAStopDoesNotWaitForABrokerThatIsAway(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	r := redistest.Start(t, redistest.Options{})
	bus := func(testing.TB) []string { return e2e.WithRedis(r) }
	stop := func(s *e2e.Server) {
		r.Pause()
		terminate(s)
		r.Resume()
	}
	for _, wrong := range stopAndGoOn(t, bus, 3, stopWithin(), stop) {
		t.Error(wrong)
	}
}

// A prompt that is accepted during an outage of the broker gets an answer, even if the program is
// killed, and restarts during the outage.
func TestAPromptOutlivesBothBrokerAndProgram(t *testing.T) {
	t.Parallel()
	for _, wrong := range outliveBoth(t) {
		t.Error(wrong)
	}
}

func outliveBoth(t *testing.T) []string {
	t.Helper()
	model := slowModel(t, 3, time.Millisecond)
	r := redistest.Start(t, redistest.Options{})
	s := e2e.Start(t, append(e2e.WithRedis(r), modelEnv(model.URL)...)...)
	session := s.NewSession()
	r.Kill()
	accepted := s.Prompt(session, "count", event.Prompt)
	s.Kill()
	s.Restart() // without Redis
	wrong := unanswered(t, s, []e2e.Accepted{accepted}, numbers(3), answerWithin)
	e2e.Eventually(t, answerWithin, "it says that the broker is away", func() bool { return degraded(s) })
	return wrong
}

// An event that another program hands in through Redis is published once, although the program is
// killed between the commit and the acknowledgement. Control: the entry is still in the stream.
func TestAnEventHandedInThroughRedisOutlivesAKill(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, redistest.Options{})
	s := e2e.New(t, e2e.WithRedis(r)...)
	s.Spawn("LILAC_KILL_AT=taken:handed")
	r.Do("XADD", "lilac:in", "*", "event", `{"id":"handed-1","type":"custom.build","payload":{"ok":true}}`)
	if !s.WaitExit(answerWithin) {
		t.Fatal("control: the program was not killed")
	}
	if r.Do("XLEN", "lilac:in") != int64(1) {
		t.Error("control: the entry was acknowledged")
	}
	s.Restart()
	r.Do("XADD", "lilac:in", "*", "event", `{"id":"handed-1","type":"custom.build"}`)
	r.Do("XADD", "lilac:in", "*", "event", `{"id":"forged","type":"user_query"}`)
	r.Do("XADD", "lilac:in", "*", "event", `{"type":"custom.build","metadata":{"trigger_session_id":"nobody"}}`)
	e2e.Eventually(t, answerWithin, "all are taken", func() bool { return r.Do("XLEN", "lilac:in") == int64(0) })
	found := 0
	for _, e := range s.Topic("env") {
		if e.Type == "custom.build" || e.ID == "forged" {
			found++
		}
	}
	if found != 1 {
		t.Errorf("%d events were published, want 1", found)
	}
	if n := r.Do("XLEN", "lilac:in:dead"); n != int64(2) {
		t.Errorf("%v entries were rejected, want 2", n)
	}
	e2e.Eventually(t, answerWithin, "it is said", func() bool { return degraded(s) && s.Ready() })
}
