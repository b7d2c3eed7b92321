package session

import (
	"context"
	"fmt"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

// takeTurns resumes requests one by one after an unclean stop; see planRecovery. The first
// ones of turns may be on trial already.
func (s *Service) takeTurns(turns []recovery) {
	ctx := s.runCtx
	s.setWaiting(turns, true)
	defer s.setWaiting(turns, false)
	for i, p := range turns {
		if p.turn == Waiting {
			if !s.awaitTurn(ctx, turns[i:]) {
				return
			}
			err := s.resumeInTurn(ctx, p)
			s.setWaiting(turns[i:i+1], false)
			if err != nil && ctx.Err() == nil {
				s.opt.Logger.Error("cannot resume a session", "session_id", p.sessionID, "error", err)
				if db.IsEngineError(err) {
					s.wg.Go(func() { s.retryTurn(p) })
				}
				continue
			}
		}
		if !s.awaitTrial(ctx, p) {
			return
		}
	}
}

// awaitTurn waits until the first request's turn may come. Meanwhile, the outputs of all
// that wait publish that they are alive. It reports false if ctx ends.
func (s *Service) awaitTurn(ctx context.Context, waiting []recovery) bool {
	for {
		rest := waiting[0].after - s.uptime()
		if rest <= 0 {
			return ctx.Err() == nil
		}
		if !sleep(ctx, min(rest, activityInterval)) {
			return false
		}
		if rest > activityInterval {
			s.announceWaiting(ctx, waiting)
		}
	}
}

// announceWaiting publishes an activity event for each request that waits for its turn,
// so that surfaces do not give up on it.
func (s *Service) announceWaiting(ctx context.Context, waiting []recovery) {
	for _, p := range waiting {
		if !s.isWaiting(p.requestID) {
			continue
		}
		err := s.opt.DB.UpdateRelaxed(ctx, func(tx *db.Tx) error {
			c := s.newChange(tx, p.sessionID)
			req, err := c.request(p.requestID)
			if err != nil {
				return err
			}
			id := fmt.Sprintf("%s/out/waiting/%d", p.requestID, tx.Now().UnixMilli())
			return c.publish(id, event.RequestHeaders(p.requestID, p.sessionID, req.Client), event.OutputActivity{})
		})
		if err != nil && ctx.Err() == nil {
			s.opt.Logger.Warn("cannot publish that a request waits", "session_id", p.sessionID, "request_id", p.requestID, "error", err)
		}
	}
}

// awaitTrial waits until the trial of a request is over: it has finished a model call or
// stopped, or the process has not stopped for long enough. It reports false if ctx ends.
func (s *Service) awaitTrial(ctx context.Context, p recovery) bool {
	r := s.runOf(p.requestID)
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
	err := s.change(ctx, p.sessionID, func(c *change) error { return c.decide(TrialPassed{RequestID: p.requestID}) })
	if err != nil && ctx.Err() == nil {
		s.opt.Logger.Warn("cannot record that a request did not stop the program", "session_id", p.sessionID, "request_id", p.requestID, "error", err)
	}
	return ctx.Err() == nil
}

// retryTurn is like retryResume for a request whose turn has come.
func (s *Service) retryTurn(p recovery) {
	for wait := time.Second; sleep(s.runCtx, wait); wait = min(2*wait, time.Minute) {
		err := s.resumeInTurn(s.runCtx, p)
		if err == nil || s.runCtx.Err() != nil {
			return
		}
		s.opt.Logger.Error("cannot resume a session", "session_id", p.sessionID, "error", err)
	}
}

// endWaiting ends a request that was cancelled while it waited for its turn.
func (s *Service) endWaiting(sessionID, requestID string) {
	p := recovery{sessionID: sessionID, requestID: requestID}
	if err := s.resumeInTurn(s.runCtx, p); err != nil && s.runCtx.Err() == nil {
		s.opt.Logger.Error("cannot end a request", "session_id", sessionID, "request_id", requestID, "error", err)
		s.retryTurn(p)
	}
}

func (s *Service) setWaiting(turns []recovery, waits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range turns {
		if delete(s.waiting, p.requestID); waits && p.turn == Waiting {
			s.waiting[p.requestID] = true
		}
	}
}

// isWaiting reports whether a request waits for its turn.
func (s *Service) isWaiting(requestID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting[requestID]
}
