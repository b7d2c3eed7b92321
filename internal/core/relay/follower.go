package relay

import (
	"context"
	"encoding/base64"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// platformLimit bounds one call of the platform.
const platformLimit = 20 * time.Second

// statusAfter is how long the first message of an answer waits for text, while the
// platform shows the typing indicator.
const statusAfter = 10 * time.Second

// follower shows one request's output. Only the goroutine of run uses pace.
type follower struct {
	s         *Service
	requestID string
	wake      chan struct{}
	listener  listener
	pace      Pace
}

func newFollower(s *Service, requestID string) *follower {
	f := &follower{s: s, requestID: requestID, wake: make(chan struct{}, 1)}
	f.listener = listener{bus: s.o.Bus, requestID: requestID, logger: s.o.Logger, notify: f.notify}
	return f
}

func (f *follower) notify() {
	select {
	case f.wake <- struct{}{}:
	default: // a wake-up is pending
	}
}

// run shows the output until the relay is finished or ctx ends.
func (f *follower) run(ctx context.Context) {
	listening, stop := context.WithCancel(ctx)
	var listener sync.WaitGroup
	defer listener.Wait()
	defer stop()
	// After a restart the output is read from its beginning. The interval gives that
	// time, so that no edit shows an old part of it.
	f.listener.heard, f.pace.Edited = time.Now(), time.Now()
	listener.Go(func() { f.listener.run(listening) })
	for ctx.Err() == nil {
		finished, wait, err := f.step(ctx)
		if finished {
			return
		}
		if err != nil && ctx.Err() == nil {
			f.s.o.Logger.ErrorContext(ctx, "cannot show an answer; retrying", "request_id", f.requestID, "error", err)
			wait = retryPause
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-f.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// step makes the decisions that are due. It returns when to make the next ones if
// nothing happens; 0 means at once.
func (f *follower) step(ctx context.Context) (finished bool, wait time.Duration, err error) {
	row, err := f.load(ctx)
	if err != nil {
		return fault.KindOf(err) == fault.NotFound, 0, err
	}
	output := f.listener.snapshot()
	state, effects, err := f.decide(ctx, row, Checked{
		TextLength: int64(len(output.Text)), Complete: output.Final, Delayed: output.delayed, Unreadable: output.unreadable,
	})
	if err != nil || state.Row.Finished {
		return state.Row.Finished, 0, err
	}
	for _, e := range effects {
		switch e := e.(type) {
		case Recall:
			return false, 0, f.recall(ctx, state.Row, e.Complete)
		case Show:
			if finished, wait, err = f.show(ctx, state.Row, output, e.Ended); finished || err != nil || wait == 0 {
				return finished, 0, err
			}
		case Wait:
			if wait == 0 || e.For < wait {
				wait = e.For
			}
		default: // carried out in the transaction
		}
	}
	return false, wait, nil
}

// show renders the output and lets people see it.
func (f *follower) show(ctx context.Context, row Row, output heardOutput, ended bool) (finished bool, wait time.Duration, err error) {
	var end *End
	if ended {
		end = row.End
	}
	settings := f.settings(ctx, row.SessionID)
	settings.Mention, settings.Questions, settings.Asker = row.Mention, row.Questions, row.Asker
	settings.Early = time.Since(time.UnixMilli(row.StartedAt)) < statusAfter
	in := Rendered{
		Basis: row, Views: Render(output.Output, row.ReplyTo, row.Cuts, end, row.made(), settings),
		Ended: ended, MaxText: settings.MaxText, Interval: f.s.interval(),
	}
	if f.s.o.PingAfter != nil && ended {
		in.PingAfter = f.s.o.PingAfter()
		if err := f.s.o.DB.Read(ctx, func(q db.Queryer) (err error) {
			in.Askers, err = f.s.o.Requests.Askers(q, f.requestID)
			return err
		}); err != nil {
			return false, 0, fmt.Errorf("find the users who asked: %w", err)
		}
	}
	for state := (State{Row: row}); ; {
		var effects []Effect
		if state, effects, err = f.decide(ctx, state.Row, in); err != nil || state.Row.Finished {
			return state.Row.Finished, 0, err
		}
		after := in.After
		wait = 0
		for _, e := range effects {
			switch e := e.(type) {
			case Edit:
				in.After = e.Message.Key
				err = f.edit(ctx, state.Row, e, ended)
			case Delete:
				in.After = e.Message.Key
				err = f.delete(ctx, state.Row, e, ended)
			case Wait:
				wait = e.For
			default: // carried out in the transaction
			}
			if err != nil {
				return false, 0, err
			}
		}
		if in.After == after {
			break
		}
		if state.Row, err = f.load(ctx); err != nil {
			return false, 0, err
		}
	}
	if in.After != "" && ended {
		return false, 0, nil // that edit may have been the last
	}
	if row.End == nil && wait > 0 {
		attend, err := f.attend(ctx, row, output.at, len(in.Views) > 0)
		return false, min(wait, attend), err
	}
	return false, wait, nil
}

// edit edits a message. If the outcome is not known because ctx ended, the next
// start edits it again.
func (f *follower) edit(ctx context.Context, row Row, e Edit, ended bool) error {
	limited, cancel := context.WithTimeout(ctx, platformLimit)
	defer cancel()
	err := f.s.o.Adapter.Edit(limited, f.ref(row, e.Message.ID), f.s.content(f.requestID, e.View))
	if err != nil && ctx.Err() != nil {
		return err
	}
	return f.conclude(ctx, row, EditDone{Edit: e, Ended: ended, Err: err})
}

func (f *follower) delete(ctx context.Context, row Row, e Delete, ended bool) error {
	limited, cancel := context.WithTimeout(ctx, platformLimit)
	defer cancel()
	err := f.s.o.Adapter.Delete(limited, f.ref(row, e.target()))
	if err != nil && ctx.Err() != nil {
		return err
	}
	return f.conclude(ctx, row, DeleteDone{Delete: e, Ended: ended, Err: err})
}

func (f *follower) ref(row Row, messageID string) event.MessageRef {
	return event.MessageRef{Platform: f.s.platform(), ChannelID: row.SessionID, MessageID: messageID}
}

// conclude decides about an outcome. It returns the error of a call that is to be
// retried and logs one that is not.
func (f *follower) conclude(ctx context.Context, row Row, in Input) error {
	_, effects, err := f.decide(ctx, row, in)
	if err != nil {
		return err
	}
	for _, e := range effects {
		report, ok := e.(Report)
		switch {
		case !ok: // carried out in the transaction
		case report.Retry:
			return fmt.Errorf("update message %s: %w", report.MessageID, report.Err)
		default:
			f.s.o.Logger.WarnContext(ctx, "leaving a message as it is", "request_id", f.requestID, "message_id", report.MessageID, "error", report.Err)
		}
	}
	return nil
}

// recall completes the output from the request's journal. The bus may have lost
// the end of it, or its beginning: then the last event has all of the text, but
// not the files.
func (f *follower) recall(ctx context.Context, row Row, complete bool) error {
	var payloads []event.Payload
	readErr := f.s.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		payloads, err = f.s.o.Requests.FinalOutput(q, row.SessionID, row.RequestID)
		return err
	})
	_, effects, err := f.decide(ctx, row, Recalled{Complete: complete, Err: readErr})
	if err != nil {
		return err
	}
	for _, e := range effects {
		if report, ok := e.(Report); ok && report.Retry {
			return fmt.Errorf("read the output from the journal: %w", report.Err)
		} else if ok {
			f.s.o.Logger.WarnContext(ctx, "cannot read the output from the journal; showing what was read from the bus", "request_id", f.requestID, "error", report.Err)
		}
	}
	f.listener.apply(slices.DeleteFunc(payloads, func(p event.Payload) bool {
		_, final := p.(event.FinalText)
		return final && complete
	}))
	return nil
}

// attend shows that an answer is in progress and stops a silent request.
func (f *follower) attend(ctx context.Context, row Row, heard time.Time, visible bool) (wait time.Duration, err error) {
	_, effects, err := f.decide(ctx, row, Attended{Heard: heard, IdleLimit: f.s.o.IdleLimit, Visible: visible, Typing: f.s.o.Adapter.Capabilities().Typing})
	if err != nil {
		return 0, err
	}
	for _, e := range effects {
		switch e := e.(type) {
		case CheckPause:
			var paused bool
			if err := f.s.o.DB.Read(ctx, func(q db.Queryer) (err error) { paused, err = f.s.o.Requests.Paused(q, f.requestID); return err }); err != nil {
				f.s.o.Logger.WarnContext(ctx, "cannot find out whether a request waits for a person", "request_id", f.requestID, "error", err)
			}
			if _, _, err := f.decide(ctx, row, PauseChecked{Paused: paused}); err != nil {
				return 0, err
			}
		case ShowTyping:
			limited, cancel := context.WithTimeout(ctx, platformLimit)
			if err := f.s.o.Adapter.Typing(limited, row.SessionID); err != nil {
				f.s.o.Logger.DebugContext(ctx, "cannot show the typing indicator", "session_id", row.SessionID, "error", err)
			}
			cancel()
		case Wait:
			wait = e.For
		default: // carried out in the transaction
		}
	}
	return wait, nil
}

// decide makes one decision. Only a decision that changes the row, or has effects
// that belong to a transaction, takes one; it is made again there, on the stored
// row.
func (f *follower) decide(ctx context.Context, row Row, in Input) (after State, effects []Effect, err error) {
	before := State{row, f.pace}
	after, effects = Decide(before, in, time.Now())
	if !reflect.DeepEqual(row, after.Row) || slices.ContainsFunc(effects, inTransaction) {
		err = f.s.o.DB.Update(ctx, func(tx *db.Tx) error {
			stored, err := f.s.core.Load(tx, f.requestID)
			if err != nil {
				return fmt.Errorf("load the relay: %w", err)
			}
			stored.Pace = f.pace
			after, effects, err = f.s.core.ApplyTo(tx, f.requestID, stored, in)
			return err
		})
	}
	if err != nil {
		return before, nil, err
	}
	if f.pace.GaveUp.IsZero() && !after.Pace.GaveUp.IsZero() {
		f.s.o.Logger.WarnContext(ctx, "giving up an answer that cannot be shown", "request_id", f.requestID, "session_id", row.SessionID, "reason", row.Reason)
	}
	f.pace = after.Pace
	return after, effects, nil
}

func (f *follower) load(ctx context.Context) (row Row, err error) {
	err = f.s.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		row, err = f.s.o.Table.Relay(q, f.s.platform(), f.requestID)
		return err
	})
	return row, err
}

func (f *follower) settings(ctx context.Context, channelID string) Settings {
	can := f.s.o.Adapter.Capabilities()
	s := Settings{MaxText: can.MaxText, MaxFiles: can.MaxFiles, MaxFileBytes: f.s.o.Adapter.MaxFileBytes(channelID), MaxMessageBytes: can.MaxMessageBytes, Size: func(b event.BinaryOutput) int64 {
		if b.Blob != "" && f.s.o.Format != nil {
			return f.s.o.Format.BlobSize(b.Blob)
		}
		return int64(base64.StdEncoding.DecodedLen(len(b.DataBase64)))
	}}
	if f.s.o.Format != nil {
		s.Scrub = f.s.o.Format.Scrub
		s.Rewrite = func(text string) (string, []string) { return f.s.o.Format.Rewrite(ctx, text) }
	}
	return s
}
