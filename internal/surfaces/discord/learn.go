package discord

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/disgoorg/disgo/rest"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

const (
	// learnPause is the wait before it is asked what a server looks like: changes
	// come in groups.
	learnPause = time.Second
	// maxStale bounds of how many servers that waits to be asked; a connection
	// has no more of them ("Gateway", sharding).
	maxStale = 2500
)

// learnChannels asks Discord which channels there are where the gateway does
// not say it: a session that is resumed does not begin with the servers, so of
// one that was allowed since nothing is known; and of a role that changes it is
// not said which channels that shows or hides.
func (a *Adapter) learnChannels(ctx context.Context) error {
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.changed:
		case <-again:
		}
		if !pause(ctx, learnPause) {
			return ctx.Err()
		}
		again = nil
		if err := a.learnStale(ctx); err != nil && ctx.Err() == nil {
			a.o.Logger.WarnContext(ctx, "what channels there are on Discord cannot be asked yet", "error", err)
			again = time.After(gapRetry)
		}
	}
}

// recheck has it asked soon what a server looks like.
func (a *Adapter) recheck(guildID string) {
	a.suspect(guildID)
	wake(a.changed)
}

// suspect notes servers of which what is known may be wrong.
func (a *Adapter) suspect(guildIDs ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range guildIDs {
		if id != "" && len(a.stale) < maxStale {
			a.stale[id] = true
		}
	}
}

func (a *Adapter) learnStale(ctx context.Context) error {
	if _, known := a.Self(); !known {
		return nil // the first session begins with all of it
	}
	a.mu.Lock()
	unsure := a.unsure
	a.unsure = false
	a.mu.Unlock()
	if unsure {
		if err := a.findUnknown(ctx); err != nil {
			a.mu.Lock()
			a.unsure = true
			a.mu.Unlock()
			return err
		}
	}
	a.mu.Lock()
	guilds := make([]string, 0, len(a.stale))
	for id := range a.stale {
		guilds = append(guilds, id)
	}
	clear(a.stale)
	a.mu.Unlock()
	slices.Sort(guilds)
	for i, id := range guilds {
		err := a.learn(ctx, id)
		switch fault.KindOf(err) {
		case "", fault.NotFound, fault.Denied, fault.Invalid: // or we are not in it
		default:
			a.suspect(guilds[i:]...)
			return err
		}
	}
	return nil
}

// findUnknown notes the servers that are allowed and of which nothing is known.
func (a *Adapter) findUnknown(ctx context.Context) error {
	allow := a.allow.Load()
	var guilds, channels []string
	err := a.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		guilds, channels, err = a.o.Tables.Channels.Uncached(q, allow.AllowedGuildIDs, allow.AllowedChannelIDs)
		return err
	})
	if err != nil {
		return err
	}
	for _, id := range channels {
		p, err := a.place(ctx, id)
		switch fault.KindOf(err) {
		case "":
			guilds = append(guilds, p.guildID)
		case fault.NotFound, fault.Denied, fault.Invalid:
		default:
			return err
		}
	}
	a.suspect(guilds...)
	return nil
}

// learn asks what a server looks like and takes it in. Nothing is read of the
// channels: what is said in them comes from the gateway.
func (a *Adapter) learn(ctx context.Context, guildID string) error {
	get := func(e *rest.Endpoint, into any, params ...any) error {
		return a.api.do(ctx, e.Compile(nil, params...), nil, into)
	}
	var g wireGuild
	if err := get(rest.GetGuild, &g, guildID); err != nil {
		return err
	}
	var me wireMember
	if err := get(rest.GetMember, &me, guildID, a.selfID()); err != nil {
		return err
	}
	if err := get(rest.GetGuildChannels, &g.Channels, guildID); err != nil {
		return err
	}
	if me.User == nil {
		me.User = &wireUser{ID: a.selfID()}
	}
	g.ID, g.Members = guildID, []wireMember{me}
	heard := a.meet(g.Channels, guildID)
	return a.o.DB.Update(ctx, func(tx *db.Tx) error {
		for _, c := range heard {
			s, err := a.session(tx, c.ID, placeOf(c, guildID))
			if err != nil {
				return err
			}
			s.Hidden = g.sightOf(a.selfID(), c).hidden
			if s.ReadMessageID == "" {
				s.ReadMessageID = cmp.Or(c.LastMessageID, idBefore(c.ID))
			}
			if err := a.o.Tables.Channels.PutSession(tx, s); err != nil {
				return err
			}
		}
		return nil
	})
}

// permitted takes in that what we may see of a server may have changed.
func (a *Adapter) permitted(w struct {
	GuildID string    `json:"guild_id"`
	User    *wireUser `json:"user"`
},
) func(*db.Tx) error {
	if w.User == nil || w.User.ID == a.selfID() {
		a.recheck(w.GuildID)
	}
	return nil
}

// left takes in that we are no longer in a server; one that Discord has trouble
// with comes back.
func (a *Adapter) left(g wireGuild) func(*db.Tx) error {
	if g.ID == "" || g.Unavailable {
		return nil
	}
	return func(tx *db.Tx) error { return a.o.Tables.Channels.ForgetMissing(tx, Platform, g.ID, []string{}) }
}
