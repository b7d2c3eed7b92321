package fallback_test

import (
	"testing"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/model/fallback"
	"lilac/internal/model/llm"
)

var start = time.Unix(1_800_000_000, 0)

func TestABreakerOpens(t *testing.T) {
	down := fallback.Failure{Kind: fault.Unavailable, Reason: "down"}
	for _, tt := range []struct {
		name     string
		failures []fallback.Failure
		open     time.Duration // after the last failure; 0 means closed
		demanded bool
	}{
		{"one failure", []fallback.Failure{down}, 0, false},
		{"two failures", []fallback.Failure{down, {Kind: fault.Timeout}}, 0, false},
		{"three in a row", []fallback.Failure{down, down, down}, 30 * time.Second, false},
		{"each further failure doubles", []fallback.Failure{down, down, down, down}, time.Minute, false},
		{"the time is bounded", []fallback.Failure{down, down, down, down, down, down, down, down, down, down}, 5 * time.Minute, false},
		{"the provider asks to wait", []fallback.Failure{{Kind: fault.RateLimited, RetryAfter: 42 * time.Second}}, 42 * time.Second, true},
		{"an overloaded provider asks to wait", []fallback.Failure{{Kind: fault.Unavailable, RetryAfter: 3 * time.Second}}, 3 * time.Second, true},
		{"a wait is bounded", []fallback.Failure{{Kind: fault.RateLimited, RetryAfter: 1000 * time.Hour}}, 24 * time.Hour, true},
		{"a rate limit without a wait", []fallback.Failure{{Kind: fault.RateLimited}}, 15 * time.Second, false},
		{"no credit", []fallback.Failure{{Kind: fault.Denied}}, 10 * time.Minute, false},
		{"a wrong key", []fallback.Failure{{Kind: fault.Unauthenticated}}, 10 * time.Minute, false},
		{"an unknown model", []fallback.Failure{{Kind: fault.NotFound}}, 10 * time.Minute, false},
		{"a refused request", []fallback.Failure{{Kind: fault.Invalid}, {Kind: fault.Invalid}, {Kind: fault.Invalid}}, 0, false},
		{"a prompt that is too long", []fallback.Failure{{Kind: fault.Invalid, Code: llm.CodeContextLength}}, 0, false},
		{"a stopped call", []fallback.Failure{{Kind: fault.Cancelled}, {Kind: fault.Cancelled}, {Kind: fault.Cancelled}}, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s fallback.State
			for _, f := range tt.failures {
				s = s.After(f, start)
			}
			open := time.Duration(0)
			if !s.OpenUntil.IsZero() {
				open = s.OpenUntil.Sub(start)
			}
			if open != tt.open || s.Demanded != tt.demanded {
				t.Errorf("open for %s (demanded %v), want %s (%v)", open, s.Demanded, tt.open, tt.demanded)
			}
		})
	}
}

func TestVerdicts(t *testing.T) {
	for f, want := range map[fallback.Failure]fallback.Verdict{
		{Kind: fault.Cancelled}:                            fallback.Return,
		{Kind: fault.Invalid, Code: llm.CodeContextLength}: fallback.Return,
		{Kind: fault.Invalid, Code: llm.CodeMediaRefused}:  fallback.Return,
		{Kind: fault.RateLimited}:                          fallback.NextKey,
		{Kind: fault.Denied}:                               fallback.NextKey,
		{Kind: fault.Unauthenticated}:                      fallback.NextKey,
		{Kind: fault.Unavailable}:                          fallback.NextModel,
		{Kind: fault.Unavailable, Code: llm.CodeBadAnswer}: fallback.NextModel,
		{Kind: fault.Timeout}:                              fallback.NextModel,
		{Kind: fault.NotFound}:                             fallback.NextModel,
		{Kind: fault.Invalid}:                              fallback.NextModel,
	} {
		if got := f.Verdict(); got != want {
			t.Errorf("%+v: %v, want %v", f, got, want)
		}
	}
}

func TestPick(t *testing.T) {
	later := func(d time.Duration) fallback.State { return fallback.State{Failures: 3, OpenUntil: start.Add(d)} }
	demanded := func(d time.Duration) fallback.State {
		return fallback.State{Failures: 1, OpenUntil: start.Add(d), Demanded: true}
	}
	probed := func(d, ago time.Duration) fallback.State {
		return fallback.State{Failures: 3, OpenUntil: start.Add(d), ProbedAt: start.Add(-ago)}
	}
	closed := fallback.State{}
	for _, tt := range []struct {
		name    string
		states  []fallback.State
		tried   []bool
		current int
		want    int
		wait    time.Duration
	}{
		{"the first", []fallback.State{closed, closed}, []bool{false, false}, 0, 0, 0},
		{"the one that worked", []fallback.State{closed, closed}, []bool{false, false}, 1, 1, 0},
		{"the next after a failure", []fallback.State{closed, closed}, []bool{true, false}, 0, 1, 0},
		{"back to the first if the later one fails", []fallback.State{closed, closed}, []bool{false, true}, 1, 0, 0},
		{"an open breaker is passed over", []fallback.State{later(time.Minute), closed}, []bool{false, false}, 0, 1, 0},
		{"a half-open breaker is tested", []fallback.State{later(0), closed}, []bool{false, false}, 0, 0, 0},
		{"but by one call at a time", []fallback.State{probed(0, time.Second), closed}, []bool{false, false}, 0, 1, 0},
		{"until the test takes too long", []fallback.State{probed(0, 3*time.Minute), closed}, []bool{false, false}, 0, 0, 0},
		{"all failed: the one that may work again first", []fallback.State{later(2 * time.Minute), later(time.Minute)}, []bool{false, false}, 0, 1, 0},
		{"a single one is called in spite of failures", []fallback.State{later(time.Minute)}, []bool{false}, 0, 0, 0},
		{"a demanded wait is obeyed", []fallback.State{demanded(time.Minute)}, []bool{false}, 0, -1, time.Minute},
		{"the shortest wait", []fallback.State{demanded(time.Minute), demanded(time.Second)}, []bool{false, false}, 0, -1, time.Second},
		{"a failed one before one that must wait", []fallback.State{demanded(time.Minute), later(time.Minute)}, []bool{false, false}, 0, 1, 0},
		{"a wait that is over", []fallback.State{demanded(-time.Second)}, []bool{false}, 0, 0, 0},
		{"all were tried", []fallback.State{closed, closed}, []bool{true, true}, 0, -1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, wait := fallback.Pick(tt.states, tt.tried, tt.current, start); got != tt.want || wait != tt.wait {
				t.Errorf("picked %d (wait %s), want %d (%s)", got, wait, tt.want, tt.wait)
			}
		})
	}
}
