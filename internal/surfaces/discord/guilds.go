package discord

import (
	"slices"
	"sync"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
)

// maxReconciled bounds in how many channels, the most recently used ones, a new
// session looks for missed edits and deletions: one request per channel.
const maxReconciled = 50

// guildSync keeps the cached servers ("guilds") and channels up to date, and
// opens gaps for messages that were missed. Events are applied by the readers'
// goroutines; run refreshes servers in a goroutine of its own.
type guildSync struct {
	o         Options
	status    *status
	client    *client
	directory *directory
	changed   signal

	mu sync.Mutex
	// uncached reports that an allowed server or channel may not be cached;
	// stale holds the servers to read again.
	uncached bool
	stale    map[string]bool
}

func newGuildSync(o Options, s *status, c *client, d *directory) *guildSync {
	return &guildSync{o: o, status: s, client: c, directory: d, changed: newSignal(), uncached: true, stale: map[string]bool{}}
}

// onReady applies the start of a session. It opens gaps in all private
// conversations and in the recently used channels, where messages may have been
// missed, edited, or deleted, also in threads that were archived since. Gaps in
// the other channels of servers follow with their GUILD_CREATE.
func (g *guildSync) onReady(on *shard, w wireReady) func(*db.Tx) error {
	g.status.setIdentity(w)
	heardAt := on.begin()
	return func(tx *db.Tx) error {
		if err := g.o.Tables.Messages.PutUser(tx, Platform, surface.User{ID: w.User.ID, Name: w.User.name(nil), Bot: true}); err != nil {
			return err
		}
		sessions, err := g.o.Tables.Channels.Sessions(tx, Platform)
		if err != nil {
			return err
		}
		sessions = slices.DeleteFunc(sessions, func(s surface.Session) bool { return !on.has(s.GuildID) })
		oldest, listed := tx.Now().Add(-g.o.BackfillAge).UnixMilli(), g.directory.allow.Load().AllowedChannelIDs
		for i, s := range sessions { // most recently used first
			recent := i < maxReconciled && s.UpdatedAt >= oldest || s.Kind == surface.Thread && slices.Contains(listed, s.ChannelID)
			if (s.Kind == surface.Direct || recent) && s.ReadMessageID != "" && heardAt > 0 {
				if err := g.o.Tables.Gaps.OpenGap(tx, Gap{ChannelID: s.ChannelID, After: s.ReadMessageID}); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// onGuild applies a server's channels. It opens a gap in each channel with
// unread messages, or whose threads may have been archived: Discord sends no
// event for those ("Threads", active & archived threads). Hidden channels are
// listed too; requests for them would be refused, and too many of those lead to
// a ban.
func (g *guildSync) onGuild(on *shard, w wireGuild) func(*db.Tx) error {
	allowed := g.directory.remember(slices.Concat(w.Channels, w.Threads), w.ID)
	if len(w.Roles) > 0 {
		g.directory.tiers.Store(w.ID, w.PremiumTier)
		g.directory.roles.put(w.ID, w.managedRole(g.status.selfID()))
	}
	since := on.missed()
	if since > 0 {
		since = max(since, millis(w.JoinedAt)) // nothing was missed before the bot joined
	}
	var existing []string
	for _, c := range w.Channels {
		existing = append(existing, c.ID)
	}
	return func(tx *db.Tx) error {
		if len(allowed) > 0 {
			if err := g.putRoles(tx, w.Roles); err != nil {
				return err
			}
		}
		if w.ID != "" && !w.Unavailable && len(existing) > 0 {
			if err := g.o.Tables.Channels.ForgetMissing(tx, Platform, w.ID, existing); err != nil {
				return err
			}
		}
		known := map[string]bool{}
		for _, c := range allowed { // parents before their threads
			if err := g.openGap(tx, c, w.ID, since, known, w.visibilityOf(g.status.selfID(), c)); err != nil {
				return err
			}
		}
		return nil
	}
}

// openGap compares a channel with its read position and opens a gap if messages
// were missed. A channel without a position is read from now on, unless it was
// created while the bot was disconnected, or is a thread of a known channel,
// which was archived until somebody wrote. known collects the channels that had
// a position. Messages in hidden channels are skipped for good, even if the
// channel becomes visible later.
func (g *guildSync) openGap(tx *db.Tx, c wireChannel, guildID string, since int64, known map[string]bool, visible visibility) error {
	s, err := g.directory.session(tx, c.ID, infoFrom(c, guildID))
	if err != nil {
		return err
	}
	visible.applyTo(&s)
	created := since > 0 && createdAt(c.ID) >= since
	known[c.ID] = s.ReadMessageID != "" || created
	if s.ReadMessageID == "" {
		s.ReadMessageID = c.LastMessageID
		switch {
		case s.ReadMessageID == "" || created:
			s.ReadMessageID = idBefore(c.ID) // a forum post has the id of its first message
		case since > 0 && c.isThread() && known[c.ParentID]:
			s.ReadMessageID = firstIDAt(since)
		}
	}
	if isNewer(c.LastMessageID, s.LastMessageID) {
		s.LastMessageID = c.LastMessageID
	}
	if visible.hidden && !c.threadsOnly() && isNewer(c.LastMessageID, s.ReadMessageID) {
		s.ReadMessageID = c.LastMessageID
	}
	if visible.noHistory {
		return g.o.Tables.Channels.PutSession(tx, s)
	}
	gap := Gap{ChannelID: c.ID}
	if isNewer(c.LastMessageID, s.ReadMessageID) && !c.threadsOnly() {
		gap.After, gap.Until = s.ReadMessageID, c.LastMessageID
	}
	if since > 0 && known[c.ID] && c.hasThreads() {
		gap.Threads = since
	}
	if gap.After != "" || gap.Threads != 0 {
		if err := g.o.Tables.Gaps.OpenGap(tx, gap); err != nil {
			return err
		}
	}
	return g.o.Tables.Channels.PutSession(tx, s)
}

// onChannel applies a created or changed channel.
func (g *guildSync) onChannel(c wireChannel) func(*db.Tx) error {
	i := infoFrom(c, "")
	before, _ := g.directory.cache.get(c.ID)
	g.directory.cache.put(c.ID, i)
	if c.isDirect() || c.hasNoMessages() || !g.directory.allows(c.ID, i) {
		return nil
	}
	permitted := !c.isThread() && i.overwrites != before.overwrites // threads are announced only to those who see them
	if permitted {
		g.scheduleGuildRefresh(i.guildID)
	}
	return func(tx *db.Tx) error {
		s, err := g.directory.session(tx, c.ID, i)
		if err != nil {
			return err
		}
		if s.ReadMessageID == "" {
			s.ReadMessageID = idBefore(c.ID)
		}
		if permitted { // until the refresh, whoever asks may get an answer
			s.Muted, s.ThreadsMuted = false, false
		}
		return g.o.Tables.Channels.PutSession(tx, s)
	}
}

// onChannelDelete applies a deleted channel.
func (g *guildSync) onChannelDelete(c wireChannel) func(*db.Tx) error {
	g.directory.cache.forget(c.ID)
	return func(tx *db.Tx) error { return g.o.Tables.Channels.ForgetSession(tx, Platform, c.ID) }
}

// putRoles stores the names of a server's roles, see [surface.User].
func (g *guildSync) putRoles(tx *db.Tx, roles []wireRole) (err error) {
	for i := 0; i < len(roles) && err == nil; i++ {
		err = g.o.Tables.Messages.PutUser(tx, Platform, surface.User{ID: roles[i].ID, Name: "@" + roles[i].Name})
	}
	return err
}

// onPermissions applies events after which the bot may see other channels, or the server accepts
// larger files; a changed server names itself by id.
func (g *guildSync) onPermissions(w struct {
	ID      string    `json:"id"`
	GuildID string    `json:"guild_id"`
	User    *wireUser `json:"user"`
},
) func(*db.Tx) error {
	if w.GuildID == "" {
		w.GuildID = w.ID
	}
	if w.User == nil { // a role changed
		g.directory.roles.forget(w.GuildID)
	}
	if w.User == nil || w.User.ID == g.status.selfID() {
		g.scheduleGuildRefresh(w.GuildID)
	}
	return nil
}

// onGuildDelete applies that the bot left a server. Servers with an outage
// return.
func (g *guildSync) onGuildDelete(w wireGuild) func(*db.Tx) error {
	if w.ID == "" || w.Unavailable {
		return nil
	}
	return func(tx *db.Tx) error { return g.o.Tables.Channels.ForgetMissing(tx, Platform, w.ID, []string{}) }
}
