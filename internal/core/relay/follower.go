package relay

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

const (
	// typingInterval refreshes what platforms show for about ten seconds.
	typingInterval = 8 * time.Second
	// finalGrace is how long the end of the output may come after the request's.
	finalGrace = 10 * time.Second
	// platformLimit bounds one call of the platform.
	platformLimit = 20 * time.Second
	// retryPause is the wait after trouble that may pass; of a platform it doubles
	// up to maxRetryPause.
	retryPause    = 2 * time.Second
	maxRetryPause = 30 * time.Second
	// longestPause is when a platform is asked again that wants us to wait longer.
	longestPause = time.Minute
	// mendFor is how long after the end, or after a start, a message is tried to be
	// edited before it is left as it is.
	mendFor = 24 * time.Hour
)

// follower shows one request's output.
type follower struct {
	s         *Service
	requestID string
	wake      chan struct{}

	mu sync.Mutex
	// output is what was said, and heard when something was last.
	output Output
	heard  time.Time
	// at is how far the topic was read. failed is why the rest of it will never
	// be, late that it cannot be read now.
	at     bus.Position
	failed error
	late   bool

	// Only run uses what follows.
	edited time.Time
	typed  time.Time
	ended  time.Time
	idle   bool
	// recalled says that the request's own records were asked for what it said.
	recalled bool
	// trouble counts the edits in a row that came to nothing; later is when the
	// platform is asked again.
	trouble int
	later   time.Time
	// gaveUp is when it became known that nothing can be shown any more.
	gaveUp time.Time
}

func newFollower(s *Service, requestID string) *follower {
	return &follower{s: s, requestID: requestID, wake: make(chan struct{}, 1)}
}

func (f *follower) notify() {
	select {
	case f.wake <- struct{}{}:
	default: // it is going to look anyway
	}
}

// run shows the output until it is shown whole or ctx ends.
func (f *follower) run(ctx context.Context) {
	tailing, stop := context.WithCancel(ctx)
	var tail sync.WaitGroup
	defer tail.Wait()
	defer stop()
	// After a start the output is read anew: what it was once is not shown again.
	f.heard, f.edited = time.Now(), time.Now()
	tail.Go(func() { f.listen(tailing) })
	for ctx.Err() == nil {
		done, wait, err := f.step(ctx)
		if err != nil && ctx.Err() == nil {
			f.s.o.Logger.ErrorContext(ctx, "an answer could not be shown", "request_id", f.requestID, "error", err)
			wait = retryPause
		}
		if done {
			return
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

// listen reduces the output topic, from its beginning. When that is gone the
// request may still go on to say something, which is then what is shown; when
// it is out of reach it is read on later.
func (f *follower) listen(ctx context.Context) {
	for {
		err := f.tail(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		trimmed, damaged := errors.Is(err, bus.ErrTrimmed), db.IsDamaged(err)
		f.mu.Lock()
		first := !trimmed && !damaged && !f.late
		if trimmed {
			f.at = ""
		}
		if trimmed || damaged {
			f.failed, f.late = err, false
		} else {
			// Nobody can be heard now, so nobody is silent.
			f.late, f.heard = true, time.Now()
		}
		f.mu.Unlock()
		f.notify()
		if damaged {
			return
		}
		if first {
			f.s.o.Logger.WarnContext(ctx, "an answer cannot be followed now", "request_id", f.requestID, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryPause):
		}
	}
}

func (f *follower) tail(ctx context.Context) error {
	f.mu.Lock()
	after := f.at
	f.mu.Unlock()
	reached := func() {
		f.mu.Lock()
		f.late = false
		f.mu.Unlock()
		f.notify()
	}
	return f.s.o.Bus.Tail(ctx, bus.Tail{Topic: event.OutputTopic(f.requestID), After: after, Ready: reached}, func(d bus.Delivery) error {
		payload, err := event.Decode(d.Event)
		if err != nil {
			f.s.o.Logger.WarnContext(ctx, "an output event cannot be read", "request_id", f.requestID, "event_id", d.ID, "error", err)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.at = d.Position
		if err != nil {
			return nil
		}
		f.output.Apply(payload)
		f.heard, f.failed = time.Now(), nil
		f.notify()
		return nil
	})
}

// snapshot is the output as it is now; what it holds is not changed later.
func (f *follower) snapshot() (o Output, heard time.Time, late bool, failed error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o = f.output
	o.Tools, o.Binaries, o.Anchors = slices.Clone(o.Tools), slices.Clone(o.Binaries), maps.Clone(o.Anchors)
	return o, f.heard, f.late, f.failed
}

// step does what is due. It returns when to look again at the latest.
func (f *follower) step(ctx context.Context) (done bool, wait time.Duration, err error) {
	row, err := f.load(ctx)
	if err != nil {
		return fault.KindOf(err) == fault.NotFound, 0, err
	}
	if row.Finished {
		return true, 0, nil
	}
	if row.Reason != "" {
		if f.gaveUp.IsZero() {
			return false, 0, f.giveUp(ctx, row)
		}
		if f.closed(row) {
			return true, 0, f.finish(ctx)
		}
	}
	output, heard, late, failed := f.snapshot()
	final, wait := f.final(row, output, late, failed)
	if !final && row.Reason != "" {
		return false, wait, nil // how it ends is not known yet
	}
	if final && !f.recalled {
		if err := f.recall(ctx, row, output.Final); err != nil {
			return false, 0, err
		}
		output, heard, _, _ = f.snapshot()
	}
	if row, err = f.cutNow(ctx, row, output); err != nil {
		return false, 0, err
	}
	var end *End
	if final {
		end = row.End
	}
	settings := f.settings(ctx)
	settings.Mention = row.Mention
	views := Render(output, row.ReplyTo, row.Cuts, end, row.made(), settings)
	if row.Reason != "" {
		return f.close(ctx, row, views, settings.MaxText)
	}
	acts, settled := Decide(row, views, final)
	if settled {
		return true, 0, f.finish(ctx)
	}
	next, err := f.act(ctx, row, acts, final)
	if err != nil {
		return false, 0, err
	}
	if row.End == nil {
		next = min(next, f.attend(ctx, row, heard, len(views) > 0))
	}
	return false, min(wait, next), nil
}

// final reports whether the output has ended: by its last event, or because
// that will not come, or has not long after the request's end although it could.
func (f *follower) final(row Row, o Output, late bool, failed error) (final bool, wait time.Duration) {
	const later = time.Minute
	if row.End == nil || late && !o.Final {
		f.ended = time.Time{}
		return false, later
	}
	if f.ended.IsZero() {
		f.ended = time.Now()
	}
	left := finalGrace - time.Since(f.ended)
	return o.Final || failed != nil || left <= 0, max(left, 0) + later*time.Duration(b2i(o.Final))
}

// recall takes what was said from the request's own records: the bus may have lost
// the end of its output, or is another one than it was. It may also have lost the
// beginning, of which the end, when it is heard, has the text and not the files.
func (f *follower) recall(ctx context.Context, row Row, heard bool) error {
	if f.s.o.Said == nil {
		return nil
	}
	var said []event.Payload
	err := f.s.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		said, err = f.s.o.Said(q, row.SessionID, row.RequestID)
		return err
	})
	switch {
	case err != nil && (heard || fault.KindOf(err) == fault.NotFound || db.IsDamaged(err)):
		f.s.o.Logger.WarnContext(ctx, "an answer is shown as far as it was seen: its records cannot be read", "request_id", f.requestID, "error", err)
	case err != nil:
		return fmt.Errorf("recall what was said: %w", err)
	}
	f.recalled = true
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range said {
		if _, end := p.(event.FinalText); !end || !heard {
			f.output.Apply(p)
		}
	}
	return nil
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// cutNow gives cuts that name no message their place: what was said by now.
func (f *follower) cutNow(ctx context.Context, row Row, o Output) (Row, error) {
	if !slices.ContainsFunc(row.Cuts, func(c Cut) bool { return c.MessageID == "" && c.Offset < 0 }) {
		return row, nil
	}
	return f.change(ctx, func(_ *db.Tx, row *Row) error {
		row.Cuts = slices.Clone(row.Cuts)
		for i, c := range row.Cuts {
			if c.MessageID == "" && c.Offset < 0 {
				row.Cuts[i].Offset = int64(len(o.Text))
			}
		}
		return nil
	})
}

// attend shows that an answer is being made, and ends one that is not.
func (f *follower) attend(ctx context.Context, row Row, heard time.Time, visible bool) (next time.Duration) {
	left := f.s.o.IdleLimit - time.Since(heard)
	if left <= 0 && !f.idle {
		paused := false
		if f.s.o.Paused != nil {
			if err := f.s.o.DB.Read(ctx, func(q db.Queryer) (err error) { paused, err = f.s.o.Paused(q, f.requestID); return err }); err != nil {
				f.s.o.Logger.WarnContext(ctx, "whether a request waits is not known", "request_id", f.requestID, "error", err)
			}
		}
		if !paused {
			f.idle = true
			f.cancel(ctx, row, "Nothing was heard of this request for a long time, so it was stopped.")
		}
		left = f.s.o.IdleLimit
	}
	if visible {
		return max(left, time.Second)
	}
	if since := time.Since(f.typed); since >= typingInterval && f.s.o.Adapter.Capabilities().Typing {
		f.typed = time.Now()
		limited, cancel := context.WithTimeout(ctx, platformLimit)
		defer cancel()
		if err := f.s.o.Adapter.Typing(limited, row.SessionID); err != nil {
			f.s.o.Logger.DebugContext(ctx, "typing cannot be shown", "session_id", row.SessionID, "error", err)
		}
	}
	return min(max(left, time.Second), typingInterval)
}

func (f *follower) finish(ctx context.Context) error {
	_, err := f.change(ctx, func(_ *db.Tx, row *Row) error {
		row.Finished = true
		return nil
	})
	return err
}

func (f *follower) load(ctx context.Context) (row Row, err error) {
	err = f.s.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		row, err = f.s.o.Table.Relay(q, f.s.platform(), f.requestID)
		return err
	})
	return row, err
}

// change changes the row in a transaction and returns it.
func (f *follower) change(ctx context.Context, fn func(tx *db.Tx, row *Row) error) (row Row, err error) {
	err = f.s.o.DB.Update(ctx, func(tx *db.Tx) (err error) {
		if row, err = f.s.o.Table.Relay(tx, f.s.platform(), f.requestID); err != nil {
			return err
		}
		if err := fn(tx, &row); err != nil {
			return err
		}
		return f.s.o.Table.SaveRelay(tx, row)
	})
	return row, err
}

func (f *follower) settings(ctx context.Context) Settings {
	can := f.s.o.Adapter.Capabilities()
	s := Settings{MaxText: can.MaxText, MaxFiles: can.MaxFiles, MaxFileBytes: can.MaxFileBytes, MaxMessageBytes: can.MaxMessageBytes, Size: func(b event.BinaryOutput) int64 {
		if b.Blob != "" && f.s.o.BlobSize != nil {
			return f.s.o.BlobSize(b.Blob)
		}
		return int64(base64.StdEncoding.DecodedLen(len(b.DataBase64)))
	}}
	s.Scrub = f.s.o.Scrub
	if f.s.o.Rewrite != nil {
		s.Rewrite = func(text string) (string, []string) { return f.s.o.Rewrite(ctx, text) }
	}
	return s
}
