package discord

import (
	"context"
	"slices"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

// align brings the cache to what a channel shows: page is a part of its
// history without holes, newest first. Discord does not tell what was edited
// or deleted while no session was heard; what is older than the page stays as
// it was.
func (a *Adapter) align(ctx context.Context, channelID string, page []wireMessage) error {
	if len(page) == 0 {
		return nil
	}
	var cached []surface.Message
	err := a.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		cached, err = a.o.Tables.Messages.Messages(q, Platform, channelID, "", 2*pageSize)
		return err
	})
	if err != nil {
		return err
	}
	for _, c := range cached {
		if laterID(c.ID, page[0].ID) || laterID(page[len(page)-1].ID, c.ID) {
			continue
		}
		i := slices.IndexFunc(page, func(m wireMessage) bool { return m.ID == c.ID })
		switch {
		case i < 0:
			err = a.o.DB.Update(ctx, func(tx *db.Tx) error { return a.putDeletion(tx, channelID, c.ID, "missed:"+c.ID) })
		case millis(page[i].Edited) > c.EditedAt && !c.FromSelf:
			if in := a.incoming(ctx, page[i], true); in != nil {
				err = a.o.DB.Update(ctx, func(tx *db.Tx) error { return a.put(tx, in) })
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// putDeletion takes in that a message is gone.
func (a *Adapter) putDeletion(tx *db.Tx, channelID, messageID, externalID string) error {
	now := tx.Now().UnixMilli()
	if err := a.o.Tables.Messages.MarkDeleted(tx, Platform, channelID, messageID, now); err != nil {
		return err
	}
	return a.publishOnce(tx, externalID, event.AdapterDeletion{Platform: Platform, ChannelID: channelID, MessageID: messageID, TS: now})
}
