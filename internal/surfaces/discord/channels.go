package discord

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"

	"github.com/disgoorg/disgo/rest"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// maxChannels bounds what is remembered of channels in memory; what is not
// there is asked again.
const maxChannels = 20_000

// place is what matters of a channel.
type place struct {
	guildID, parentID, name string
	kind                    surface.ChannelKind
	// recipient is the other side of a private conversation, if known.
	recipient string
	// shown is a hash of whom the channel is shown to, 0 if that is not known.
	shown uint64
}

// channels remembers what channels are.
type channels struct {
	mu    sync.Mutex
	known map[string]place
}

func newChannels() *channels { return &channels{known: map[string]place{}} }

func (c *channels) get(id string) (place, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.known[id]
	return p, ok
}

func (c *channels) put(id string, p place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxChannels {
		clear(c.known)
	}
	c.known[id] = p
}

func (c *channels) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, id)
}

func placeOf(c wireChannel, guildID string) place {
	p := place{guildID: c.GuildID, name: c.Name, kind: surface.Channel}
	if p.guildID == "" {
		p.guildID = guildID
	}
	p.shown = shownTo(c.Overwrites)
	switch {
	case c.thread():
		p.kind, p.parentID = surface.Thread, c.ParentID
	case c.direct():
		p.kind = surface.Direct
		if len(c.Recipients) == 1 {
			p.recipient = c.Recipients[0].ID
			p.name = c.Recipients[0].name(nil)
		}
	}
	return p
}

func shownTo(overwrites []wireOverwrite) uint64 {
	h := fnv.New64a()
	for _, o := range overwrites {
		fmt.Fprintln(h, o.ID, o.Allow, o.Deny)
	}
	return h.Sum64()
}

// allowed decides whether a channel is heard: the channel itself, its parent
// or its server is named; of private conversations, the other side.
func (l Allowed) allowed(channelID string, p place) bool {
	if p.kind == surface.Direct {
		return l.AllowDMs || p.recipient != "" && slices.Contains(l.AllowedUserIDs, p.recipient)
	}
	return slices.Contains(l.AllowedChannelIDs, channelID) ||
		p.kind == surface.Thread && slices.Contains(l.AllowedChannelIDs, p.parentID) ||
		p.guildID != "" && slices.Contains(l.AllowedGuildIDs, p.guildID)
}

// Allowed implements [surface.Adapter]. A channel that does not exist, or
// that the bot cannot see, is not allowed.
func (a *Adapter) Allowed(ctx context.Context, channelID string) (bool, error) {
	if slices.Contains(a.allow.Load().AllowedChannelIDs, channelID) {
		return true, nil
	}
	p, err := a.place(ctx, channelID)
	switch fault.KindOf(err) {
	case "":
		return a.allow.Load().allowed(channelID, p), nil
	case fault.NotFound, fault.Denied, fault.Invalid:
		return false, nil
	}
	return false, err
}

// Opens implements [surface.Adapter].
func (a *Adapter) Opens(s surface.Session) bool {
	return a.allow.Load().allowed(s.ChannelID, placeIn(s))
}

// placeIn is what is stored of a channel. Who a private conversation is with
// is not.
func placeIn(s surface.Session) place {
	return place{guildID: s.GuildID, parentID: s.ParentChannelID, name: s.Title, kind: s.Kind}
}

// opened refuses a channel that is not allowed, in these words, and one that
// is not there.
func (a *Adapter) opened(ctx context.Context, channelID, closed string) error {
	if slices.Contains(a.allow.Load().AllowedChannelIDs, channelID) {
		return nil
	}
	p, err := a.place(ctx, channelID)
	if err == nil && !a.allow.Load().allowed(channelID, p) {
		err = fault.New(fault.Denied, closed, channelID)
	}
	return err
}

// Channel implements [surface.Adapter].
func (a *Adapter) Channel(ctx context.Context, channelID string) (surface.Session, error) {
	p, err := a.place(ctx, channelID)
	return surface.Session{Platform: Platform, ChannelID: channelID, GuildID: p.guildID, ParentChannelID: p.parentID, Kind: p.kind, Title: p.name}, err
}

// place says what a channel is: from memory, the store, or Discord.
func (a *Adapter) place(ctx context.Context, channelID string) (place, error) {
	if p, ok := a.channels.get(channelID); ok {
		return p, nil
	}
	if !snowflake(channelID) {
		return place{}, fault.New(fault.Invalid, "%q is not a channel of Discord.", channelID)
	}
	var s surface.Session
	err := a.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		s, err = a.o.Tables.Channels.Session(q, Platform, channelID)
		return err
	})
	// Who a private conversation is with is not in the store.
	if err == nil && s.Kind != surface.Direct {
		p := placeIn(s)
		a.channels.put(channelID, p)
		return p, nil
	}
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return place{}, err
	}
	var c wireChannel
	if err := a.api.do(ctx, rest.GetChannel.Compile(nil, channelID), nil, &c); err != nil {
		return place{}, err
	}
	p := placeOf(c, "")
	a.channels.put(channelID, p)
	return p, nil
}
