package session_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"lilac/internal/core/session"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/effort"
)

type decider func(s session.State, in session.Input, now time.Time) (session.State, []session.Effect)

// world simulates a session in memory: the facts that the tables would hold, and the invariants that
// must always hold.
type world struct {
	decide decider
	rng    *rand.Rand
	state  session.State
	broken []string

	messages  []session.Message
	accepted  map[string]event.Queue
	applied   map[string]string
	discarded map[string]bool
	joined    map[string]string // request that a message joined while it waited
	created   []string          // in the order in which they must start
	unread    int               // the requests of this decision for messages that their run did not read
	started   []string
	ended     map[string]event.RequestState
	stopped   map[string]bool // requests with an accepted cancel
	asked     map[string]int  // pauses per request
	answered  map[string]int
	late      map[string]bool // answers to a question that was already closed
	held      bool
}

func newWorld(seed uint64, d decider) *world {
	return &world{
		decide: d, rng: rand.New(rand.NewPCG(seed, 1)),
		accepted: map[string]event.Queue{}, applied: map[string]string{}, discarded: map[string]bool{},
		joined: map[string]string{}, ended: map[string]event.RequestState{}, stopped: map[string]bool{},
		asked: map[string]int{}, answered: map[string]int{}, late: map[string]bool{},
	}
}

func (w *world) fail(format string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf(format, args...))
}

// do decides an input and checks the effects.
func (w *world) do(in session.Input) {
	var hold bool
	switch in := in.(type) {
	case session.Message:
		hold = in.NoSlot
	case session.WouldEnd:
		hold = in.NoSlot
	case session.Ended:
		hold = in.NoSlot
	case session.Recovered:
		hold = in.NoSlot
	case session.TurnCame:
		hold = in.NoSlot
	case session.LimitReached:
		hold = in.NoSlot
	case session.Expired:
		hold = in.NoSlot
	}
	was := w.state
	w.unread = 0
	var effects []session.Effect
	w.state, effects = w.decide(w.state, in, time.Time{})
	if m, ok := in.(session.Message); ok {
		_, again := w.accepted[m.MessageID]
		pause := was.OpenPause()
		late := m.AnswersPause != 0 && (pause == nil || pause.Number != m.AnswersPause || was.Active.RequestID != m.RequestID)
		dropped := slices.ContainsFunc(effects, func(e session.Effect) bool { _, ok := e.(session.IgnoreCommand); return ok })
		if (again || late || w.late[m.MessageID]) != dropped {
			w.fail("message %s: seen before %v, too late an answer %v, dropped %v", m.MessageID, again, late, dropped)
		}
		switch {
		case again:
		case dropped:
			w.late[m.MessageID] = true
		default:
			w.accepted[m.MessageID] = m.Queue
		}
	}
	for _, e := range effects {
		w.check(in, e)
	}
	w.checkTaken(in, was)
	if c, ok := in.(session.Cancel); ok && was.Active != nil && was.Active.RequestID == c.RequestID {
		w.stopped[c.RequestID] = true
	}
	if w.state.Active == nil && len(w.state.Queue) > 0 {
		if !hold && !w.held {
			w.fail("work waits although nothing runs and there is room")
		}
		w.held = true
	} else {
		w.held = false
	}
	if len(w.state.Seen) > 200 || len(w.state.Ended) > 200 {
		w.fail("the state grows")
	}
}

func (w *world) check(in session.Input, e session.Effect) {
	switch e := e.(type) {
	case session.CreateRequest:
		if slices.Contains(w.created, e.RequestID) {
			w.fail("request %s is made twice", e.RequestID)
		}
		at := len(w.created)
		if w.joined[e.MessageID] != "" && w.message(e.MessageID).Rule == "" {
			waits := func(id string) bool { return !slices.Contains(w.started, id) && w.ended[id] == "" }
			if first := slices.IndexFunc(w.created, waits); first >= 0 {
				at = first + w.unread
			}
			w.unread++
		}
		w.created = slices.Insert(w.created, at, e.RequestID)
	case session.StoreMessage:
		if w.state.Active != nil && w.state.Active.RequestID == e.RequestID {
			w.joined[e.MessageID] = e.RequestID
		}
	case session.ApplyMessage:
		if at, ok := w.applied[e.MessageID]; ok {
			w.fail("message %s is applied to %s and to %s", e.MessageID, at, e.RequestID)
		}
		if m, ok := in.(session.Message); ok && m.MessageID == e.MessageID && w.stopped[e.RequestID] {
			w.applied[e.MessageID] = e.RequestID // the user answered "stop"
			return
		}
		if w.state.Active == nil || w.state.Active.RequestID != e.RequestID || w.state.Active.Paused != nil || w.state.Active.Recovery.Turn == session.Waiting || w.ended[e.RequestID] != "" {
			w.fail("message %s is applied to %s, which does not run", e.MessageID, e.RequestID)
		}
		if m := w.message(e.MessageID); m.Rule != "" && e.Queue != event.Prompt && slices.ContainsFunc(w.state.Queue, func(q session.QueuedRequest) bool { return q.Rule == "" }) {
			w.fail("event %s is applied although a prompt waits", e.MessageID)
		}
		if run := w.joined[e.MessageID]; run != "" && w.message(e.MessageID).Rule == "" && run != e.RequestID && (w.ended[run] == event.StateDone || w.ended[run] == "" && !w.stopped[run]) {
			w.fail("message %s for %s went to %s", e.MessageID, run, e.RequestID)
		}
		if _, boundary := in.(session.StepBoundary); boundary && (e.Queue == event.FollowUp || e.Queue == event.Prompt) {
			w.fail("%s %s is taken between steps", e.Queue, e.MessageID)
		}
		w.applied[e.MessageID] = e.RequestID
	case session.PauseRun:
		w.asked[e.RequestID]++
	case session.RecordAnswer:
		if w.answered[e.RequestID]++; w.answered[e.RequestID] > w.asked[e.RequestID] {
			w.fail("request %s is answered %d times and asked %d times", e.RequestID, w.answered[e.RequestID], w.asked[e.RequestID])
		}
		if e.Answer == session.Stop {
			w.stopped[e.RequestID] = true
		}
	case session.ResumeRun:
		if w.state.Active == nil || w.state.Active.Paused != nil || w.asked[e.RequestID] > w.answered[e.RequestID] {
			w.fail("request %s goes on without an answer", e.RequestID)
		}
	case session.DiscardMessage:
		if _, ok := in.(session.Cancel); !ok {
			w.fail("message %s is discarded without a cancel", e.MessageID)
		}
		w.discarded[e.MessageID] = true
	case session.StartRun:
		w.started = append(w.started, e.RequestID)
	case session.ChangeState:
		if !e.State.Ended() {
			return
		}
		if w.ended[e.RequestID] != "" {
			w.fail("request %s ends twice", e.RequestID)
		}
		if w.stopped[e.RequestID] && e.State == event.StateDone {
			w.fail("request %s was cancelled and is done", e.RequestID)
		}
		w.ended[e.RequestID] = e.State
	}
}

// checkTaken checks that no steer or interrupt is still pending after a step boundary.
func (w *world) checkTaken(in session.Input, was session.State) {
	if _, ok := in.(session.StepBoundary); !ok || was.Active == nil || was.Active.Phase != session.Accepting || was.Active.Paused != nil || was.Active.Recovery.Turn == session.Waiting {
		return
	}
	for _, p := range was.Active.Pending {
		if p.Queue != event.FollowUp && p.Rule == "" && w.applied[p.MessageID] == "" {
			w.fail("%s %s is left behind", p.Queue, p.MessageID)
		}
	}
}

func (w *world) message(id string) session.Message {
	for _, m := range w.messages {
		if m.MessageID == id {
			return m
		}
	}
	return session.Message{}
}

func (w *world) pick(ids []string, fallback string) string {
	if len(ids) == 0 {
		return fallback
	}
	return ids[w.rng.IntN(len(ids))]
}

func (w *world) active() string {
	if w.state.Active == nil {
		return ""
	}
	return w.state.Active.RequestID
}

func (w *world) step(n int) {
	hold := w.rng.IntN(8) == 0
	switch k := w.rng.IntN(100); {
	case k < 40:
		queues := []event.Queue{event.Prompt, event.Prompt, event.Steer, event.FollowUp, event.Interrupt}
		m := session.Message{
			MessageID: fmt.Sprintf("m%d", n), RequestID: fmt.Sprintf("web:s:r%d", n), Client: "web",
			Queue: queues[w.rng.IntN(len(queues))], AnyActive: w.rng.IntN(3) == 0, NoSlot: hold,
		}
		switch w.rng.IntN(4) {
		case 0, 1:
			m.RequestID = w.pick(w.created, m.RequestID)
		case 2:
			if a := w.active(); a != "" {
				m.RequestID = a
			}
		}
		if w.rng.IntN(3) == 0 {
			m.ElseRequestID = fmt.Sprintf("web:s:e%d", n)
		}
		if p := w.state.OpenPause(); p != nil && w.rng.IntN(2) == 0 {
			m.Answer = []session.Answer{session.Continue, session.Continue, session.Stop}[w.rng.IntN(3)]
			m.AnswersPause = w.rng.IntN(p.Number + 2)
			if m.AnswersPause != 0 {
				m.RequestID, m.Queue = w.active(), event.Steer
			}
		}
		if m.Queue != event.Prompt && m.AnyActive && m.Answer == session.NoAnswer && w.rng.IntN(2) == 0 {
			m.Rule = []string{"a", "b"}[w.rng.IntN(2)]
		}
		w.messages = append(w.messages, m)
		w.do(m)
	case k < 48 && len(w.messages) > 0:
		w.do(w.messages[w.rng.IntN(len(w.messages))])
	case k < 56:
		w.do(session.Cancel{RequestID: w.pick(w.created, "web:s:none"), CancelQueued: w.rng.IntN(3) == 0, AnyActive: w.rng.IntN(3) == 0})
	case k < 59:
		w.do(session.LimitReached{RequestID: w.active(), NoSlot: hold})
	case k < 60:
		w.do(session.Expired{RequestID: w.active(), Pause: 1 + w.rng.IntN(2), NoSlot: hold})
	case k < 70:
		w.do(session.StepBoundary{RequestID: w.active()})
	case k < 84:
		w.do(session.WouldEnd{RequestID: w.active(), NoSlot: hold})
	case k < 88:
		w.do(session.Ended{RequestID: w.active(), State: event.StateFailed, NoSlot: hold})
	case k < 90:
		w.do(session.SlotFree{})
	case k < 93:
		w.recover()
	case k < 94:
		w.do(session.TrialPassed{RequestID: w.active()})
	case k < 95:
		w.do(session.Progressed{RequestID: w.active()})
	default:
		w.crash()
	}
	if a := w.state.Active; a != nil && a.Phase == session.Closing && w.rng.IntN(2) == 0 {
		w.recover()
	}
	if a := w.state.Active; a != nil && a.Phase == session.Closing && w.rng.IntN(2) == 0 {
		w.do(session.Ended{RequestID: a.RequestID, State: event.StateCancelled, NoSlot: hold})
	}
}

// crash discards everything but the stored state.
func (w *world) crash() {
	data, err := json.Marshal(w.state)
	if err != nil {
		w.fail("encode state: %v", err)
	}
	w.state = session.State{}
	if err := json.Unmarshal(data, &w.state); err != nil {
		w.fail("decode state: %v", err)
	}
	turns := []session.Turn{session.AtOnce, session.Waiting, session.OnTrial}
	w.do(session.Recovered{Culprit: w.rng.IntN(2) == 0, Turn: turns[w.rng.IntN(3)]})
}

// recover lets a request continue that waits for its turn after a crash.
func (w *world) recover() {
	if a := w.state.Active; a != nil && a.Recovery.Turn == session.Waiting {
		w.do(session.TurnCame{RequestID: a.RequestID})
	}
}

// settle finishes all work and checks that every message and request is accounted for.
func (w *world) settle() {
	for range 10 * (len(w.messages) + 1) {
		if w.state.Idle() {
			break
		}
		w.do(session.SlotFree{})
		w.recover()
		if p := w.state.OpenPause(); p != nil {
			w.do(session.Expired{RequestID: w.active(), Pause: p.Number})
		}
		w.do(session.StepBoundary{RequestID: w.active()})
		w.do(session.WouldEnd{RequestID: w.active()})
	}
	if !w.state.Idle() {
		w.fail("stuck: %+v", w.state)
	}
	for id := range w.accepted {
		if (w.applied[id] == "") == !w.discarded[id] {
			w.fail("message %s: applied %q, discarded %v", id, w.applied[id], w.discarded[id])
		}
	}
	for _, id := range w.created {
		if w.ended[id] == "" {
			w.fail("request %s never ends", id)
		}
	}
	last := -1
	for _, id := range w.started {
		at := slices.Index(w.created, id)
		if at < last {
			w.fail("request %s starts out of order", id)
		}
		last = at
	}
}

func simulate(seed uint64, d decider) []string {
	w := newWorld(seed, d)
	for n := range 20 + int(seed%60) {
		w.step(n)
		if len(w.broken) > 0 {
			return w.broken
		}
	}
	w.settle()
	return w.broken
}

func seeds() uint64 {
	switch {
	case os.Getenv("LILAC_LONG") != "":
		return 200_000
	case testing.Short(): // used with the race detector, which a pure function does not need
		return 2_000
	case effort.Full():
		return 20_000
	}
	return 5_000
}

func TestSimulatedSessionsKeepTheInvariants(t *testing.T) {
	effort.SkipSlow(t)
	for seed := range seeds() {
		if broken := simulate(seed, session.Decide); len(broken) > 0 {
			t.Fatalf("seed %d: %q", seed, broken)
		}
	}
}

// TestSimulationFindsPlantedBugs is the control: each of these deciders breaks an invariant, and the
// simulation must notice it.
func TestSimulationFindsPlantedBugs(t *testing.T) {
	for name, bug := range map[string]decider{
		"duplicates are taken": func(s session.State, in session.Input, now time.Time) (session.State, []session.Effect) {
			s.Seen = nil
			return session.Decide(s, in, now)
		},
		"a crash loses what waits": func(s session.State, in session.Input, now time.Time) (session.State, []session.Effect) {
			if _, ok := in.(session.Recovered); ok && s.Active != nil {
				a := *s.Active
				a.Pending = nil
				s.Active = &a
			}
			return session.Decide(s, in, now)
		},
		"a failed run loses its steers": func(s session.State, in session.Input, now time.Time) (session.State, []session.Effect) {
			if _, ok := in.(session.Ended); ok && s.Active != nil {
				a := *s.Active
				a.Pending = nil
				s.Active = &a
			}
			return session.Decide(s, in, now)
		},
		"the last prompt goes first": func(s session.State, in session.Input, now time.Time) (session.State, []session.Effect) {
			out, effects := session.Decide(s, in, now)
			if _, ok := in.(session.Message); ok {
				slices.Reverse(out.Queue)
			}
			return out, effects
		},
		"the end is said twice": func(s session.State, in session.Input, now time.Time) (session.State, []session.Effect) {
			out, effects := session.Decide(s, in, now)
			for _, e := range effects {
				if change, ok := e.(session.ChangeState); ok && change.State == event.StateFailed {
					return out, append(effects, e)
				}
			}
			return out, effects
		},
		"a cancel is forgotten": func(s session.State, in session.Input, now time.Time) (session.State, []session.Effect) {
			out, effects := session.Decide(s, in, now)
			if _, ok := in.(session.Cancel); ok && out.Active != nil {
				out.Active.Phase = session.Accepting
			}
			return out, effects
		},
		"a followUp is taken between steps": func(s session.State, in session.Input, now time.Time) (session.State, []session.Effect) {
			if b, ok := in.(session.StepBoundary); ok && s.Active != nil && len(s.Active.Pending) > 0 {
				return session.Decide(s, session.WouldEnd{RequestID: b.RequestID}, now)
			}
			return session.Decide(s, in, now)
		},
		"nothing starts behind a run that ended": func(s session.State, in session.Input, now time.Time) (session.State, []session.Effect) {
			if e, ok := in.(session.WouldEnd); ok {
				e.NoSlot = true
				in = e
			}
			return session.Decide(s, in, now)
		},
		"a request that is over is opened again": func(s session.State, in session.Input, now time.Time) (session.State, []session.Effect) {
			s.Ended = nil
			return session.Decide(s, in, now)
		},
		"a paused run goes on after a crash": func(s session.State, in session.Input, now time.Time) (session.State, []session.Effect) {
			if _, ok := in.(session.Recovered); ok && s.OpenPause() != nil {
				a := *s.Active
				a.Paused = nil
				s.Active = &a
			}
			return session.Decide(s, in, now)
		},
		"a request runs while it waits for its turn": func(s session.State, in session.Input, now time.Time) (session.State, []session.Effect) {
			if s.Active != nil && s.Active.Recovery.Turn == session.Waiting {
				a := *s.Active
				a.Recovery.Turn = session.AtOnce
				s.Active = &a
			}
			out, effects := session.Decide(s, in, now)
			if _, ok := in.(session.StepBoundary); ok && s.Active != nil && out.Active != nil && s.Active.Recovery.Turn == session.AtOnce {
				out.Active.Recovery.Turn = session.Waiting
			}
			return out, effects
		},
		"an event joins although a prompt waits": func(s session.State, in session.Input, now time.Time) (session.State, []session.Effect) {
			if _, ok := in.(session.WouldEnd); ok && s.Active != nil {
				a := *s.Active
				a.Pending = slices.Clone(a.Pending)
				for i := range a.Pending {
					a.Pending[i].Rule = ""
				}
				s.Active = &a
			}
			return session.Decide(s, in, now)
		},
		"a second answer counts": func(s session.State, in session.Input, now time.Time) (session.State, []session.Effect) {
			out, effects := session.Decide(s, in, now)
			if s.OpenPause() != nil && out.OpenPause() == nil && out.Active != nil {
				out.Active.Paused = s.Active.Paused
			}
			return out, effects
		},
		"a steer is applied twice": func(s session.State, in session.Input, now time.Time) (session.State, []session.Effect) {
			out, effects := session.Decide(s, in, now)
			if _, ok := in.(session.StepBoundary); ok && out.Active != nil {
				out.Active.Pending = s.Active.Pending
			}
			return out, effects
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range seeds() {
				if len(simulate(seed, bug)) > 0 {
					return
				}
			}
			t.Error("the simulation did not notice")
		})
	}
}
