package session

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/event"
)

// machine simulates a program that is stopped uncleanly and started again until its
// requests have ended, in virtual time.
type machine struct {
	rng      *rand.Rand
	plan     func([]unfinished, time.Duration) []recovery
	requests []*simulated
	// poison is how long after it is resumed the first request stops the program; 0 means
	// that it is like the others.
	poison func() time.Duration
	// kills is the time between a start and a kill from outside; nil means none.
	kills func() time.Duration
	stops int
}

type simulated struct {
	state State
	// works is how long its model call takes.
	works   time.Duration
	resumed time.Duration // uptime at which it was resumed, or -1
	ended   event.RequestState
}

func (r *simulated) decide(in Input) {
	var effects []Effect
	r.state, effects = Decide(r.state, in, time.Time{})
	for _, e := range effects {
		if c, ok := e.(ChangeState); ok && c.State.Ended() {
			r.ended = c.State
		}
	}
}

func newMachine(seed uint64, good int) *machine {
	m := &machine{rng: rand.New(rand.NewPCG(seed, 7)), plan: planRecovery}
	for i := range 1 + good {
		r := &simulated{works: time.Duration(1+m.rng.IntN(300)) * time.Second}
		r.decide(Message{MessageID: "m", RequestID: fmt.Sprintf("web:s%d:r", i), Queue: event.Prompt})
		m.requests = append(m.requests, r)
	}
	return m
}

func (m *machine) between(low, high time.Duration) time.Duration {
	return low + time.Duration(m.rng.Int64N(int64(high-low)))
}

// run starts the program until all requests have ended, at most so many times.
func (m *machine) run(starts int) {
	for _, r := range m.requests { // they run when the program stops for the first time
		r.resumed = 0
	}
	for m.stops = 1; m.stops <= starts; m.stops++ {
		if !m.start() {
			return
		}
	}
}

// start runs the program once and reports whether it was stopped uncleanly.
func (m *machine) start() (stopped bool) {
	var found []unfinished
	by := map[string]*simulated{}
	for i, r := range m.requests {
		if id := fmt.Sprint("s", i); r.ended == "" {
			found, by[id] = append(found, unfinished{id, r.state}), r
		}
		r.resumed = -1
	}
	var turns []recovery
	for _, p := range m.plan(found, DefaultTrial) {
		r := by[p.sessionID]
		r.decide(Recovered{Culprit: p.culprit, Turn: p.turn, Uptime: p.trial})
		if p.turn != Waiting && r.ended == "" {
			r.resumed = 0
		}
		if p.turn != AtOnce {
			turns = append(turns, p)
		}
	}
	killed := time.Duration(1<<62 - 1)
	if m.kills != nil {
		killed = m.kills()
	}
	poisoned := killed
	arm := func(r *simulated, now time.Duration) {
		if r == m.requests[0] && m.poison != nil {
			poisoned = now + m.poison()
		}
	}
	if m.requests[0].resumed == 0 {
		arm(m.requests[0], 0)
	}
	var now time.Duration
	// until lets time pass, and reports whether the program still runs then.
	until := func(t time.Duration) bool {
		for _, r := range m.requests {
			if end := r.resumed + r.works; r.ended == "" && r.resumed >= 0 && end <= min(t, killed, poisoned) && !(r == m.requests[0] && m.poison != nil) {
				id := r.state.Active.RequestID
				r.decide(Progressed{RequestID: id})
				r.decide(WouldEnd{RequestID: id})
			}
		}
		now = max(now, t)
		return now < min(killed, poisoned)
	}
	for _, p := range turns {
		r := by[p.sessionID]
		if p.turn == Waiting {
			if !until(p.after) {
				return true
			}
			r.decide(TurnCame{RequestID: p.requestID, Uptime: now + p.trial})
			r.resumed = now
			arm(r, now)
		}
		if !until(now + p.trial) {
			return true
		}
		r.decide(TrialPassed{RequestID: p.requestID})
	}
	return !until(now + time.Hour)
}

func (m *machine) failed() (good int, poison bool) {
	for i, r := range m.requests {
		switch {
		case r.ended != event.StateFailed:
		case i == 0 && m.poison != nil:
			poison = true
		default:
			good++
		}
	}
	return good, poison
}

// chargeAll is planRecovery without turns: each stop is charged to everything that ran.
func chargeAll(found []unfinished, _ time.Duration) (out []recovery) {
	for _, u := range found {
		out = append(out, recovery{sessionID: u.sessionID, culprit: u.ranAtStop()})
	}
	return out
}

func rounds() uint64 {
	if testing.Short() {
		return 200
	}
	return 3_000
}

func TestACrashLoopFailsOnlyTheRequestThatCausesIt(t *testing.T) {
	for name, c := range map[string]struct {
		low, high time.Duration
		stops     int // systemd gives up after ten failed starts in five minutes
	}{
		"a crash 60 ms to 2 s after its start": {60 * time.Millisecond, 2 * time.Second, 8},
		"a crash 5 s to 20 s after its start":  {5 * time.Second, 20 * time.Second, 40},
	} {
		t.Run(name, func(t *testing.T) {
			most := 0
			for seed := range rounds() {
				m := newMachine(seed, int(seed%21))
				m.poison = func() time.Duration { return m.between(c.low, c.high) }
				m.run(c.stops + 1)
				most = max(most, m.stops)
				if good, poison := m.failed(); good > 0 || !poison || m.stops > c.stops {
					t.Fatalf("seed %d: %d other requests failed, the cause failed: %t, after %d stops", seed, good, poison, m.stops)
				}
			}
			t.Logf("at most %d stops", most)
		})
	}
}

func TestKillsFromOutsideFailNothing(t *testing.T) {
	for seed := range rounds() / 10 {
		m := newMachine(seed, int(seed%21))
		m.kills = func() time.Duration { return m.between(60*time.Millisecond, 2*time.Second) }
		m.run(300)
		if good, _ := m.failed(); good > 0 {
			t.Fatalf("seed %d: %d requests failed", seed, good)
		}
	}
}

func TestControlWithoutTurnsACrashLoopFailsOthers(t *testing.T) {
	for name, change := range map[string]func(m *machine){
		"a crash":            func(m *machine) { m.poison = func() time.Duration { return time.Second } },
		"kills from outside": func(m *machine) { m.kills = func() time.Duration { return time.Second } },
	} {
		m := newMachine(1, 20)
		m.plan = chargeAll
		change(m)
		m.run(10)
		if good, _ := m.failed(); good < 15 {
			t.Errorf("%s: only %d others failed", name, good)
		}
	}
}

func TestPlanRecovery(t *testing.T) {
	request := func(r Recovery, change ...func(*Active)) State {
		a := &Active{RequestID: "r", Phase: Accepting, Recovery: r}
		for _, f := range change {
			f(a)
		}
		return State{Active: a}
	}
	drained := func(a *Active) { a.Drained = true }
	paused := func(a *Active) { a.Paused = &Pause{} }
	ran, again, charged := Recovery{}, Recovery{Stops: 1}, Recovery{Stops: 4, Charged: 3}
	tried := func(r Recovery) Recovery { r.Turn, r.UptimeMS = OnTrial, 5000; return r }
	waited := func(r Recovery) Recovery { r.Turn = Waiting; return r }
	for _, c := range []struct {
		name  string
		found []State
		want  string // for each session: its number, c if it is charged, its turn and the start of that
	}{
		{"a clean stop", []State{request(ran, drained), request(again, drained)}, "0 now, 1 now"},
		{"the first stop", []State{request(ran), request(ran)}, "0 now, 1 now"},
		{"the first stop, and one ran alone", []State{request(ran), request(ran, paused), {}}, "0c trial, 1 now, 2 now"},
		{"one ran alone, and the process ran for long", []State{request(again)}, "0 trial"},
		{"the second stop", []State{request(again), request(ran), request(again)}, "1 now, 0 waiting 3s, 2 waiting 3s"},
		{"the second stop, and one has not finished a call since", []State{request(again), request(ran)}, "0 trial, 1 now"},
		{"one was on trial", []State{request(again), request(tried(again)), request(waited(again))}, "0 now, 2 now, 1c waiting 10s"},
		{"one was on trial too often", []State{request(again), request(tried(charged))}, "0 now, 1c now"},
		{"it stopped without the one that waited", []State{request(again), request(waited(charged)), request(again)}, "1 now, 0 waiting 3s, 2 waiting 3s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var found []unfinished
			for i, s := range c.found {
				found = append(found, unfinished{fmt.Sprint(i), s})
			}
			var got []string
			for _, p := range planRecovery(found, 3*time.Second) {
				text := p.sessionID
				if p.culprit {
					text += "c"
				}
				switch p.turn {
				case AtOnce:
					text += " now"
				case OnTrial:
					text += " trial"
				case Waiting:
					text += fmt.Sprintf(" waiting %s", p.after)
				}
				got = append(got, text)
			}
			if got := strings.Join(got, ", "); got != c.want {
				t.Errorf("planned %s, want %s", got, c.want)
			}
		})
	}
}
