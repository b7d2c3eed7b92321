package discord

import (
	"cmp"
	"context"
	"slices"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/delay"
	"lilac/internal/foundation/fault"
)

const (
	// refreshDelay is the wait before a server is read again, because changes
	// come in groups.
	refreshDelay = time.Second
	// maxStale bounds how many servers wait to be read; a connection has at most
	// 2,500 ("Gateway", sharding).
	maxStale = 2500
)

// run reads servers from the REST API when the gateway does not describe them: a
// resumed session does not repeat the servers, so one that was allowed meanwhile
// is unknown; and the event of a changed role does not say which channels it
// shows or hides.
func (g *guildSync) run(ctx context.Context) error {
	var again <-chan time.Time
	for {
		if err := g.changed.wait(ctx, again); err != nil {
			return err
		}
		if !delay.Wait(ctx, refreshDelay) {
			return ctx.Err()
		}
		again = nil
		if err := g.refreshStale(ctx); err != nil && ctx.Err() == nil {
			g.o.Logger.WarnContext(ctx, "cannot refresh the Discord servers yet", "error", err)
			again = time.After(gapRetry)
		}
	}
}

// scheduleGuildRefresh has a server read again soon.
func (g *guildSync) scheduleGuildRefresh(guildID string) {
	g.markStale(guildID)
	g.changed.notify()
}

// scheduleFullRefresh has the allowed servers and channels checked for ones that
// are not cached.
func (g *guildSync) scheduleFullRefresh() {
	g.setUncached(true)
	g.changed.notify()
}

func (g *guildSync) setUncached(to bool) (was bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was, g.uncached = g.uncached, to
	return was
}

// markStale records servers whose cached state may be wrong.
func (g *guildSync) markStale(guildIDs ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, id := range guildIDs {
		if id != "" && len(g.stale) < maxStale {
			g.stale[id] = true
		}
	}
}

// takeStale returns the stale servers and clears the set.
func (g *guildSync) takeStale() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	guilds := make([]string, 0, len(g.stale))
	for id := range g.stale {
		guilds = append(guilds, id)
	}
	clear(g.stale)
	slices.Sort(guilds)
	return guilds
}

func (g *guildSync) refreshStale(ctx context.Context) error {
	if _, known := g.status.self(); !known {
		return nil // the first session begins with all servers
	}
	if g.setUncached(false) {
		if err := g.markUncachedStale(ctx); err != nil {
			g.setUncached(true)
			return err
		}
	}
	guilds := g.takeStale()
	for i, id := range guilds {
		err := g.refresh(ctx, id)
		switch fault.KindOf(err) {
		case "", fault.NotFound, fault.Denied, fault.Invalid: // the bot may have left
		default:
			g.markStale(guilds[i:]...)
			return err
		}
	}
	return nil
}

// markUncachedStale marks the allowed servers of which nothing is cached.
func (g *guildSync) markUncachedStale(ctx context.Context) error {
	allow := g.directory.allow.Load()
	var guilds, channels []string
	err := g.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		guilds, channels, err = g.o.Tables.Channels.Uncached(q, allow.AllowedGuildIDs, allow.AllowedChannelIDs)
		return err
	})
	if err != nil {
		return err
	}
	for _, id := range channels {
		i, err := g.directory.lookup(ctx, id)
		switch fault.KindOf(err) {
		case "":
			guilds = append(guilds, i.guildID)
		case fault.NotFound, fault.Denied, fault.Invalid:
		default:
			return err
		}
	}
	g.markStale(guilds...)
	return nil
}

// refresh reads a server and stores its channels. It opens no gaps: the gateway
// delivers their messages.
func (g *guildSync) refresh(ctx context.Context, guildID string) error {
	var w wireGuild
	if err := g.client.get(ctx, getGuild.with(guildID), &w); err != nil {
		return err
	}
	self := g.status.selfID()
	var me wireMember
	if err := g.client.get(ctx, getGuildMember.with(guildID, self), &me); err != nil {
		return err
	}
	if err := g.client.get(ctx, getGuildChannels.with(guildID), &w.Channels); err != nil {
		return err
	}
	if me.User == nil {
		me.User = &wireUser{ID: self}
	}
	w.ID, w.Members = guildID, []wireMember{me}
	g.directory.tiers.Store(guildID, w.PremiumTier)
	allowed := g.directory.remember(w.Channels, guildID)
	return g.o.DB.Update(ctx, func(tx *db.Tx) error {
		if err := g.putRoles(tx, w.Roles); err != nil {
			return err
		}
		for _, c := range allowed {
			s, err := g.directory.session(tx, c.ID, infoFrom(c, guildID))
			if err != nil {
				return err
			}
			w.visibilityOf(self, c).applyTo(&s)
			if s.ReadMessageID == "" {
				s.ReadMessageID = cmp.Or(c.LastMessageID, idBefore(c.ID))
			}
			if err := g.o.Tables.Channels.PutSession(tx, s); err != nil {
				return err
			}
		}
		return nil
	})
}
