package task

import (
	"context"
	"errors"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// runCommand owns a command from the commit that started it to the one that
// ends it.
func (s *Service) runCommand(ctx context.Context, l *runningTask, limits Limits) {
	defer close(l.done)
	defer l.cancel(nil)
	t := l.task
	left := time.UnixMilli(t.Deadline).Sub(time.UnixMilli(t.CreatedAt))
	ctx, timeUp := context.WithTimeoutCause(ctx, left, errTimeUp)
	defer timeUp()
	in := s.execute(ctx, l, limits)
	for wait := time.Second; in != nil; wait = min(2*wait, time.Minute) {
		// The end is recorded also when the program stops just now.
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
		_, err := s.change(rctx, t.ID, in)
		cancel()
		if err == nil {
			return
		}
		s.o.Logger.Error("the end of a background task was not recorded", "task_id", t.ID, "session_id", t.SessionID, "error", err)
		if !sleep(s.ctx, wait) {
			return // the next start finds it lost
		}
	}
	s.untrack(t.ID)
}

// execute runs the command and says how it ended, or nil when the program
// stopped.
func (s *Service) execute(ctx context.Context, l *runningTask, limits Limits) Input {
	t := l.task
	dir := s.outputDir(t.ID)
	out, err := newLog(dir, limits.OutputBytes)
	if err != nil {
		s.o.Logger.Error("a background task could not be started", "task_id", t.ID, "error", err)
		return NotRun{Reason: "The command was not run: its output could not be kept."}
	}
	s.mu.Lock()
	l.log = out
	s.mu.Unlock()
	s.wakeWatch()
	exit, err := s.o.Commands.Run(ctx, t, out)
	if cerr := out.Close(); cerr != nil {
		s.o.Logger.Warn("not all of a background task's output was kept", "task_id", t.ID, "error", cerr)
	}
	said := readTail(dir)
	if err == nil {
		return Exited{exit, said}
	}
	var stop stopped
	switch cause := context.Cause(ctx); {
	case errors.As(cause, &stop):
		return Stop{stop.by, said}
	case errors.Is(cause, errTimeUp):
		return Expired{said}
	case cause != nil:
		return nil
	}
	return NotRun{"The command was not run: " + fault.ToWire(err).Message, said}
}

func (s *Service) wakeWatch() {
	select {
	case s.wake <- struct{}{}:
	default: // it is going to look anyway
	}
}

// watch looks at what runs until ctx ends. While nothing runs it sleeps.
func (s *Service) watch(ctx context.Context) {
	for ctx.Err() == nil {
		if s.Running() == 0 {
			select {
			case <-ctx.Done():
			case <-s.wake:
			}
			continue
		}
		if !sleep(ctx, s.o.CheckInterval) {
			return
		}
		s.check(ctx, time.Now())
	}
}

// look ends the sub-agents whose time is up, and tells of progress.
func (s *Service) check(ctx context.Context, now time.Time) {
	s.mu.Lock()
	var late []Task
	var moved []*runningTask
	for _, l := range s.live {
		switch {
		case l.task.Kind == Agent && l.expired(now):
			late = append(late, l.task)
		case (l.log != nil || l.task.Kind == Agent) && s.progressDueLocked(l, now):
			moved = append(moved, l)
		}
	}
	s.mu.Unlock()
	for _, t := range late {
		_, err := s.change(ctx, t.ID, Expired{})
		if db.IsDamaged(err) { // its row stays as it is, and its request ends
			s.o.Logger.ErrorContext(ctx, "a sub-agent's time is up whose task cannot be read", "task_id", t.ID, "error", err)
			err = s.o.DB.Update(ctx, func(tx *db.Tx) error {
				tx.AfterCommit(func() { s.untrack(t.ID) })
				return s.carryOut(tx, t.ID, t, CancelRequest{})
			})
		}
		if err != nil && ctx.Err() == nil {
			s.o.Logger.ErrorContext(ctx, "a sub-agent whose time is up was not ended", "task_id", t.ID, "error", err)
		}
	}
	for _, l := range moved {
		if err := s.publishProgress(ctx, l, now); err != nil && ctx.Err() == nil {
			s.o.Logger.WarnContext(ctx, "the progress of a background task was not told", "task_id", l.task.ID, "error", err)
		}
	}
}

// over reports whether its time is up. A clock that was set back gives it no more.
func (l *runningTask) expired(now time.Time) bool {
	return now.UnixMilli() >= l.task.Deadline || now.Sub(l.trackedSince) >= time.UnixMilli(l.task.Deadline).Sub(time.UnixMilli(l.task.CreatedAt))
}

// dueLocked reports whether it is time for another progress.
func (s *Service) progressDueLocked(l *runningTask, now time.Time) bool {
	began := time.UnixMilli(l.task.CreatedAt)
	last := l.lastProgress
	if last.IsZero() {
		last = began
	}
	return now.Sub(last) >= max(s.o.ProgressInterval, now.Sub(began)/10)
}

// tellProgress publishes a progress when there is more than at the last one.
// It may be lost with the power: it only describes.
func (s *Service) publishProgress(ctx context.Context, l *runningTask, now time.Time) error {
	w, err := s.progressOf(ctx, l)
	if err != nil {
		return err
	}
	s.mu.Lock()
	more := w.Amount > l.lastAmount
	l.lastProgress, l.lastAmount = now, w.Amount
	s.mu.Unlock()
	if !more {
		return nil
	}
	e, err := progressEvent(l.task, w, now)
	if err != nil {
		return err
	}
	return s.o.DB.UpdateRelaxed(ctx, func(tx *db.Tx) error { return s.o.Publish(tx, e) })
}

func (s *Service) progressOf(ctx context.Context, l *runningTask) (w Progress, err error) {
	if l.task.Kind == Command {
		w.Amount, w.LastLine = l.log.progress()
		return w, nil
	}
	err = s.o.DB.Read(ctx, func(q db.Queryer) error {
		w, err = s.o.Requests.ProgressOf(q, l.task.ChildRequest)
		return err
	})
	w.LastLine = lastLine(w.LastLine)
	return w, err
}

// sleep reports whether ctx still goes on after d.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
