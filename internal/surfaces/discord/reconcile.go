package discord

import (
	"context"
	"slices"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
)

// reconcile applies missed edits and deletions to the cache: Discord does not
// replay them after the end of a session. page is a contiguous part of the
// channel's history, newest first; older messages keep their cached state.
func (b *backfiller) reconcile(ctx context.Context, channelID string, page []wireMessage) error {
	if len(page) == 0 {
		return nil
	}
	var cached []surface.Message
	err := b.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		cached, err = b.o.Tables.Messages.Messages(q, Platform, channelID, "", 2*pageSize)
		return err
	})
	if err != nil {
		return err
	}
	for _, c := range cached {
		if isNewer(c.ID, page[0].ID) || isNewer(page[len(page)-1].ID, c.ID) {
			continue
		}
		i := slices.IndexFunc(page, func(m wireMessage) bool { return m.ID == c.ID })
		switch {
		case i < 0:
			err = b.o.DB.Update(ctx, func(tx *db.Tx) error {
				return b.recorder.storeDeletion(tx, channelID, c.ID, "missed:"+c.ID)
			})
		case millis(page[i].Edited) > c.EditedAt && !c.FromSelf:
			if in, _ := b.recorder.incoming(ctx, page[i], true, time.Now()); in != nil {
				err = b.o.DB.Update(ctx, func(tx *db.Tx) error { return b.recorder.store(tx, in) })
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
