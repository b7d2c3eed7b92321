package task

import (
	"context"
	"errors"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/delay"
	"lilac/internal/foundation/fault"
)

// minSleep is the shortest jump of the wall clock that counts as a suspend of the machine.
const minSleep = 2 * time.Second

// runCommand runs a command and records its end. It owns the command from the commit of
// its start to the commit of its end.
func (s *Service) runCommand(ctx context.Context, l *runningTask, limits Limits) {
	defer close(l.done)
	defer l.cancel(nil)
	t := l.task
	left := time.UnixMilli(t.Deadline).Sub(time.UnixMilli(t.CreatedAt))
	ctx, timeUp := context.WithTimeoutCause(ctx, left, errTimeUp)
	defer timeUp()
	in := s.execute(ctx, l, limits)
	for wait := time.Second; in != nil; wait = min(2*wait, time.Minute) {
		// Record the end even if the process is stopping.
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
		_, err := s.change(rctx, t.ID, in)
		cancel()
		if err == nil {
			return
		}
		s.o.Logger.Error("cannot record the end of a background task", "task_id", t.ID, "session_id", t.SessionID, "error", err)
		if !delay.Wait(s.ctx, wait) {
			return // the next start reports it as lost
		}
	}
	s.untrack(t.ID)
}

// execute runs the command and returns how it ended, or nil if the process is stopping.
func (s *Service) execute(ctx context.Context, l *runningTask, limits Limits) Input {
	t := l.task
	dir := s.outputDir(t.ID)
	out, err := newLog(dir, limits.OutputBytes)
	if err != nil {
		s.o.Logger.Error("cannot start a background task", "task_id", t.ID, "error", err)
		return NotRun{Reason: "The command was not run, because its output cannot be saved."}
	}
	s.mu.Lock()
	l.log = out
	s.mu.Unlock()
	s.wakeWatch()
	exit, err := s.o.Commands.Run(ctx, t, out)
	if cerr := out.Close(); cerr != nil {
		s.o.Logger.Warn("cannot save the whole output of a background task", "task_id", t.ID, "error", cerr)
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
	default: // one signal is pending already
	}
}

// watch checks the running tasks until ctx ends. It sleeps while nothing runs.
func (s *Service) watch(ctx context.Context) {
	last := s.o.Now()
	awake := time.Now()
	for ctx.Err() == nil {
		if s.Running() == 0 {
			select {
			case <-ctx.Done():
			case <-s.wake:
			}
			last, awake = s.o.Now(), time.Now()
			continue
		}
		if !delay.Wait(ctx, s.o.CheckInterval) {
			return
		}
		now := s.o.Now()
		// A suspend stops the monotonic clock, and a clock that is set ahead does not
		// move it.
		if slept := now.Round(0).Sub(last.Round(0)) - time.Since(awake); slept >= minSleep {
			s.extend(ctx, slept)
		}
		last, awake = now, time.Now()
		s.check(ctx, now)
	}
}

// extend extends the time limits of the sub-agents by the time in which the machine slept.
func (s *Service) extend(ctx context.Context, slept time.Duration) {
	s.mu.Lock()
	var agents []string
	for id, l := range s.live {
		if l.task.Kind == Agent {
			agents = append(agents, id)
		}
	}
	s.mu.Unlock()
	for _, id := range agents {
		t, err := s.change(ctx, id, Slept{slept})
		if err != nil {
			if ctx.Err() == nil {
				s.o.Logger.WarnContext(ctx, "cannot extend the time limit of a sub-agent after a suspend", "task_id", id, "error", err)
			}
			continue
		}
		s.mu.Lock()
		if l := s.live[id]; l != nil {
			l.task.Deadline = t.Deadline
		}
		s.mu.Unlock()
	}
}

// check ends the sub-agents whose time limit is over, and publishes progress.
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
		if db.IsDamaged(err) { // leave its row, but end its request
			s.o.Logger.ErrorContext(ctx, "cannot read the task of a sub-agent whose time limit is over", "task_id", t.ID, "error", err)
			err = s.o.DB.Update(ctx, func(tx *db.Tx) error {
				tx.AfterCommit(func() { s.untrack(t.ID) })
				return s.carryOut(tx, t.ID, t, CancelRequest{})
			})
		}
		if err != nil && ctx.Err() == nil {
			s.o.Logger.ErrorContext(ctx, "cannot end a sub-agent whose time limit is over", "task_id", t.ID, "error", err)
		}
	}
	for _, l := range moved {
		if err := s.publishProgress(ctx, l, now); err != nil && ctx.Err() == nil {
			s.o.Logger.WarnContext(ctx, "cannot publish the progress of a background task", "task_id", l.task.ID, "error", err)
		}
	}
}

// expired reports whether the time limit is over. Setting the clock back does not extend
// it.
func (l *runningTask) expired(now time.Time) bool {
	return now.UnixMilli() >= l.task.Deadline || now.Sub(l.trackedSince) >= time.UnixMilli(l.task.Deadline).Sub(time.UnixMilli(l.task.CreatedAt))
}

// progressDueLocked reports whether the next progress event is due.
func (s *Service) progressDueLocked(l *runningTask, now time.Time) bool {
	began := time.UnixMilli(l.task.CreatedAt)
	last := l.lastProgress
	if last.IsZero() {
		last = began
	}
	return now.Sub(last) >= max(s.o.ProgressInterval, now.Sub(began)/10)
}

// publishProgress publishes a progress event if there is progress since the last one. It
// does not wait for the disk, because a lost progress event does no harm.
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
