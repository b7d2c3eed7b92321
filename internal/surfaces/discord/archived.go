package discord

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// maxArchivedPages bounds how many pages of archived threads are read per
// channel.
const maxArchivedPages = 5

// findArchived opens gaps in the threads of a channel that were archived without
// an event.
func (b *backfiller) findArchived(ctx context.Context, g Gap) error {
	if g.Threads == 0 {
		return nil
	}
	since := max(g.Threads, time.Now().Add(-b.o.BackfillAge).UnixMilli())
	public, err := b.archivedThreads(ctx, listPublicArchivedThreads, g.ChannelID, since, func(c wireChannel) (before string, done bool) {
		return c.Metadata.ArchivedAt, millis(c.Metadata.ArchivedAt) < since
	})
	if err != nil {
		return err
	}
	// Private threads are sorted by id, so an old one says nothing about the next.
	private, err := b.archivedThreads(ctx, listJoinedPrivateArchivedThreads, g.ChannelID, since, func(c wireChannel) (before string, done bool) {
		return c.ID, false
	})
	if err != nil {
		return err
	}
	found := b.directory.remember(append(public, private...), "")
	err = b.o.DB.Update(ctx, func(tx *db.Tx) error {
		known := map[string]bool{g.ChannelID: true}
		for _, c := range found {
			if err := b.guilds.openGap(tx, c, "", since, known, visibility{}); err != nil {
				return err
			}
		}
		return b.o.Tables.Gaps.CloseGap(tx, g.Archived())
	})
	if err == nil && len(found) > 0 {
		b.changed.notify()
	}
	return err
}

// archivedThreads lists the threads of a channel that were archived since a time
// ("Channels Resource", list public archived threads, list joined private
// archived threads). next returns, for the last thread of a page, where the next
// page begins and whether older pages can be skipped. A channel that refuses the
// list has no archived threads.
func (b *backfiller) archivedThreads(ctx context.Context, r *route, channelID string, since int64, next func(last wireChannel) (before string, done bool)) (out []wireChannel, err error) {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	for range maxArchivedPages {
		var page struct {
			Threads []wireChannel `json:"threads"`
			More    bool          `json:"has_more"`
		}
		err := b.client.get(ctx, r.with(channelID).search(query), &page)
		switch fault.KindOf(err) {
		case "":
		case fault.NotFound, fault.Denied, fault.Invalid:
			return out, nil
		default:
			return nil, err
		}
		for _, c := range page.Threads {
			if millis(c.Metadata.ArchivedAt) >= since {
				out = append(out, c)
			}
		}
		if !page.More || len(page.Threads) == 0 {
			return out, nil
		}
		before, done := next(page.Threads[len(page.Threads)-1])
		if done {
			return out, nil
		}
		query.Set("before", before)
	}
	b.o.Logger.WarnContext(ctx, "a channel has more archived threads than are read", "channel_id", channelID, "limit", maxArchivedPages*pageSize)
	return out, nil
}
