package discord

import (
	"context"
	"time"

	"github.com/disgoorg/disgo/discord"
	"github.com/disgoorg/disgo/rest"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// maxArchivedPages bounds how many pages of archived threads are read of one
// channel.
const maxArchivedPages = 5

// findArchived looks for threads of a channel that were archived while nothing
// was heard, and opens a gap in each in which something was said.
func (a *Adapter) findArchived(ctx context.Context, g Gap) error {
	if g.Threads == 0 {
		return nil
	}
	since := max(g.Threads, time.Now().Add(-a.o.BackfillAge).UnixMilli())
	public, err := a.archived(ctx, rest.GetPublicArchivedThreads, g.ChannelID, since, func(c wireChannel) (before string, over bool) {
		return c.Metadata.ArchivedAt, millis(c.Metadata.ArchivedAt) < since
	})
	if err != nil {
		return err
	}
	// These are in the order of their ids, so the last one can be an old one.
	private, err := a.archived(ctx, rest.GetJoinedPrivateArchivedThreads, g.ChannelID, since, func(c wireChannel) (before string, over bool) {
		return c.ID, false
	})
	if err != nil {
		return err
	}
	found := a.meet(append(public, private...), "")
	err = a.o.DB.Update(ctx, func(tx *db.Tx) error {
		known := map[string]bool{g.ChannelID: true}
		for _, c := range found {
			if err := a.openGap(tx, c, "", since, known, sight{}); err != nil {
				return err
			}
		}
		return a.o.Tables.Gaps.CloseGap(tx, g.Archived())
	})
	if err == nil && len(found) > 0 {
		wake(a.gaps)
	}
	return err
}

// archived lists threads of a channel that were archived after a moment
// ("Channels Resource", list public archived threads, list joined private
// archived threads). Next says of the last thread of a page where the next one
// begins, and whether it is over age. A channel that does not let us look has
// none.
func (a *Adapter) archived(ctx context.Context, e *rest.Endpoint, channelID string, since int64, next func(last wireChannel) (before string, over bool)) (out []wireChannel, err error) {
	query := discord.QueryValues{"limit": pageSize}
	for range maxArchivedPages {
		var page struct {
			Threads []wireChannel `json:"threads"`
			More    bool          `json:"has_more"`
		}
		err := a.api.do(ctx, e.Compile(query, channelID), nil, &page)
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
		before, over := next(page.Threads[len(page.Threads)-1])
		if over {
			return out, nil
		}
		query["before"] = before
	}
	a.o.Logger.WarnContext(ctx, "a channel has more archived threads than are looked at", "channel_id", channelID, "looked_at", maxArchivedPages*pageSize)
	return out, nil
}
