package discord

import (
	"context"
	"slices"
	"strings"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

const (
	// chainDepth is how far a chain of replies is completed, chainLimit how
	// long that may take (system design, "Router and composition").
	chainDepth = 20
	chainLimit = 10 * time.Second
	// placeTries and placePause bound the search for what a channel is; the
	// message waits for it.
	placeTries = 5
	placePause = 2 * time.Second
	// maxPreparing bounds how many messages are prepared at a time.
	maxPreparing = 8
)

// incoming is a message with all that its event says.
type incoming struct {
	m       surface.Message
	where   place
	facts   surface.Facts
	updated bool
	// seen is the id under which it is in the inbox.
	seen string
	// learned are messages that were fetched for its chain of replies.
	learned []surface.Message
	nonce   string
}

// prepare finds out what an event changes. What may ask Discord something runs
// beside the reader, which never waits for it, and is waited for in the order of
// the events; what later events are judged by is known when it returns. Of those
// that are prepared there are no more than wait to be taken in.
func (a *Adapter) prepare(ctx context.Context, d *dispatch) {
	switch d.kind {
	case "MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_DELETE", "MESSAGE_DELETE_BULK",
		"MESSAGE_REACTION_ADD", "MESSAGE_REACTION_REMOVE", "MESSAGE_REACTION_REMOVE_ALL", "MESSAGE_REACTION_REMOVE_EMOJI":
	default:
		d.write = a.effects(ctx, d)
		close(d.ready)
		return
	}
	d.heard = time.Now()
	a.prepared.Go(func() {
		defer close(d.ready)
		select {
		case a.preparing <- struct{}{}:
		case <-ctx.Done():
			return
		}
		defer func() { <-a.preparing }()
		d.write = a.effects(ctx, d)
	})
}

// incoming makes of a message what is taken in; nil when it is not for us.
func (a *Adapter) incoming(ctx context.Context, m wireMessage, updated bool) *incoming {
	in, _ := a.placed(ctx, m, updated, time.Now())
	return in
}

// placed is incoming that also tells when nobody knows whether the message is
// for us, because Discord did not say what its channel is. Its files are waited
// for from when it was heard.
func (a *Adapter) placed(ctx context.Context, m wireMessage, updated bool, heard time.Time) (in *incoming, unknown bool) {
	if m.ID == "" || m.ChannelID == "" || m.Author.ID == "" || updated && m.Edited == "" {
		return nil, false // for example a preview of a link that was added
	}
	switch m.Type {
	case messageDefault, messageReply, messageCommand, messageMenu:
	default:
		return nil, false // not written by anybody: a pin, a boost, a thread's beginning
	}
	where, ok := a.whereabouts(ctx, m)
	if !ok || m.Flags&flagEphemeral != 0 {
		return nil, where.kind == ""
	}
	self, _ := a.Self()
	in = &incoming{m: a.message(m), where: where, updated: updated, seen: m.ID, nonce: m.nonce()}
	if updated {
		in.seen = m.ID + ":" + m.Edited
	}
	in.m.Attachments = a.keepFiles(ctx, in.m, heard)
	if !in.m.FromSelf {
		a.completeChain(ctx, in, m, heard)
	}
	in.facts = surface.Facts{
		IsDMBased: where.kind == surface.Direct, MentionsBot: mentions(in.m.Text, self.ID),
		ReplyToMessageID: in.m.ReplyTo, ReplyToBot: a.replyToSelf(ctx, in, m),
		GuildID: where.guildID, ParentChannelID: where.parentID,
		AuthorIsBot: in.m.AuthorBot, AuthorIsSelf: in.m.FromSelf, Attachments: in.m.Attachments,
	}
	in.m.Raw = in.facts.Raw(Platform)
	return in, false
}

// whereabouts says what the message's channel is, and whether it is heard. A
// place without a kind is not known.
func (a *Adapter) whereabouts(ctx context.Context, m wireMessage) (place, bool) {
	if m.GuildID == "" {
		if p, known := a.channels.get(m.ChannelID); known {
			return p, a.allow.Load().allowed(m.ChannelID, p)
		}
		if self, _ := a.Self(); m.Author.ID != self.ID {
			p := place{kind: surface.Direct, recipient: m.Author.ID, name: m.Author.name(nil)}
			a.channels.put(m.ChannelID, p)
			return p, a.allow.Load().allowed(m.ChannelID, p)
		}
	}
	for try := 1; ; try++ {
		p, err := a.place(ctx, m.ChannelID)
		switch kind := fault.KindOf(err); {
		case err == nil:
			return p, a.allow.Load().allowed(m.ChannelID, p)
		case kind == fault.NotFound || kind == fault.Denied || kind == fault.Invalid || try == placeTries:
			p = place{guildID: m.GuildID, kind: surface.Channel}
			heard := m.GuildID != "" && a.allow.Load().allowed(m.ChannelID, p)
			if !heard && try == placeTries {
				a.o.Logger.WarnContext(ctx, "Discord did not say what the channel of a message is", "channel_id", m.ChannelID, "message_id", m.ID, "error", err)
				return place{}, false
			}
			return p, heard
		}
		if !pause(ctx, placePause) {
			return place{}, false
		}
	}
}

// mentions reports whether the literal id of the bot is in a text.
func mentions(text, self string) bool {
	return self != "" && (strings.Contains(text, "<@"+self+">") || strings.Contains(text, "<@!"+self+">"))
}

// replyToSelf reports whether a message replies to one of ours.
func (a *Adapter) replyToSelf(ctx context.Context, in *incoming, m wireMessage) bool {
	if in.m.ReplyTo == "" {
		return false
	}
	self, _ := a.Self()
	if m.Referenced != nil && m.Referenced.ID == in.m.ReplyTo {
		return m.Referenced.Author.ID == self.ID
	}
	if i := slices.IndexFunc(in.learned, func(l surface.Message) bool { return l.ID == in.m.ReplyTo }); i >= 0 {
		return in.learned[i].FromSelf
	}
	// Discord shows nothing of one that was deleted, as an answer is that moved on.
	var ours bool
	err := a.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		ours, err = a.o.Tables.Messages.IsOurs(q, Platform, in.m.ChannelID, in.m.ReplyTo)
		return err
	})
	return err == nil && ours
}

func (a *Adapter) cached(ctx context.Context, channelID, messageID string) (m surface.Message, err error) {
	err = a.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		m, err = a.o.Tables.Messages.Message(q, Platform, channelID, messageID)
		return err
	})
	return m, err
}

// completeChain fetches what the cache lacks of the messages that a message
// replies to. What cannot be had in time is a gap, at which the chain ends.
func (a *Adapter) completeChain(ctx context.Context, in *incoming, m wireMessage, heard time.Time) {
	ctx, cancel := context.WithTimeout(ctx, chainLimit)
	defer cancel()
	referenced, id := m.Referenced, in.m.ReplyTo
	for depth := 1; id != "" && depth < chainDepth; depth++ {
		if old, err := a.cached(ctx, in.m.ChannelID, id); err == nil {
			id, referenced = old.ReplyTo, nil
			continue
		}
		var found wireMessage
		if referenced != nil && referenced.ID == id {
			found = *referenced
		} else {
			var err error
			if found, err = a.fetch(ctx, in.m.ChannelID, id); err != nil {
				if kind := fault.KindOf(err); kind != fault.NotFound {
					a.o.Logger.WarnContext(ctx, "a chain of replies is not complete", "channel_id", in.m.ChannelID, "message_id", id, "error", err)
				}
				return
			}
		}
		found.ChannelID = in.m.ChannelID
		old := a.message(found)
		old.Attachments = a.keepFiles(ctx, old, heard)
		in.learned = append(in.learned, old)
		id, referenced = old.ReplyTo, nil
	}
}
