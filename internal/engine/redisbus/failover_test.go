package redisbus_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/faultproxy"
	"lilac/internal/testkit/redistest"
)

// pair is two servers of which one is used and the other takes over.
type pair struct {
	w     *world
	proxy *faultproxy.Proxy
	other *redistest.Server
	trace []string
}

// assignPositions makes the other one a replica of the one that is used, and waits until it
// has what that one has.
func (p *pair) follow() {
	host, port, err := net.SplitHostPort(p.w.server.Addr)
	if err != nil {
		p.w.t.Fatal(err)
	}
	p.insist("REPLICAOF", host, port)
	until(p.w.t, "the replica follows", func() bool {
		info, _ := p.other.Do("INFO", "replication").(string)
		return strings.Contains(info, "master_link_status:up")
	})
}

func (p *pair) promote() { p.insist("REPLICAOF", "NO", "ONE") }

// insist has the other one do something: it may still load what it was given.
func (p *pair) insist(args ...string) {
	until(p.w.t, strings.Join(args, " "), func() bool {
		_, err := p.other.TryDo(args...)
		return err == nil
	})
}

// cut ends the connections to a server.
func cut(s *redistest.Server) { s.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") }

// lead has what follows go to the other server.
func (p *pair) lead() {
	p.proxy.Route(p.other.Addr)
	p.w.server, p.other = p.other, p.w.server
}

// briefly waits for nothing: more or less is under way then.
func briefly(random *rand.Rand, most int) {
	time.Sleep(time.Duration(random.IntN(most)) * time.Millisecond)
}

// failOvers are how the other one takes over.
var failOvers = []struct {
	name string
	do   func(p *pair, random *rand.Rand)
}{
	{"the primary dies, its replica takes over", func(p *pair, random *rand.Rand) {
		p.follow()
		briefly(random, 30)
		p.w.server.Kill()
		p.promote()
		p.lead()
		p.other.Restart()
	}},
	{"an old replica takes over", func(p *pair, random *rand.Rand) {
		p.follow()
		briefly(random, 10)
		p.promote()
		briefly(random, 60)
		p.w.server.Kill()
		p.lead()
		p.other.Restart()
	}},
	{"who was the primary before takes over as it was", func(p *pair, random *rand.Rand) {
		p.promote()
		briefly(random, 20)
		p.lead()
		cut(p.other)
	}},
	{"two primaries, by turns", func(p *pair, random *rand.Rand) {
		p.follow()
		p.promote()
		for range 1 + random.IntN(4) {
			p.lead()
			briefly(random, 15)
			cut(p.other)
			briefly(random, 15)
		}
	}},
	{"the primary becomes a replica while it is used", func(p *pair, random *rand.Rand) {
		p.follow()
		briefly(random, 20)
		p.promote()
		briefly(random, 20)
		p.lead()
		p.follow() // the one that is still connected is emptied, and filled again
		briefly(random, 20)
		cut(p.other)
	}},
	{"the primary stands still meanwhile", func(p *pair, random *rand.Rand) {
		p.follow()
		briefly(random, 20)
		p.w.server.Pause()
		p.promote()
		p.lead()
		p.proxy.Cut()
		briefly(random, 100)
		p.other.Resume()
	}},
	{"answers get lost on the way over", func(p *pair, random *rand.Rand) {
		p.follow()
		p.proxy.LoseAnswers(true)
		briefly(random, 20)
		p.promote()
		p.lead()
		cut(p.other)
		p.proxy.LoseAnswers(false)
	}},
}

// newPair starts the server that takes over.
func newPair(w *world, proxy *faultproxy.Proxy) *pair {
	p := &pair{w: w, proxy: proxy, other: redistest.Start(w.t, redistest.Options{Config: []string{"repl-diskless-sync-delay 0"}})}
	w.server.Do("CONFIG", "SET", "repl-diskless-sync-delay", "0")
	return p
}

// Whoever takes over from whom, with what the other one had or not, each event that
// was accepted is there once.
func TestManyPublishersOutliveFailOvers(t *testing.T) {
	pairs, rounds := 1, 3
	if bustest.Long() {
		pairs, rounds = 30, 8
	}
	for n := range pairs {
		t.Run(fmt.Sprint("pair ", n), func(t *testing.T) {
			var p *pair
			wrong := unreliable(t, rounds, patience, func(w *world, proxy *faultproxy.Proxy, random *rand.Rand) {
				if p == nil {
					p = newPair(w, proxy)
				}
				if random.IntN(3) == 0 {
					n := random.IntN(len(mishaps))
					p.trace = append(p.trace, fmt.Sprint("mishap ", n))
					mishaps[n](w, proxy, random)
					return
				}
				f := failOvers[random.IntN(len(failOvers))]
				p.trace = append(p.trace, f.name)
				f.do(p, random)
			})
			if len(wrong) > 0 {
				t.Errorf("%s\nafter:\n%s", strings.Join(wrong, "\n"), strings.Join(p.trace, "\n"))
			}
		})
	}
}

func TestControlAFailOverWithoutOutgoingRowsLosesEvents(t *testing.T) {
	wrong := unreliable(t, 1, time.Second, func(w *world, proxy *faultproxy.Proxy, _ *rand.Rand) {
		p := newPair(w, proxy)
		p.follow()
		p.promote()
		before, _ := w.counts()
		until(t, "more is handled", func() bool { now, _ := w.counts(); return now > before+10 })
		forgetRows(t, w.db)
		w.server.Kill()
		p.lead()
	})
	if !slices.ContainsFunc(wrong, func(s string) bool { return strings.Contains(s, "is lost") }) {
		t.Errorf("nothing is seen to be lost: %q", wrong)
	}
}
