package discord

import (
	"context"
	"slices"
	"time"

	"lilac/internal/db"
	"lilac/internal/fault"
	"lilac/internal/surface"
)

const (
	// gapRetry is the wait before a channel that could not be read is tried
	// again.
	gapRetry = 30 * time.Second
	// maxGaps bounds how many gaps are looked at in one go.
	maxGaps = 1000
	// maxBackfill bounds what the configuration may ask for.
	maxBackfill = 1000
)

// ready takes in who we are, and opens a gap in every private conversation:
// what was said there while no session was heard. Those of servers follow with
// their channels.
func (a *Adapter) ready(w wireReady) func(*db.Tx) error {
	a.mu.Lock()
	heard := a.state.HeardAt
	a.state.Self = surface.User{ID: w.User.ID, Name: w.User.name(nil), Bot: true}
	a.state.ApplicationID = w.Application.ID
	a.known = w.User.ID != ""
	a.unheardSince = heard
	a.mu.Unlock()
	return func(tx *db.Tx) error {
		if err := a.o.Table.PutUser(tx, Platform, surface.User{ID: w.User.ID, Name: w.User.name(nil), Bot: true}); err != nil {
			return err
		}
		sessions, err := a.o.Table.Sessions(tx, Platform)
		if err != nil {
			return err
		}
		for _, s := range sessions {
			if s.Kind == surface.Direct && s.ReadMessageID != "" {
				if err := a.o.Table.OpenGap(tx, Gap{ChannelID: s.ChannelID, After: s.ReadMessageID}); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// guild takes in a server's channels, and opens a gap in each whose last
// message is newer than what was read.
func (a *Adapter) guild(g wireGuild) func(*db.Tx) error {
	var heard []wireChannel
	for _, c := range slices.Concat(g.Channels, g.Threads) {
		p := placeOf(c, g.ID)
		a.channels.put(c.ID, p)
		if a.o.allowed(c.ID, p) {
			heard = append(heard, c)
		}
	}
	a.mu.Lock()
	since := a.unheardSince
	a.mu.Unlock()
	return func(tx *db.Tx) error {
		for _, c := range heard {
			if err := a.openGap(tx, c, g.ID, since); err != nil {
				return err
			}
		}
		return nil
	}
}

// openGap compares what a channel holds with what was read of it. A channel
// that is new to us is read from now on, unless it was made while we were away.
func (a *Adapter) openGap(tx *db.Tx, c wireChannel, guildID string, since int64) error {
	s, err := a.session(tx, c.ID, placeOf(c, guildID))
	if err != nil {
		return err
	}
	fresh := s.ReadMessageID == ""
	if fresh {
		s.ReadMessageID = c.LastMessageID
		if s.ReadMessageID == "" || since > 0 && madeAt(c.ID) >= since {
			s.ReadMessageID = c.ID // older than everything that is said in it
		}
	}
	if laterID(c.LastMessageID, s.LastMessageID) {
		s.LastMessageID = c.LastMessageID
	}
	if laterID(c.LastMessageID, s.ReadMessageID) {
		if err := a.o.Table.OpenGap(tx, Gap{ChannelID: c.ID, After: s.ReadMessageID, Until: c.LastMessageID}); err != nil {
			return err
		}
	}
	return a.o.Table.PutSession(tx, s)
}

// session is a channel's session as the store has it, with what is known now.
func (a *Adapter) session(tx *db.Tx, channelID string, p place) (surface.Session, error) {
	s, err := a.o.Table.Session(tx, Platform, channelID)
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
	a.channels.put(c.ID, p)
	if c.direct() || !a.o.allowed(c.ID, p) {
		return nil
	}
	return func(tx *db.Tx) error {
		s, err := a.session(tx, c.ID, p)
		if err != nil {
			return err
		}
		if s.ReadMessageID == "" {
			s.ReadMessageID = c.ID
		}
		return a.o.Table.PutSession(tx, s)
	}
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
	for {
		var gaps []Gap
		err := a.o.DB.Read(ctx, func(q db.Queryer) (err error) {
			gaps, err = a.o.Table.Gaps(q, maxGaps)
			return err
		})
		failed := err != nil
		if _, known := a.Self(); !known {
			gaps = nil // who we are comes with the first session
		}
		for _, g := range gaps {
			if err := a.closeGap(ctx, g); err != nil && ctx.Err() == nil {
				failed = true
				a.o.Logger.WarnContext(ctx, "what was said in a channel meanwhile cannot be read yet", "channel_id", g.ChannelID, "error", err)
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var again <-chan time.Time
		if failed {
			again = time.After(gapRetry)
		}
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
	// A history does not name the server; what the channel is must be known.
	_, err := a.place(ctx, g.ChannelID)
	var missed []wireMessage
	if err == nil {
		missed, err = a.missed(ctx, g)
	}
	switch fault.KindOf(err) {
	case "":
	case fault.NotFound, fault.Denied:
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
	if len(missed) > 0 {
		a.o.Logger.InfoContext(ctx, "read what was said in a channel meanwhile", "channel_id", g.ChannelID, "messages", len(missed))
	}
	return a.o.DB.Update(ctx, func(tx *db.Tx) error { return a.o.Table.CloseGap(tx, g.ChannelID) })
}

// missed lists the messages of a gap, oldest first: the newest ones, within
// the limits of the configuration.
func (a *Adapter) missed(ctx context.Context, g Gap) ([]wireMessage, error) {
	after := g.After
	if oldest := idAt(time.Now().Add(-a.o.BackfillAge).UnixMilli()); laterID(oldest, after) {
		after = oldest
	}
	limit, before := min(a.o.BackfillMessages, maxBackfill), ""
	var out []wireMessage
	for len(out) < limit {
		page, err := a.page(ctx, g.ChannelID, before, "", pageSize)
		if err != nil {
			return nil, err
		}
		for _, m := range page {
			before = m.ID
			if !laterID(m.ID, after) {
				slices.Reverse(out)
				return out, nil
			}
			if len(out) < limit && (g.Until == "" || !laterID(m.ID, g.Until)) {
				out = append(out, m)
			}
		}
		if len(page) < pageSize {
			break
		}
	}
	slices.Reverse(out)
	return out, nil
}
