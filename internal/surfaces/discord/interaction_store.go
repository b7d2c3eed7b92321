package discord

import (
	"context"
	"fmt"
	"strings"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// maxUnfinished bounds how many interactions are resumed after a crash.
const maxUnfinished = 1000

// save stores an interaction; fresh is false if it was stored before. The
// request to stop is fixed here: after a crash the channel may work on another
// one.
func (s *interactions) save(ctx context.Context, i *interaction) (fresh bool, err error) {
	if i.requestID, err = s.requestToStop(ctx, *i); err != nil {
		return false, err
	}
	err = s.o.DB.Update(ctx, func(tx *db.Tx) error {
		_, seen, err := s.o.Tables.Inbox.Seen(tx, Platform, "interaction:"+i.ID, nil)
		if fresh = err == nil && !seen; !fresh {
			return err
		}
		return s.o.Tables.Interactions.PutInteraction(tx, PendingInteraction{ID: i.ID, RequestID: i.requestID, Payload: i.payload})
	})
	return fresh, err
}

// requestToStop returns the request that an interaction stops or answers, "" for none.
func (s *interactions) requestToStop(ctx context.Context, i interaction) (requestID string, err error) {
	switch {
	case i.Type == interactionCommand && i.Data.Name == commandStop && s.o.Interactions != nil:
		return s.o.Interactions.Running(ctx, i.ChannelID)
	case i.Type != interactionComponent:
		return "", nil
	}
	requestID, named := strings.CutPrefix(i.Data.CustomID, stopPrefix)
	if _, _, answered, ok := surface.ParseAnswerButton(i.Data.CustomID); ok {
		requestID, named = answered, true
	}
	if !named || requestID != "" {
		return requestID, nil
	}
	shown, err := s.recorder.history.cached(ctx, i.ChannelID, i.Message.ID)
	if fault.KindOf(err) == fault.NotFound {
		err = nil
	}
	return shown.RequestID, err
}

// commit carries out an action, if any, and stores that it is done, in one
// transaction.
func (s *interactions) commit(ctx context.Context, i interaction, reply string, action func(*db.Tx) error) error {
	return s.o.DB.Update(ctx, func(tx *db.Tx) error {
		if action != nil {
			if err := action(tx); err != nil {
				return err
			}
		}
		return s.o.Tables.Interactions.PutInteraction(tx, PendingInteraction{ID: i.ID, RequestID: i.requestID, Reply: reply, Payload: i.payload})
	})
}

// remove deletes a finished interaction.
func (s *interactions) remove(ctx context.Context, i interaction) {
	err := s.o.DB.UpdateRelaxed(ctx, func(tx *db.Tx) error { return s.o.Tables.Interactions.DeleteInteraction(tx, i.ID) })
	if err != nil && ctx.Err() == nil {
		s.o.Logger.WarnContext(ctx, "cannot delete a finished Discord interaction", "channel_id", i.ChannelID, "error", err)
	}
}

// unfinished returns the interactions that the last process did not finish.
func (s *interactions) unfinished(ctx context.Context) (out []interaction) {
	var rows []PendingInteraction
	err := s.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		rows, err = s.o.Tables.Interactions.Interactions(q, maxUnfinished)
		return err
	})
	for _, p := range rows {
		i := interaction{payload: p.Payload, requestID: p.RequestID, reply: p.Reply}
		if _, decodeErr := decodeLenient(p.Payload, &i); decodeErr != nil {
			err = fmt.Errorf("decode interaction %s: %w", p.ID, decodeErr)
			continue
		}
		out = append(out, i)
	}
	if err != nil && ctx.Err() == nil {
		s.o.Logger.ErrorContext(ctx, "cannot resume all Discord interactions from before the start", "error", err)
	}
	return out
}

// resume continues an interaction after a crash. Whether it was acknowledged is
// unknown, so it is acknowledged if there is still time.
func (s *interactions) resume(ctx context.Context, i interaction) {
	if ctx.Err() != nil {
		return
	}
	if time.Since(time.UnixMilli(createdAt(i.ID))) < acknowledgeTimeout {
		_ = s.acknowledge(ctx, i) // it fails if it was acknowledged before
	}
	if i.reply != "" {
		s.show(ctx, i, i.reply)
		return
	}
	s.finish(ctx, i)
}
