package discord

import (
	"context"
	"slices"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

const (
	// gapRetry is the wait before a channel that could not be read is tried
	// again.
	gapRetry = 30 * time.Second
	// maxGaps bounds how many gaps are looked at in one go.
	maxGaps = 1000
	// maxAligned bounds in how many channels, those used last, a new session
	// looks for edits and deletions that were missed: one request each.
	maxAligned = 50
	// maxBackfill bounds what the configuration may ask for.
	maxBackfill = 1000
)

// ready takes in who we are, and opens a gap in every private conversation and
// in what was used last: what was said there while no session was heard, also in
// a thread that was archived since, and what was edited or deleted. Those of
// servers follow with their channels.
func (a *Adapter) ready(w wireReady) func(*db.Tx) error {
	a.mu.Lock()
	heard := a.state.HeardAt
	a.state.Self = surface.User{ID: w.User.ID, Name: w.User.name(nil), Bot: true}
	a.state.ApplicationID = w.Application.ID
	a.known = w.User.ID != ""
	a.unheardSince = heard
	a.mu.Unlock()
	return func(tx *db.Tx) error {
		if err := a.o.Tables.Messages.PutUser(tx, Platform, surface.User{ID: w.User.ID, Name: w.User.name(nil), Bot: true}); err != nil {
			return err
		}
		sessions, err := a.o.Tables.Channels.Sessions(tx, Platform)
		if err != nil {
			return err
		}
		used, named := tx.Now().Add(-a.o.BackfillAge).UnixMilli(), a.allow.Load().AllowedChannelIDs
		for i, s := range sessions { // the last used first
			recent := i < maxAligned && s.UpdatedAt >= used || s.Kind == surface.Thread && slices.Contains(named, s.ChannelID)
			if (s.Kind == surface.Direct || recent) && s.ReadMessageID != "" && heard > 0 {
				if err := a.o.Tables.Gaps.OpenGap(tx, Gap{ChannelID: s.ChannelID, After: s.ReadMessageID}); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// guild takes in a server's channels, and opens a gap in each whose last
// message is newer than what was read, or whose threads may have been archived
// meanwhile: Discord tells of none that is ("Threads", active & archived
// threads). It tells of channels that we may not see, too; asking for those
// would be refused, and too much of that bans the address.
func (a *Adapter) guild(g wireGuild) func(*db.Tx) error {
	heard := a.meet(slices.Concat(g.Channels, g.Threads), g.ID)
	a.mu.Lock()
	since := a.unheardSince
	a.mu.Unlock()
	if since > 0 {
		since = max(since, millis(g.JoinedAt)) // before, nothing was said to us
	}
	var there []string
	for _, c := range g.Channels {
		there = append(there, c.ID)
	}
	return func(tx *db.Tx) error {
		if g.ID != "" && !g.Unavailable && len(there) > 0 {
			if err := a.o.Tables.Channels.ForgetMissing(tx, Platform, g.ID, there); err != nil {
				return err
			}
		}
		known := map[string]bool{}
		for _, c := range heard { // threads after their channels
			if err := a.openGap(tx, c, g.ID, since, known, g.sightOf(a.selfID(), c)); err != nil {
				return err
			}
		}
		return nil
	}
}

// meet notes what channels are, and returns those that are heard.
func (a *Adapter) meet(channels []wireChannel, guildID string) (heard []wireChannel) {
	for _, c := range channels {
		p := placeOf(c, guildID)
		a.channels.put(c.ID, p)
		if a.allow.Load().allowed(c.ID, p) && !c.empty() {
			heard = append(heard, c)
		}
	}
	return heard
}

// openGap compares what a channel holds with what was read of it. A channel
// that is new to us is read from now on, unless it was made while we were away,
// or is a thread of one that we know: it was archived until somebody wrote.
// Known gets the channel if it is none of those. What is said in one that is
// hidden from us is not said to us, also when it is shown to us later.
func (a *Adapter) openGap(tx *db.Tx, c wireChannel, guildID string, since int64, known map[string]bool, seen sight) error {
	s, err := a.session(tx, c.ID, placeOf(c, guildID))
	if err != nil {
		return err
	}
	s.Hidden = seen.hidden
	made := since > 0 && madeAt(c.ID) >= since
	known[c.ID] = s.ReadMessageID != "" || made
	if s.ReadMessageID == "" {
		s.ReadMessageID = c.LastMessageID
		switch {
		case s.ReadMessageID == "" || made:
			s.ReadMessageID = idBefore(c.ID) // a forum's post has the id of its first message
		case since > 0 && c.thread() && known[c.ParentID]:
			s.ReadMessageID = idAt(since)
		}
	}
	if laterID(c.LastMessageID, s.LastMessageID) {
		s.LastMessageID = c.LastMessageID
	}
	if seen.hidden && !c.threadsOnly() && laterID(c.LastMessageID, s.ReadMessageID) {
		s.ReadMessageID = c.LastMessageID
	}
	if seen.unread {
		return a.o.Tables.Channels.PutSession(tx, s)
	}
	gap := Gap{ChannelID: c.ID}
	if laterID(c.LastMessageID, s.ReadMessageID) && !c.threadsOnly() {
		gap.After, gap.Until = s.ReadMessageID, c.LastMessageID
	}
	if since > 0 && known[c.ID] && c.threaded() {
		gap.Threads = since
	}
	if gap.After != "" || gap.Threads != 0 {
		if err := a.o.Tables.Gaps.OpenGap(tx, gap); err != nil {
			return err
		}
	}
	return a.o.Tables.Channels.PutSession(tx, s)
}

// session is a channel's session as the store has it, with what is known now.
func (a *Adapter) session(tx *db.Tx, channelID string, p place) (surface.Session, error) {
	s, err := a.o.Tables.Channels.Session(tx, Platform, channelID)
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return s, err
	}
	s.Platform, s.ChannelID, s.Kind, s.ParentChannelID = Platform, channelID, p.kind, p.parentID
	if p.guildID != "" {
		s.GuildID = p.guildID
	}
	if p.name != "" {
		s.Title = p.name
	}
	return s, nil
}

// channel takes in a channel that was made or changed.
func (a *Adapter) channel(c wireChannel) func(*db.Tx) error {
	p := placeOf(c, "")
	before, _ := a.channels.get(c.ID)
	a.channels.put(c.ID, p)
	if c.direct() || c.empty() || !a.allow.Load().allowed(c.ID, p) {
		return nil
	}
	if !c.thread() && p.shown != before.shown { // threads are told to those who see them
		a.recheck(p.guildID)
	}
	return func(tx *db.Tx) error {
		s, err := a.session(tx, c.ID, p)
		if err != nil {
			return err
		}
		if s.ReadMessageID == "" {
			s.ReadMessageID = idBefore(c.ID)
		}
		return a.o.Tables.Channels.PutSession(tx, s)
	}
}

// deleted takes in that a channel is gone.
func (a *Adapter) deleted(c wireChannel) func(*db.Tx) error {
	a.channels.forget(c.ID)
	return func(tx *db.Tx) error { return a.o.Tables.Channels.ForgetSession(tx, Platform, c.ID) }
}

// wake lets whoever waits on c look again.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is going to look anyway
	}
}

// closeGaps reads what was not heard, until ctx ends. Gaps are in the store,
// so a crash in between loses nothing.
func (a *Adapter) closeGaps(ctx context.Context) error {
	var last []Gap
	for {
		var gaps []Gap
		err := a.o.DB.Read(ctx, func(q db.Queryer) (err error) {
			gaps, err = a.o.Tables.Gaps.Gaps(q, maxGaps)
			return err
		})
		failed := err != nil
		if _, known := a.Self(); !known {
			gaps = nil // who we are comes with the first session
		}
		// What was said comes before what else might have been.
		for _, read := range []func(context.Context, Gap) error{a.closeGap, a.findArchived} {
			for _, g := range gaps {
				if err := read(ctx, g); err != nil && ctx.Err() == nil {
					failed = true
					a.o.Logger.WarnContext(ctx, "what was said in a channel meanwhile cannot be read yet", "channel_id", g.ChannelID, "error", err)
				}
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var again <-chan time.Time
		switch {
		case failed:
			again = time.After(gapRetry)
		case len(gaps) > 0 && !slices.Equal(gaps, last):
			last = gaps
			continue // there may be more than are looked at in one go
		}
		last = nil
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.gaps:
		case <-again:
		}
	}
}

// closeGap reads a channel and takes its messages in, oldest first, through
// the same inbox as the gateway's.
func (a *Adapter) closeGap(ctx context.Context, g Gap) error {
	if g.After == "" {
		return nil
	}
	// A history does not name the server; what the channel is must be known.
	_, err := a.place(ctx, g.ChannelID)
	var missed, known []wireMessage
	if err == nil {
		missed, known, err = a.missed(ctx, g)
	}
	switch fault.KindOf(err) {
	case "":
	case fault.NotFound, fault.Denied, fault.Invalid:
		a.o.Logger.WarnContext(ctx, "what was said in a channel meanwhile cannot be read", "channel_id", g.ChannelID, "error", err)
	default:
		return err
	}
	for _, m := range missed {
		in := a.incoming(ctx, m, false)
		if in == nil {
			continue
		}
		if err := a.o.DB.Update(ctx, func(tx *db.Tx) error { return a.put(tx, in) }); err != nil {
			return err
		}
	}
	if err := a.align(ctx, g.ChannelID, known); err != nil {
		return err
	}
	if len(missed) > 0 {
		a.o.Logger.InfoContext(ctx, "read what was said in a channel meanwhile", "channel_id", g.ChannelID, "messages", len(missed))
	}
	return a.o.DB.Update(ctx, func(tx *db.Tx) error { return a.o.Tables.Gaps.CloseGap(tx, g.Messages()) })
}

// missed lists the messages of a gap, oldest first: the newest ones, within
// the limits of the configuration, and however old replies that are waited for.
// Known are those before it that were read with them, newest first.
func (a *Adapter) missed(ctx context.Context, g Gap) (out, known []wireMessage, err error) {
	var awaited []string
	err = a.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		awaited, err = a.o.Tables.Gaps.AwaitedMessages(q, g.ChannelID)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	oldest := idAt(time.Now().Add(-a.o.BackfillAge).UnixMilli())
	after := oldest
	for _, id := range awaited { // a reply is later than what it replies to
		if laterID(after, id) {
			after = id
		}
	}
	if laterID(g.After, after) {
		after = g.After
	}
	limit, before := min(a.o.BackfillMessages, maxBackfill), ""
	others, seen := 0, 0 // of those that nobody waits for; of all
	skipped, ended := false, false
reading:
	for others < limit || len(awaited) > 0 && seen < maxBackfill {
		page, err := a.page(ctx, g.ChannelID, before, "", pageSize)
		if err != nil {
			return nil, nil, err
		}
		seen += len(page)
		for i, m := range page {
			before = m.ID
			switch {
			case !laterID(m.ID, after):
				known, ended = page[i:], true
				break reading
			case g.Until != "" && laterID(m.ID, g.Until):
			case m.Reference != nil && slices.Contains(awaited, m.Reference.MessageID):
				out = append(out, m)
			case !laterID(m.ID, oldest):
			case others < limit:
				out = append(out, m)
				others++
			default:
				skipped = true
			}
		}
		if len(page) < pageSize {
			ended = true
			break
		}
	}
	if limit > 0 && (skipped || !ended) {
		a.o.Logger.WarnContext(ctx, "so much was said in a channel meanwhile that the oldest of it may not be read: surface.discord.backfill.messages is the limit",
			"channel_id", g.ChannelID, "limit", limit)
	}
	slices.Reverse(out)
	return out, known, nil
}
