package session_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"lilac/internal/agent/tool"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// inParent returns a rig with an unattended session that the session "parent" pays for. It collects
// the requests that end.
func inParent(t *testing.T, limits session.Limits, ended *[]session.Request) *rig {
	t.Helper()
	return newRig(t, rigOptions{do: loops, change: func(o *session.Options) {
		o.Settings.Limits = limits
		o.Surfaces = fakeSurfaces{unattended: true}
		o.Policy = fakePolicy{
			payer: func(id string) string {
				if id == sid {
					return "parent"
				}
				return ""
			},
			ended: func(r session.Request) { *ended = append(*ended, r) },
		}
	}})
}

func TestWorkForAnotherSessionIsChargedThereAndEndsAtItsLimit(t *testing.T) {
	var ended []session.Request
	r := inParent(t, session.Limits{Session: session.Budget{Tokens: 40}}, &ended)
	// A user has granted the same amount again in the paying session.
	if err := r.db.Update(t.Context(), func(tx *db.Tx) error {
		return r.store.States.SaveState(tx, "parent", session.State{Raised: map[session.Limit]int64{"session.tokens": 40}})
	}); err != nil {
		t.Fatal(err)
	}
	r.send("web:s1:r1", "m1", event.Prompt, "go")
	req := r.waitForEnd("web:s1:r1")
	if req.State != event.StateFailed || req.ErrorKind != fault.LimitReached || !strings.Contains(req.Detail, "of the 80 tokens allowed.") {
		t.Errorf("it ended as %s (%s): %s", req.State, req.ErrorKind, req.Detail)
	}
	if len(ended) != 1 || ended[0].ID != req.ID || ended[0].State != req.State {
		t.Errorf("its end was told as %+v", ended)
	}
	r.read(func(q db.Queryer) error {
		own, err := r.store.Usage.SpentIn(q, sid)
		if err != nil || own != (session.Spent{}) {
			t.Errorf("its own session has used %+v (%v)", own, err)
		}
		parents, err := r.store.Usage.SpentIn(q, "parent")
		if used := parents.Usage.InputTokens + parents.Usage.OutputTokens; used < 80 || used > 95 {
			t.Errorf("the session that pays has used %d tokens", used)
		}
		return err
	})
}

// Both earlier and concurrent consumption of the payer counts.
func TestConsumptionOfOtherSessionsWithTheSamePayerCounts(t *testing.T) {
	var ended []session.Request
	r := inParent(t, session.Limits{Session: session.Budget{Steps: 10}}, &ended)
	if err := r.db.Update(t.Context(), func(tx *db.Tx) error {
		return r.store.Usage.AddSpent(tx, "2026-01-01", "parent", session.Spent{Steps: 8})
	}); err != nil {
		t.Fatal(err)
	}
	r.send("web:s1:r1", "m1", event.Prompt, "go")
	if req := r.waitForEnd("web:s1:r1"); req.Steps != 2 {
		t.Errorf("it made %d steps, want 2", req.Steps)
	}
}

// Model calls outside of requests use the same budgets.
func TestConsumptionOutsideOfRequestsCounts(t *testing.T) {
	var ended []session.Request
	r := inParent(t, session.Limits{Request: session.Budget{Steps: 1}, Session: session.Budget{Tokens: 40}, Day: session.Budget{Steps: 3}}, &ended)
	spend := func(id string, used session.Spent) {
		t.Helper()
		if err := r.db.Update(t.Context(), func(tx *db.Tx) error { return r.svc.Spend(tx, id, used) }); err != nil {
			t.Fatal(err)
		}
	}
	check := func(id string, want session.Limit) {
		t.Helper()
		r.read(func(q db.Queryer) error {
			reached, err := r.svc.ReachedLimit(q, id)
			var got session.Limit
			if reached != nil {
				got = reached.Limit
			}
			if got != want {
				t.Errorf("%s has reached %q, want %q", id, got, want)
			}
			return err
		})
	}
	check(sid, "")
	spend(sid, session.Spent{Steps: 1, Usage: chat.Usage{InputTokens: 30, OutputTokens: 9}})
	check(sid, "")
	spend(sid, session.Spent{Steps: 1, Usage: chat.Usage{InputTokens: 1}})
	check(sid, "session.tokens")
	check("parent", "session.tokens")
	check("other", "")
	if err := r.db.Update(t.Context(), func(tx *db.Tx) error {
		return r.store.States.SaveState(tx, "parent", session.State{Raised: map[session.Limit]int64{"session.tokens": 40}})
	}); err != nil {
		t.Fatal(err)
	}
	check(sid, "")
	spend("other", session.Spent{Steps: 1})
	check(sid, "day.steps")
	check("other", "day.steps")
}

// slowDay delays the first read of the day's spending until a commit.
type slowDay struct {
	session.SpendingTable
	began             atomic.Bool
	reads, goOn, done chan struct{}
}

func (s *slowDay) SpentOn(q db.Queryer, day string) (session.Spent, error) {
	if !s.began.CompareAndSwap(false, true) {
		return s.SpendingTable.SpentOn(q, day)
	}
	defer close(s.done)
	close(s.reads)
	<-s.goOn
	return s.SpendingTable.SpentOn(q, day)
}

func TestConsumptionDuringTheFirstReadOfTheDayCountsOnce(t *testing.T) {
	slow := &slowDay{reads: make(chan struct{}), goOn: make(chan struct{}), done: make(chan struct{})}
	armed := false // used only by the writer goroutine
	r := newRig(t, rigOptions{do: loops, tools: []tool.Tool{&counter{}}, onCommit: func(done bool) {
		if armed && done {
			armed = false
			close(slow.goOn)
			<-slow.done
		}
	}, change: func(o *session.Options) {
		o.Settings.Limits = session.Limits{Day: session.Budget{Steps: 3}}
		slow.SpendingTable, o.Tables.Spending = o.Tables.Spending, slow
	}})
	r.send("web:s1:r1", "m1", event.Prompt, "go")
	<-slow.reads
	if err := r.db.Update(t.Context(), func(tx *db.Tx) error {
		armed = true
		return r.svc.Spend(tx, "other", session.Spent{Steps: 1})
	}); err != nil {
		t.Fatal(err)
	}
	r.pauses(1)
	if steps := r.request("web:s1:r1").Steps; steps != 2 {
		t.Errorf("it made %d steps of the 2 that were left", steps)
	}
}

func TestThePolicyIsNotifiedOfARequestThatNeverStarted(t *testing.T) {
	var ended []session.Request
	r := inParent(t, session.Limits{}, &ended)
	r.send("web:s1:r1", "m1", event.Prompt, "go")
	r.send("web:s1:r2", "m2", event.Prompt, "then")
	waitUntil(t, "the second waits", func() bool { return len(r.states("web:s1:r2")) > 0 })
	r.cancel("web:s1:r2", false)
	r.cancel("web:s1:r1", false)
	r.waitForEnd("web:s1:r1")
	if r.waitForEnd("web:s1:r2"); len(ended) != 2 {
		t.Errorf("%d ends were told, want 2", len(ended))
	}
}
