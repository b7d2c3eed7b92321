package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

// slowModel streams the numbers up to n, one per delay.
func slowModel(t testing.TB, n int, delay time.Duration) *llmtest.Server {
	return llmtest.New(t, func(llmtest.Request) llmtest.Script {
		return llmtest.Script{Text: llmtest.Words(numbers(n)), Delay: delay}
	})
}

// patientModel streams numbers for longer than any test runs, so that each request is still
// running when its process ends. Once hurried is set, it streams only up to n.
type patientModel struct {
	*llmtest.Server
	hurried atomic.Bool
}

func newPatientModel(t testing.TB, n int) *patientModel {
	m := &patientModel{}
	long, short := llmtest.Words(numbers(2000)), llmtest.Words(numbers(n))
	m.Server = llmtest.New(t, func(llmtest.Request) llmtest.Script {
		if m.hurried.Load() {
			return llmtest.Script{Text: short, Delay: 20 * time.Millisecond}
		}
		return llmtest.Script{Text: long, Delay: 50 * time.Millisecond}
	})
	return m
}

func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d ", i+1)
	}
	return strings.TrimSpace(b.String())
}

// startMany starts a request in each of n sessions and waits until all of them stream.
func startMany(t *testing.T, s *e2e.Server, n int) []e2e.Accepted {
	t.Helper()
	var all []e2e.Accepted
	for range n {
		all = append(all, s.Prompt(s.NewSession(), "count", event.Prompt))
	}
	for _, a := range all {
		e2e.Eventually(t, answerWithin, a.RequestID+" streams", func() bool {
			return len(s.Output(a.RequestID)) > 0
		})
	}
	return all
}

// unanswered returns the problems with requests that should all have the answer want, after at
// most the given time.
func unanswered(t *testing.T, s *e2e.Server, all []e2e.Accepted, want string, within time.Duration) (wrong []string) {
	t.Helper()
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	deadline := time.Now().Add(within)
	for _, a := range all {
		var info e2e.RequestInfo
		ended := e2e.Poll(time.Until(deadline), func() bool {
			info = s.Story(a.RequestID)
			return event.RequestState(info.State).Ended()
		})
		if !ended {
			add("%s has not ended within %s", a.RequestID, within)
			continue
		}
		if info.State != string(event.StateDone) {
			add("%s ended as %s (%s)", a.RequestID, info.State, info.Detail)
		}
		text, faults := e2e.OutputText(t, s.WholeOutput(a.RequestID, answerWithin))
		if text != want || len(faults) > 0 {
			add("%s answered %q: %q", a.RequestID, text, faults)
		}
	}
	return wrong
}

func many(short, long int) int {
	if effort.Long() {
		return long
	}
	return short
}

// noticed ends a control: the disabled safeguard must have caused the problem want.
func noticed(t *testing.T, wrong []string, want string) {
	t.Helper()
	for _, w := range wrong {
		if strings.Contains(w, want) {
			t.Logf("noticed: %s", w)
			return
		}
	}
	t.Errorf("not noticed (%q): %q", want, wrong)
}

// A server stops in time whatever is streaming, and the next process finishes each answer exactly
// once. Readers of the event stream notice only a pause.
func TestGracefulStopLosesNoAnswer(t *testing.T) {
	e2e.OnEachAlone(t, func(t *testing.T, bus e2e.Engine) {
		// A crash is charged to a request only if no other ran.
		for _, n := range []int{1, many(20, 100)} {
			for _, wrong := range stopAndGoOn(t, bus, n, stopWithin(), terminate) {
				t.Error(wrong)
			}
		}
	})
}

func TestControlAKillIsNoGracefulStop(t *testing.T) {
	effort.SkipDetail(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		noticed(t, stopAndGoOn(t, bus, 1, stopWithin(), (*e2e.Server).Kill), "as from a crash")
	})
}

func TestControlAStopWithoutRecoveryLosesAnswers(t *testing.T) {
	effort.SkipDetail(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		noticed(t, stopAndGoOn(t, bus, 3, stopWithin(), terminate, "LILAC_WITHOUT=recovery"), "has not ended")
	})
}

func TestControlAStopThatWaitsForItsStreamsIsTooLate(t *testing.T) {
	effort.SkipDetail(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		noticed(t, stopAndGoOn(t, bus, 3, time.Second, func(s *e2e.Server) {
			s.Pause()
			time.AfterFunc(2*time.Second, s.Resume)
			terminate(s)
		}), "the stop took")
	})
}

// stopWithin bounds the duration of a graceful stop.
func stopWithin() time.Duration {
	if many(0, 1) == 0 {
		return 30 * time.Second // a third of the time that waiting for the streams would take
	}
	return 10 * time.Second
}

func terminate(s *e2e.Server) { s.Terminate(answerWithin) }

// stopAndGoOn stops a server while n answers stream, restarts it, and returns the problems with
// the answers.
func stopAndGoOn(t *testing.T, bus e2e.Engine, n int, limit time.Duration, stop func(*e2e.Server), next ...string) (wrong []string) {
	const words = 40
	model := newPatientModel(t, words)
	s := e2e.Start(t, append(bus(t), modelEnv(model.URL)...)...)
	reader := follow(t, s, "")
	all := startMany(t, s, n)
	begun := time.Now()
	stop(s)
	if took := time.Since(begun); took > limit {
		wrong = append(wrong, fmt.Sprintf("the stop took %s", took))
	}
	model.hurried.Store(true)
	s.Restart(next...)
	within := 2 * answerWithin
	if len(next) > 0 {
		within = 2 * time.Second // no request is running, so none will end later
	}
	wrong = append(wrong, unanswered(t, s, all, numbers(words), within)...)
	wrong = append(wrong, reader.missed(all, numbers(words), within)...)
	for _, a := range all {
		story := s.Story(a.RequestID)
		if story.Recoveries > 1 {
			wrong = append(wrong, fmt.Sprintf("%s was taken up %d times", a.RequestID, story.Recoveries))
		}
		for _, e := range story.Entries {
			var recovered struct{ Charged bool }
			if e.Kind == "recovered" && json.Unmarshal(e.Data, &recovered) == nil && recovered.Charged {
				wrong = append(wrong, a.RequestID+" was taken up as from a crash")
			}
		}
	}
	return wrong
}

// After kill -9 with many running requests, all of them resume soon.
func TestRunningRequestsGoOnAfterKill(t *testing.T) {
	e2e.OnEachAlone(t, func(t *testing.T, bus e2e.Engine) {
		took, wrong := killAndGoOn(t, bus, many(20, 100), effort.Within(2*time.Second))
		for _, w := range wrong {
			t.Error(w)
		}
		t.Logf("they went on %s after the start", took)
	})
}

func TestControlWithoutRecoveryNothingGoesOn(t *testing.T) {
	effort.SkipDetail(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		_, wrong := killAndGoOn(t, bus, 3, 2*time.Second, "LILAC_WITHOUT=recovery")
		noticed(t, wrong, "only 0 of 3 went on")
	})
}

// killAndGoOn kills a server with n running requests. It returns the time until each request has
// called its model again, and the problems.
func killAndGoOn(t *testing.T, bus e2e.Engine, n int, within time.Duration, next ...string) (took time.Duration, wrong []string) {
	const words = 40
	model := newPatientModel(t, words)
	s := e2e.Start(t, append(bus(t), modelEnv(model.URL)...)...)
	reader := follow(t, s, "")
	all := startMany(t, s, n)
	s.Kill()
	model.hurried.Store(true)
	before := model.Count()
	start := time.Now()
	s.Spawn(next...)
	if !e2e.Poll(within, func() bool { return model.Count() >= before+n }) {
		return 0, []string{fmt.Sprintf("only %d of %d went on within %s", model.Count()-before, n, within)}
	}
	took = time.Since(start)
	s.WaitReady()
	wrong = unanswered(t, s, all, numbers(words), 2*answerWithin)
	return took, append(wrong, reader.missed(all, numbers(words), answerWithin)...)
}
