package discord

import (
	"context"
	"slices"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

const (
	// gapRetry is the wait before a channel that could not be read is retried.
	gapRetry = 30 * time.Second
	// maxGaps bounds how many gaps are loaded at a time.
	maxGaps = 1000
	// maxBackfill bounds the setting surface.discord.backfill.messages.
	maxBackfill = 1000
)

// backfiller reads the messages that the gateway did not deliver.
type backfiller struct {
	o         Options
	status    *status
	client    *client
	directory *directory
	history   *history
	recorder  *recorder
	guilds    *guildSync
	changed   signal
}

// run closes gaps until ctx ends. Gaps are stored, so a crash loses nothing.
func (b *backfiller) run(ctx context.Context) error {
	var last []Gap
	for {
		gaps, failed := b.closeGaps(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var again <-chan time.Time
		switch {
		case failed:
			again = time.After(gapRetry)
		case len(gaps) > 0 && !slices.Equal(gaps, last):
			last = gaps
			continue // there may be more than maxGaps
		}
		last = nil
		if err := b.changed.wait(ctx, again); err != nil {
			return err
		}
	}
}

// closeGaps makes one attempt at the stored gaps: first the messages of all
// channels, then the archived threads.
func (b *backfiller) closeGaps(ctx context.Context) (gaps []Gap, failed bool) {
	err := b.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		gaps, err = b.o.Tables.Gaps.Gaps(q, maxGaps)
		return err
	})
	failed = err != nil
	if _, known := b.status.self(); !known {
		gaps = nil // the bot's identity arrives with the first session
	}
	for _, read := range []func(context.Context, Gap) error{b.closeGap, b.findArchived} {
		for _, g := range gaps {
			if err := read(ctx, g); err != nil && ctx.Err() == nil {
				failed = true
				b.o.Logger.WarnContext(ctx, "cannot read the missed messages of a channel yet", "channel_id", g.ChannelID, "error", err)
			}
		}
	}
	return gaps, failed
}

// closeGap reads a channel and stores its messages, oldest first, through the
// same inbox as the gateway's.
func (b *backfiller) closeGap(ctx context.Context, g Gap) error {
	if g.After == "" {
		return nil
	}
	// Messages of a history do not name their server; the channel must be known.
	_, err := b.directory.lookup(ctx, g.ChannelID)
	var missed, older []wireMessage
	if err == nil {
		missed, older, err = b.missed(ctx, g)
	}
	switch fault.KindOf(err) {
	case "":
	case fault.NotFound, fault.Denied, fault.Invalid:
		b.o.Logger.WarnContext(ctx, "cannot read the missed messages of a channel", "channel_id", g.ChannelID, "error", err)
	default:
		return err
	}
	for _, m := range missed {
		in, _ := b.recorder.incoming(ctx, m, false, time.Now())
		if in == nil {
			continue
		}
		if err := b.o.DB.Update(ctx, func(tx *db.Tx) error { return b.recorder.store(tx, in) }); err != nil {
			return err
		}
	}
	if err := b.reconcile(ctx, g.ChannelID, older); err != nil {
		return err
	}
	if len(missed) > 0 {
		b.o.Logger.InfoContext(ctx, "read the missed messages of a channel", "channel_id", g.ChannelID, "messages", len(missed))
	}
	return b.o.DB.Update(ctx, func(tx *db.Tx) error { return b.o.Tables.Gaps.CloseGap(tx, g.Messages()) })
}

// missed returns the messages of a gap, oldest first: the newest ones, within
// the configured limits, and awaited replies of any age. older holds the
// messages before the gap that were on the same page, newest first.
func (b *backfiller) missed(ctx context.Context, g Gap) (out, older []wireMessage, err error) {
	var awaited []string
	err = b.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		awaited, err = b.o.Tables.Gaps.AwaitedMessages(q, g.ChannelID)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	oldest := firstIDAt(time.Now().Add(-b.o.BackfillAge).UnixMilli())
	after := oldest
	for _, id := range awaited { // a reply is newer than the message it replies to
		if isNewer(after, id) {
			after = id
		}
	}
	if isNewer(g.After, after) {
		after = g.After
	}
	limit, before := min(b.o.BackfillMessages, maxBackfill), ""
	selected, read := 0, 0 // messages that nobody awaits; all messages
	skipped, complete := false, false
reading:
	for selected < limit || len(awaited) > 0 && read < maxBackfill {
		page, err := b.history.page(ctx, g.ChannelID, before, "", pageSize)
		if err != nil {
			return nil, nil, err
		}
		read += len(page)
		for i, m := range page {
			before = m.ID
			switch {
			case !isNewer(m.ID, after):
				older, complete = page[i:], true
				break reading
			case g.Until != "" && isNewer(m.ID, g.Until):
			case m.Reference != nil && slices.Contains(awaited, m.Reference.MessageID):
				out = append(out, m)
			case !isNewer(m.ID, oldest):
			case selected < limit:
				out = append(out, m)
				selected++
			default:
				skipped = true
			}
		}
		if len(page) < pageSize {
			complete = true
			break
		}
	}
	if limit > 0 && (skipped || !complete) {
		b.o.Logger.WarnContext(ctx, "a channel has more missed messages than surface.discord.backfill.messages allows; the oldest are skipped",
			"channel_id", g.ChannelID, "limit", limit)
	}
	slices.Reverse(out)
	return out, older, nil
}
