package discord

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"sync/atomic"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

const (
	// maxChannels bounds how many channels are kept in memory; the others are read
	// from the store or from Discord again.
	maxChannels = 20_000
	// maxTopic bounds the topic of a channel, in characters. Discord has the same limit, except for
	// forums.
	maxTopic = 1024
)

// channelInfo is what the adapter needs to know of a channel.
type channelInfo struct {
	guildID, parentID, name, topic string
	kind                           surface.ChannelKind
	// recipient is the other person of a private conversation, if known.
	recipient string
	// locked reports that the bot may not answer in the thread.
	locked bool
	// overwrites is a hash of the permission overwrites, 0 if they are unknown.
	overwrites uint64
}

// infoFrom reads a channel of Discord; guildID is used if the channel has none.
func infoFrom(c wireChannel, guildID string) channelInfo {
	i := channelInfo{guildID: c.GuildID, name: c.Name, topic: text.TruncateRunes(c.Topic, maxTopic), kind: surface.Channel, overwrites: hashOverwrites(c.Overwrites)}
	if i.guildID == "" {
		i.guildID = guildID
	}
	switch {
	case c.isThread():
		i.kind, i.parentID, i.locked = surface.Thread, c.ParentID, c.Metadata.Locked
	case c.isDirect():
		i.kind = surface.Direct
		if len(c.Recipients) == 1 {
			i.recipient = c.Recipients[0].ID
			i.name = c.Recipients[0].name(nil)
		}
	}
	return i
}

func hashOverwrites(overwrites []wireOverwrite) uint64 {
	h := fnv.New64a()
	for _, o := range overwrites {
		fmt.Fprintln(h, o.ID, o.Allow, o.Deny)
	}
	return h.Sum64()
}

// infoOf reads a stored channel. The store does not hold the other person of a
// private conversation.
func infoOf(s surface.Session) channelInfo {
	return channelInfo{guildID: s.GuildID, parentID: s.ParentChannelID, name: s.Title, topic: s.Topic, kind: s.Kind, locked: s.Locked}
}

// allows reports whether the configuration allows a channel: it lists the
// channel, its parent, or its server; for a private conversation, it allows the
// other person.
func (l Allowed) allows(channelID string, i channelInfo) bool {
	if i.kind == surface.Direct {
		return l.AllowDMs || i.recipient != "" && slices.Contains(l.AllowedUserIDs, i.recipient)
	}
	return slices.Contains(l.AllowedChannelIDs, channelID) ||
		i.kind == surface.Thread && slices.Contains(l.AllowedChannelIDs, i.parentID) ||
		i.guildID != "" && slices.Contains(l.AllowedGuildIDs, i.guildID)
}

// channelCache keeps channels in memory.
type channelCache struct {
	mu    sync.Mutex
	known map[string]channelInfo
}

func (c *channelCache) get(id string) (channelInfo, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, ok := c.known[id]
	return i, ok
}

func (c *channelCache) put(id string, i channelInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxChannels {
		clear(c.known)
	}
	c.known[id] = i
}

func (c *channelCache) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, id)
}

// directory knows channels and decides which of them are allowed.
type directory struct {
	o      Options
	client *client
	cache  *channelCache
	roles  *roleCache
	// tiers has the level of boosts of each server that is known.
	tiers sync.Map
	allow atomic.Pointer[Allowed]
}

func newDirectory(o Options, c *client) *directory {
	d := &directory{o: o, client: c, cache: &channelCache{known: map[string]channelInfo{}}, roles: &roleCache{roles: map[string]string{}}}
	d.allow.Store(&o.Allowed)
	return d
}

// lookup returns what a channel is: from memory, the store, or Discord.
func (d *directory) lookup(ctx context.Context, channelID string) (channelInfo, error) {
	if i, ok := d.cache.get(channelID); ok {
		return i, nil
	}
	if !isSnowflake(channelID) {
		return channelInfo{}, fault.New(fault.Invalid, "%q is not a Discord channel id.", channelID)
	}
	var s surface.Session
	err := d.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		s, err = d.o.Tables.Channels.Session(q, Platform, channelID)
		return err
	})
	if err == nil && s.Kind != surface.Direct { // the store lacks the recipient
		i := infoOf(s)
		d.cache.put(channelID, i)
		return i, nil
	}
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return channelInfo{}, err
	}
	var c wireChannel
	if err := d.client.get(ctx, getChannel.with(channelID), &c); err != nil {
		return channelInfo{}, err
	}
	i := infoFrom(c, "")
	d.cache.put(channelID, i)
	return i, nil
}

// remember caches channels of a server and returns the allowed ones.
func (d *directory) remember(channels []wireChannel, guildID string) (allowed []wireChannel) {
	for _, c := range channels {
		i := infoFrom(c, guildID)
		d.cache.put(c.ID, i)
		if d.allows(c.ID, i) && !c.hasNoMessages() {
			allowed = append(allowed, c)
		}
	}
	return allowed
}

func (d *directory) allows(channelID string, i channelInfo) bool {
	return d.allow.Load().allows(channelID, i)
}

// allowed reports whether the configuration allows a channel. A channel that
// does not exist, or that the bot cannot see, is not allowed.
func (d *directory) allowed(ctx context.Context, channelID string) (bool, error) {
	err := d.require(ctx, channelID, "%s is not allowed")
	switch fault.KindOf(err) {
	case "":
		return true, nil
	case fault.NotFound, fault.Denied, fault.Invalid:
		return false, nil
	}
	return false, err
}

// requireReadable refuses channels that the configuration does not allow.
func (d *directory) requireReadable(ctx context.Context, channelID string) error {
	return d.require(ctx, channelID, "The configuration does not let the bot read the channel %s.")
}

// requireWritable refuses channels that the configuration does not allow.
func (d *directory) requireWritable(ctx context.Context, channelID string) error {
	if !isSnowflake(channelID) {
		return fault.New(fault.Invalid, "%q is not a Discord channel id.", channelID)
	}
	return d.require(ctx, channelID, "The configuration does not let the bot write to the channel %s. Add the channel to surface.discord.allowedChannelIds, or its server to allowedGuildIds.")
}

func (d *directory) require(ctx context.Context, channelID, denied string) error {
	if slices.Contains(d.allow.Load().AllowedChannelIDs, channelID) {
		return nil
	}
	i, err := d.lookup(ctx, channelID)
	if err == nil && !d.allows(channelID, i) {
		err = fault.New(fault.Denied, denied, channelID)
	}
	return err
}

// session returns the stored session of a channel, updated with i.
func (d *directory) session(tx *db.Tx, channelID string, i channelInfo) (surface.Session, error) {
	s, err := d.o.Tables.Channels.Session(tx, Platform, channelID)
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return s, err
	}
	s.Platform, s.ChannelID, s.Kind, s.ParentChannelID, s.Topic, s.Locked = Platform, channelID, i.kind, i.parentID, i.topic, i.locked
	if i.guildID != "" {
		s.GuildID = i.guildID
	}
	if i.name != "" {
		s.Title = i.name
	}
	return s, nil
}
