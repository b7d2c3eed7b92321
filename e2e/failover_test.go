package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/faultproxy"
	"lilac/internal/testkit/postgrestest"
)

// The primary is killed while prompts arrive, and its synchronous standby is promoted; a new standby
// takes its place. Nothing that was accepted is lost, and nothing is answered twice. The long form
// does it 20 times: LILAC_LONG=1 go test ./e2e -run PromotedStandby
func TestAPromotedStandbyLosesNothing(t *testing.T) {
	t.Parallel()
	got := endureFailovers(t, many(1, 20), true)
	t.Logf("%d failovers: %d prompts accepted, %d lost, %d answered more than once", got.failovers, got.accepted, got.lost, got.twice)
	if got.lost > 0 || got.twice > 0 || got.accepted < got.failovers {
		t.Errorf("%+v", got)
	}
}

// An asynchronous standby lacks what the primary confirmed last. The program notices and stops
// writing; what is lost is lost.
func TestControlAnAsynchronousStandbyLosesPrompts(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	got := endureFailovers(t, 1, false)
	t.Logf("%d prompts accepted, %d lost", got.accepted, got.lost)
	if got.lost == 0 || !got.noticed {
		t.Errorf("%+v; want some lost, and that the program notices", got)
	}
}

// betweenPrompts is the pause of a client before its next prompt.
const betweenPrompts = 50 * time.Millisecond

type failovers struct {
	failovers, accepted, lost, twice int
	// noticed is true if the program said that PostgreSQL has lost commits.
	noticed bool
}

// endureFailovers sends prompts during failovers. The replication is interrupted a moment before
// the primary is killed, so that the standby lacks what an asynchronous primary has confirmed.
func endureFailovers(t *testing.T, rounds int, synchronous bool) (got failovers) {
	t.Helper()
	effort.SkipPostgres(t)
	var settings []string
	if synchronous {
		settings = append(settings, postgrestest.Synchronous)
	}
	primary := postgrestest.Start(t, settings...)
	link := faultproxy.Start(t, primary.Addr())
	standby := primary.StartStandby(t, link.Addr, 0)
	url := fmt.Sprintf("postgres://postgres@%s,%s/postgres?sslmode=disable&target_session_attrs=read-write", primary.Addr(), standby.Addr())
	s := e2e.Start(t, e2e.OnPostgres(url)...)
	c := sendPrompts(t, s, 4)
	for range rounds {
		if !c.grows(3) {
			t.Fatalf("no prompt is accepted:\n%s", s.Log())
		}
		link.Silence(true)
		if !synchronous { // otherwise, commits wait now
			c.grows(3)
		}
		link.Refuse()
		primary.Kill()
		link.Silence(false)
		link.Accept(t)
		if err := standby.Promote(); err != nil {
			t.Fatal(err)
		}
		got.failovers++
		if !synchronous {
			break
		}
		port := primary.Port()
		primary = standby
		link.Route(primary.Addr())
		standby = primary.StartStandby(t, link.Addr, port)
	}
	if synchronous {
		if !c.grows(3) {
			t.Fatalf("after the failover, no prompt is accepted:\n%s", s.Log())
		}
		c.stop()
	} else {
		got.noticed = e2e.Poll(answerWithin, func() bool { _, body := s.Get("/readyz"); return strings.Contains(body, "has lost") })
		c.stop()
		s.Kill()
		s.Restart()
	}
	c.check(t, s, &got)
	return got
}

// prompts are sent by several clients, one after the other in each session, and again with the same
// key until they are accepted.
type prompts struct {
	s        *e2e.Server
	sessions []string
	stopping chan struct{}
	clients  sync.WaitGroup
	n        atomic.Int64

	mu       sync.Mutex
	accepted map[string]string // by request, the key
}

func sendPrompts(t *testing.T, s *e2e.Server, clients int) *prompts {
	t.Helper()
	p := &prompts{s: s, stopping: make(chan struct{}), accepted: map[string]string{}}
	for range clients {
		session := s.NewSession()
		p.sessions = append(p.sessions, session)
		p.clients.Go(func() { p.send(session) })
	}
	t.Cleanup(p.stop)
	return p
}

func (p *prompts) send(session string) {
	for i := 0; ; {
		key := fmt.Sprintf("%s-%d", session, i)
		if a, code := p.s.TryPrompt(session, key, event.FollowUp, key); code == http.StatusOK {
			p.mu.Lock()
			p.accepted[a.RequestID+"/"+a.MessageID] = key
			p.mu.Unlock()
			p.n.Add(1)
			i++
		}
		select { // one client is a person, not a storm
		case <-p.stopping:
			return
		case <-time.After(betweenPrompts):
		}
	}
}

// grows waits until n more prompts are accepted.
func (p *prompts) grows(n int64) bool {
	want := p.n.Load() + n
	return e2e.Poll(answerWithin, func() bool { return p.n.Load() >= want })
}

func (p *prompts) stop() {
	select {
	case <-p.stopping:
	default:
		close(p.stopping)
	}
	p.clients.Wait()
}

// check counts accepted prompts that the history does not have or has twice, and requests that did
// not end exactly once.
func (p *prompts) check(t *testing.T, s *e2e.Server, got *failovers) {
	t.Helper()
	got.accepted = len(p.accepted)
	e2e.Eventually(t, 2*answerWithin, "all requests have ended", func() bool {
		return s.Backlog() == 0 && s.Count("SELECT count(*) FROM requests WHERE ended_at = 0") == 0
	})
	said := map[string]int{}
	for _, row := range s.Rows("SELECT CAST(json AS TEXT) FROM history") {
		var m e2e.Said
		if err := json.Unmarshal([]byte(row[0]), &m); err != nil {
			t.Fatal(err)
		}
		if m.Role == "user" {
			said[m.Text()]++
		}
	}
	for _, key := range p.accepted {
		switch n := said[key]; {
		case n == 0:
			got.lost++
		case n > 1:
			got.twice++
		}
	}
	ends := map[string]int{}
	for _, e := range s.Topic("evt.request") {
		if p, err := event.Decode(e); err == nil {
			if l, ok := p.(event.RequestLifecycle); ok && l.State.Ended() {
				ends[e.Headers[event.HeaderRequestID]]++
			}
		}
	}
	for id, n := range ends {
		if n > 1 {
			t.Logf("the request %s ended %d times", id, n)
			got.twice++
		}
	}
}
