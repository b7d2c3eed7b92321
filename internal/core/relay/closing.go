package relay

import (
	"context"
	"slices"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// restLost stands under the last message of an answer whose rest could not be
// sent.
const restLost = "⏹️ The rest could not be shown here; the page has all of it."

// giveUp ends a request whose output nobody can see, and takes back what of it
// was not sent yet. What people see already is closed by step.
func (f *follower) giveUp(ctx context.Context, row Row) error {
	f.s.o.Logger.WarnContext(ctx, "an answer cannot be shown, so its request ends", "request_id", f.requestID, "session_id", row.SessionID, "reason", row.Reason)
	if row.End == nil {
		f.cancel(ctx, row, "The answer cannot be shown: "+row.Reason)
	}
	err := f.s.o.DB.Update(ctx, func(tx *db.Tx) error { return f.s.withdraw(tx, row) })
	if err == nil {
		f.gaveUp = time.Now()
	}
	return err
}

// closed reports whether nothing can be done any more about an answer that was
// given up.
func (f *follower) closed(row Row) bool {
	return time.Since(f.gaveUp) >= mendFor || !slices.ContainsFunc(row.Messages, func(m Message) bool {
		return m.State == MessageSent || m.State == MessagePlanned
	})
}

// close lets the messages that are there show how the answer ended, as soon as
// the platform takes that: a button under them would stop nothing. Nothing new is
// sent.
func (f *follower) close(ctx context.Context, row Row, views []View, maxText int) (done bool, wait time.Duration, err error) {
	acts, _ := Decide(row, standing(row, views, maxText), true)
	if len(acts) == 0 && len(row.planned()) == 0 {
		return true, 0, f.finish(ctx)
	}
	wait, err = f.act(ctx, row, acts, true)
	return false, wait, err
}

// standing are the views whose messages people see; the last of them says so
// where more should follow.
func standing(row Row, views []View, maxText int) []View {
	there := slices.DeleteFunc(slices.Clone(views), func(v View) bool {
		m, _ := row.message(v.Key)
		return m.State != MessageSent
	})
	n := len(there) - 1
	if n < 0 || there[n].Key == views[len(views)-1].Key || there[n].Text == "" {
		return there
	}
	if text := there[n].Text + "\n" + restLost; units(text) <= maxText {
		there[n].Text = text
	}
	return there
}

// refused takes in that the platform does not let us, or that the channel is
// gone. It ends the request; of one that was ended for that it is tried again,
// or the message left alone.
func (f *follower) refused(ctx context.Context, over Message, err error) error {
	if f.gaveUp.IsZero() {
		_, err = f.change(ctx, func(_ *db.Tx, row *Row) error {
			row.Reason = fault.ToWire(err).Message
			return nil
		})
		f.notify() // the next step gives up
		return err
	}
	if channelGone(err) {
		_, err = f.change(ctx, func(_ *db.Tx, row *Row) error {
			over.State, over.Old = MessageLost, ""
			row.set(over)
			return nil
		})
		f.notify()
		return err
	}
	f.later = time.Now().Add(min(retryPause<<min(f.trouble, 10), longestPause))
	f.trouble++
	return nil
}

func (f *follower) cancel(ctx context.Context, row Row, reason string) {
	e, err := event.New(event.Meta{ID: "relay-cancel:" + f.requestID, Time: time.Now(), Headers: event.RequestHeaders(f.requestID, row.SessionID, f.s.platform())},
		event.RequestCancel{Reason: reason})
	if err == nil {
		err = f.s.o.Bus.Publish(ctx, e)
	}
	if err != nil && ctx.Err() == nil {
		f.s.o.Logger.ErrorContext(ctx, "a request could not be cancelled", "request_id", f.requestID, "error", err)
	}
}
