package relay

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"lilac/internal/core/outbox"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// act carries out what was decided. New messages are planned at once; edits
// keep their distance, but the last ones do not wait.
func (f *follower) act(ctx context.Context, row Row, acts []Act, final bool) (next time.Duration, err error) {
	const later = time.Minute
	for _, a := range acts {
		switch a.Kind {
		case ActSend:
			if err := f.send(ctx, a); err != nil {
				return 0, err
			}
			next = later // the outbox tells
		case ActEdit, ActDelete:
			if left := time.Until(f.later); left > 0 {
				return left, nil
			}
			if left := f.s.interval() - time.Since(f.edited); left > 0 && !final {
				return left, nil
			}
			if err := f.mend(ctx, a, final); err != nil {
				return 0, err
			}
			if final {
				f.notify() // it may have been the last
			}
		}
	}
	return later, nil
}

func (f *follower) send(ctx context.Context, a Act) error {
	files, err := f.files(a.View.Files)
	if err != nil {
		return err
	}
	a.Message.Shown = a.View.looks()
	_, err = f.change(ctx, func(tx *db.Tx, row *Row) error {
		row.set(a.Message)
		return f.s.o.Outbox.Plan(tx, outbox.Row{
			Key: row.outboxKey(a.Message), RequestID: row.RequestID, SessionID: row.SessionID,
			Send: surface.Send{ChannelID: row.SessionID, Content: f.content(a.View), ReplyTo: a.View.ReplyTo, Files: files},
		})
	})
	if err == nil {
		f.edited = time.Now()
	}
	return err
}

func (f *follower) content(v View) surface.Content {
	c := surface.Content{Text: v.Text, PingUsers: v.Users}
	if v.Stop && f.s.o.Adapter.Capabilities().Buttons {
		c.Buttons = []surface.Button{{ID: "stop:" + f.requestID, Label: "Stop", Danger: true}}
	}
	return c
}

func (f *follower) files(binaries []event.BinaryOutput) (files []surface.File, err error) {
	for _, b := range binaries {
		file := surface.File{Name: b.Filename, MimeType: b.MimeType, Blob: b.Blob}
		if b.Blob == "" {
			if file.Data, err = base64.StdEncoding.DecodeString(b.DataBase64); err != nil {
				return nil, fmt.Errorf("decode file %s: %w", b.BinaryID, err)
			}
		}
		files = append(files, file)
	}
	return files, nil
}

// mend edits a message, or deletes it: its old copy, if there is one.
func (f *follower) mend(ctx context.Context, a Act, final bool) error {
	limited, cancel := context.WithTimeout(ctx, platformLimit)
	defer cancel()
	// Should the answer be lost, or we be killed, nobody knows what it shows.
	row, err := f.change(ctx, func(_ *db.Tx, row *Row) error {
		if a.Kind == ActEdit {
			a.Message.Shown = ""
			row.set(a.Message)
		}
		return nil
	})
	if err != nil {
		return err
	}
	ref := event.MessageRef{Platform: f.s.platform(), ChannelID: row.SessionID, MessageID: a.Message.ID}
	over := a.Message // what it is when nothing can be done about it any more
	switch {
	case a.Kind == ActEdit:
		over.State = MessageLost
		err = f.s.o.Adapter.Edit(limited, ref, f.content(a.View))
	case a.Message.Old != "":
		ref.MessageID, over.Old = a.Message.Old, ""
		err = f.s.o.Adapter.Delete(limited, ref)
	default:
		over.State = MessageLost
		err = f.s.o.Adapter.Delete(limited, ref)
	}
	f.edited = time.Now()
	switch kind := fault.KindOf(err); {
	case err != nil && ctx.Err() != nil:
		return err // it goes on at the next start
	case err == nil && a.Kind == ActEdit:
		over = a.Message
		over.Shown = a.View.looks()
	case err == nil || kind == fault.NotFound && !channelGone(err):
		// Somebody who deletes our message does not want it back.
	case kind == fault.Conflict && a.Kind == ActEdit:
		// The platform takes no more edits of it: it is made anew.
		return f.again(ctx, a)
	case kind == fault.RateLimited && fault.RetryAfterOf(err) > 0:
		// It is no trouble of the message, however long it lasts.
		f.later = time.Now().Add(min(fault.RetryAfterOf(err), longestPause))
		return nil
	case kind == fault.Denied || channelGone(err):
		return f.refused(ctx, a.Message, err)
	case !final || mayPass(kind) && time.Since(f.ended) < mendFor:
		f.later = time.Now().Add(min(retryPause<<min(f.trouble, 10), maxRetryPause))
		f.trouble++
		return fmt.Errorf("%s message %s: %w", a.Kind, ref.MessageID, err)
	default:
		f.s.o.Logger.WarnContext(ctx, "a message stays as it is", "request_id", f.requestID, "message_id", ref.MessageID, "error", err)
	}
	f.trouble = 0
	_, err = f.change(ctx, func(_ *db.Tx, row *Row) error {
		row.set(over)
		return nil
	})
	return err
}

// mayPass reports whether the same edit may be taken later: the platform or the
// network is away, its token is in doubt, or the trouble is ours.
func mayPass(k fault.Kind) bool {
	return k.Retryable() || k == fault.Unauthenticated || k == fault.Internal
}

func channelGone(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Code == surface.CodeUnknownChannel
}

// again plans a copy of a message, with its files, instead of which it will be
// the old one that goes.
func (f *follower) again(ctx context.Context, a Act) error {
	a.Message.Copies++
	a.Message.State, a.Message.ID, a.Message.Old = MessagePlanned, "", a.Message.ID
	return f.send(ctx, a)
}
