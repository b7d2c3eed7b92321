package session

import (
	"context"
	"fmt"
	"sync"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/delay"
	"lilac/internal/foundation/event"
)

// turns are the requests that wait for each other after an unclean stop. It is safe for
// concurrent use.
type turns struct {
	svc *Service

	mu      sync.Mutex
	waiting map[string]bool // by request
}

// take resumes requests one by one after an unclean stop; see planRecovery. The first
// ones may be on trial already.
func (t *turns) take(all []recovery) {
	ctx := t.svc.runCtx
	t.setWaiting(all, true)
	if n := t.count(); n > 0 {
		t.svc.opt.Logger.Warn("the program has stopped several times while the same requests ran; they are resumed one by one, each after a while without it",
			"waiting", n, "last_after", all[len(all)-1].after.Round(time.Second))
	}
	defer t.setWaiting(all, false)
	for i, p := range all {
		if p.turn == Waiting {
			if !t.await(ctx, all[i:]) {
				return
			}
			err := t.svc.resumeInTurn(ctx, p)
			t.setWaiting(all[i:i+1], false)
			if err != nil && ctx.Err() == nil {
				t.svc.opt.Logger.Error("cannot resume a session", "session_id", p.sessionID, "error", err)
				if db.IsEngineError(err) {
					t.svc.wg.Go(func() { t.retry(p) })
				}
				continue
			}
		}
		if !t.awaitTrial(ctx, p) {
			return
		}
	}
}

// await waits until the first request's turn may come. Meanwhile, the outputs of all
// that wait publish that they are alive. It reports false if ctx ends.
func (t *turns) await(ctx context.Context, waiting []recovery) bool {
	for {
		rest := waiting[0].after - t.svc.uptime()
		if rest <= 0 {
			return ctx.Err() == nil
		}
		if !delay.Wait(ctx, min(rest, activityInterval)) {
			return false
		}
		if rest > activityInterval {
			t.announce(ctx, waiting)
		}
	}
}

// announce publishes an activity event for each request that waits for its turn,
// so that surfaces do not give up on it.
func (t *turns) announce(ctx context.Context, waiting []recovery) {
	for _, p := range waiting {
		if !t.isWaiting(p.requestID) {
			continue
		}
		err := t.svc.opt.DB.UpdateRelaxed(ctx, func(tx *db.Tx) error {
			c := t.svc.newChange(tx, p.sessionID)
			req, err := c.request(p.requestID)
			if err != nil {
				return err
			}
			id := fmt.Sprintf("%s/out/waiting/%d", p.requestID, tx.Now().UnixMilli())
			return c.publish(id, event.RequestHeaders(p.requestID, p.sessionID, req.Client), event.OutputActivity{})
		})
		if err != nil && ctx.Err() == nil {
			t.svc.opt.Logger.Warn("cannot publish that a request waits", "session_id", p.sessionID, "request_id", p.requestID, "error", err)
		}
	}
}

// awaitTrial waits until the trial of a request is over: it has finished a model call or
// stopped, or the process has not stopped for long enough. It reports false if ctx ends.
func (t *turns) awaitTrial(ctx context.Context, p recovery) bool {
	r := t.svc.runOf(p.requestID)
	if r == nil {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(p.trial)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-r.proven:
		return true
	case <-r.ctx.Done():
		return ctx.Err() == nil
	case <-timer.C:
	}
	err := t.svc.change(ctx, p.sessionID, func(c *change) error { return c.decide(TrialPassed{RequestID: p.requestID}) })
	if err != nil && ctx.Err() == nil {
		t.svc.opt.Logger.Warn("cannot record that a request did not stop the program", "session_id", p.sessionID, "request_id", p.requestID, "error", err)
	}
	return ctx.Err() == nil
}

// retry is like retryResume for a request whose turn has come.
func (t *turns) retry(p recovery) {
	for wait := time.Second; delay.Wait(t.svc.runCtx, wait); wait = min(2*wait, time.Minute) {
		err := t.svc.resumeInTurn(t.svc.runCtx, p)
		if err == nil || t.svc.runCtx.Err() != nil {
			return
		}
		t.svc.opt.Logger.Error("cannot resume a session", "session_id", p.sessionID, "error", err)
	}
}

// endWaiting ends a request that was cancelled while it waited for its turn.
func (t *turns) endWaiting(sessionID, requestID string) {
	p := recovery{sessionID: sessionID, requestID: requestID}
	if err := t.svc.resumeInTurn(t.svc.runCtx, p); err != nil && t.svc.runCtx.Err() == nil {
		t.svc.opt.Logger.Error("cannot end a request", "session_id", sessionID, "request_id", requestID, "error", err)
		t.retry(p)
	}
}

func (t *turns) setWaiting(all []recovery, waits bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range all {
		if delete(t.waiting, p.requestID); waits && p.turn == Waiting {
			t.waiting[p.requestID] = true
		}
	}
}

func (t *turns) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting)
}

// WaitingTurns returns how many requests of a service wait for their turn after the program has
// stopped several times while they ran. Nothing else is wrong with them.
func WaitingTurns(s *Service) int { return s.turns.count() }

// isWaiting reports whether a request waits for its turn.
func (t *turns) isWaiting(requestID string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting[requestID]
}
