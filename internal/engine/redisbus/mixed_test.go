package redisbus_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/redisbus"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/redistest"
)

// mixedTopics are outputs, of which the last two are deleted now and then, and topics
// with an index.
var mixedTopics = []event.Topic{
	"test.mixed.1", "test.mixed.2", "out.req.mixed:s:1", "out.req.mixed:s:2", "out.req.mixed:s:3", "out.req.mixed:s:4", "out.req.mixed:s:5",
}

const mixedDeleted = 2

// mixed is what many publish to many topics, each event accepted in one of several
// processes, beside what its tails saw.
type mixed struct {
	*world
	process atomic.Pointer[process] // nil while the program is not there
	topics  map[event.Topic]*mixedTopic
}

type process struct {
	db  *db.DB
	bus *redisbus.Bus
}

// Whatever happens to Redis and to the program while many publishers publish to many
// topics, some events repeatedly, each accepted event is stored once, in the order of its
// publisher, and nothing is reported as damage.
func TestManyTopicsOutliveRedisAndTheProgram(t *testing.T) {
	runs, rounds := 1, 8
	if bustest.Long() {
		runs, rounds = 40, 15
	}
	for n := range runs {
		t.Run(fmt.Sprint("run ", n), func(t *testing.T) {
			for _, wrong := range mix(t, rounds, patience, func(m *mixed, random *rand.Rand) {
				n := random.IntN(len(mixedMishaps))
				t.Log("mishap", n)
				mixedMishaps[n](m, random)
			}) {
				t.Error(wrong)
			}
		})
	}
}

func TestControlManyTopicsLoseAndRepeatEvents(t *testing.T) {
	for want, mishap := range map[string]func(*mixed, *rand.Rand){
		"is lost": func(m *mixed, _ *rand.Rand) { m.server.Do("DEL", "lilac:s:"+string(plainest)) },
		"is there twice": func(m *mixed, _ *rand.Rand) { // with what makes it known at its place
			m.restart(func() {
				key := "lilac:s:" + string(plainest)
				first := m.server.Do("XRANGE", key, "-", "+", "COUNT", "1").([]any)[0].([]any)[1].([]any)
				last := m.server.Do("XREVRANGE", key, "+", "-", "COUNT", "1").([]any)[0].([]any)[0].(string)
				m.server.Do("XADD", key, last+"0", "i", first[1].(string), "e", first[3].(string))
			})
		},
	} {
		if wrong := mix(t, 1, time.Second, mishap); !slices.ContainsFunc(wrong, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("not seen: an event that %s: %q", want, wrong)
		}
	}
}

const plainest event.Topic = "out.req.mixed:s:1"

var mixedMishaps = []func(m *mixed, random *rand.Rand){
	func(m *mixed, _ *rand.Rand) { m.server.Forget() },
	func(m *mixed, _ *rand.Rand) {
		m.caughtUp(mixedTopics...)
		for _, topic := range m.topics {
			topic.excuse(topic.early)
		}
		m.afterLoss(m.server.FlushAll)
	},
	func(m *mixed, _ *rand.Rand) {
		for range 5 {
			m.server.Do("SCRIPT", "FLUSH")
			time.Sleep(time.Millisecond) // not to wait for something: to hit more batches
		}
	},
	func(m *mixed, _ *rand.Rand) {
		m.server.Kill()
		m.server.Restart()
	},
	func(m *mixed, random *rand.Rand) { // it stands still, and takes late what was given up
		m.server.Pause()
		time.Sleep(time.Duration(random.IntN(900)) * time.Millisecond)
		m.server.Resume()
	},
	func(m *mixed, random *rand.Rand) {
		for range 1 + random.IntN(3) {
			m.server.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		}
	},
	func(m *mixed, _ *rand.Rand) { m.restart(func() {}) },
	func(m *mixed, _ *rand.Rand) { // the program ends while Redis is away
		m.server.Kill()
		m.restart(m.server.Restart)
	},
	func(m *mixed, random *rand.Rand) {
		name := mixedTopics[len(mixedTopics)-1-random.IntN(mixedDeleted)]
		m.undisturbed(name, func() { // or nobody knows which it hits
			m.topics[name].excuse(m.topics[name].all())
			m.server.Do("DEL", "lilac:s:"+string(name))
		})
	},
}

// restart ends the program while all publish, and begins it again after something.
func (m *mixed) restart(meanwhile func()) {
	m.process.Store(nil)
	m.close()
	for _, topic := range m.topics {
		topic.trying.Lock() // or one that was accepted is not noted
		topic.early = topic.all()
		topic.trying.Unlock()
	}
	meanwhile()
	m.open()
	m.process.Store(&process{m.db, m.bus})
	m.healthy()
	for _, name := range mixedTopics {
		m.undisturbed(name, func() {}) // what an earlier process was given is accepted
	}
}

// undisturbed calls do while no publisher is active on a topic and all of its accepted
// events have been seen.
func (m *mixed) undisturbed(name event.Topic, do func()) {
	m.t.Helper()
	topic := m.topics[name]
	topic.publishing.Lock()
	defer topic.publishing.Unlock()
	m.caughtUp(name)
	do()
}

// caughtUp waits until the tails have seen all accepted events.
func (m *mixed) caughtUp(topics ...event.Topic) {
	m.t.Helper()
	for _, name := range topics {
		p := m.topics[name]
		all := p.all()
		until(m.t, fmt.Sprint("the tail of ", name, " has seen all"), func() bool { return p.unseen(all) == 0 })
	}
}

// stored returns the ids of a topic in Redis after a position.
func (m *mixed) stored(topic event.Topic, after string) (ids []string) {
	from := "-"
	if after != "" {
		from = "(" + after
	}
	entries, _ := m.server.Do("XRANGE", "lilac:s:"+string(topic), from, "+").([]any)
	for _, e := range entries {
		ids = append(ids, e.([]any)[1].([]any)[1].(string))
	}
	return ids
}

// mix publishes while mishaps happen. When no more events arrive for a while, it returns
// the errors that it found.
func mix(t *testing.T, rounds int, within time.Duration, mishap func(*mixed, *rand.Rand)) (wrong []string) {
	// The program dies with Redis, so Redis must have written what it acknowledged.
	server := redistest.Start(t, redistest.Options{Config: []string{"appendfsync no"}})
	m := &mixed{world: &world{t: t, server: server, dir: t.TempDir(), url: server.URL(), replyWithin: 400 * time.Millisecond}, topics: map[event.Topic]*mixedTopic{}}
	m.open()
	m.process.Store(&process{m.db, m.bus})
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var tailing, publishing sync.WaitGroup
	for _, name := range mixedTopics {
		p := &mixedTopic{name: name, excused: map[string]bool{}, places: map[string]bus.Position{}}
		m.topics[name] = p
		tailing.Go(func() { m.follow(ctx, p) })
	}
	defer tailing.Wait()
	defer stop()
	ending, end := context.WithCancel(ctx)
	defer publishing.Wait()
	defer end()
	var count atomic.Int64
	for n := range writers {
		publishing.Go(func() { m.publish(ending, n, seed, &count) })
	}
	goesOn := func() {
		server.Remember()
		some := count.Load() + 20*writers
		until(t, "publishing goes on", func() bool { return t.Failed() || count.Load() >= some })
	}
	goesOn()
	for range rounds {
		mishap(m, random)
		m.healthy()
		goesOn()
	}
	end()
	publishing.Wait()
	until(t, "all is sent", func() bool { return m.bus.Unsent() == 0 })
	total := 0
	for _, name := range mixedTopics {
		p := m.topics[name]
		total += len(p.accepted)
		done(within, func() int { return p.unseen(p.all()) })
		gone, _ := server.Do("HGET", "lilac:m:"+string(name), "t").(string)
		listed, err := m.listed(name)
		if behind := m.stored(name, gone); err != nil || !slices.Equal(listed, behind) {
			wrong = append(wrong, fmt.Sprintf("%s from its beginning has %d events, want the %d behind %s: %v", name, len(listed), len(behind), gone, err))
		}
		there := slices.DeleteFunc(slices.Clone(p.accepted), func(id string) bool { return p.excused[id] })
		p.mu.Lock()
		wrong = slices.Concat(wrong, astray(string(name)+" in Redis", there, m.stored(name, "")), astray("the tail of "+string(name), p.accepted, p.tailed), p.wrong)
		p.mu.Unlock()
	}
	t.Logf("%d mishaps, %d events", rounds, total)
	bad, err := redisbus.Verify(context.Background(), redisbus.Options{URL: m.url, ReplyWithin: patience})
	if err != nil {
		t.Error(err)
	}
	for _, damage := range bad { // where something is rightly missing, it is rightly said
		if !slices.ContainsFunc(mixedTopics, func(name event.Topic) bool {
			return len(m.topics[name].excused) > 0 && strings.Contains(damage, string(name)+" ")
		}) {
			wrong = append(wrong, "verify: "+damage)
		}
	}
	return wrong
}
