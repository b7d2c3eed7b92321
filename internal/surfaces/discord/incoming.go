package discord

import (
	"context"
	"slices"
	"strings"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/delay"
	"lilac/internal/foundation/fault"
)

const (
	// chainDepth and chainTimeout bound the completion of a reply chain.
	chainDepth   = 20
	chainTimeout = 10 * time.Second
	// lookupAttempts and lookupPause bound the lookup of a channel; the message
	// waits for it.
	lookupAttempts = 5
	lookupPause    = 2 * time.Second
)

// incoming is a message with everything that is stored together with it.
type incoming struct {
	m       surface.Message
	channel channelInfo
	facts   surface.Facts
	updated bool
	// inboxID identifies the delivery in the inbox.
	inboxID string
	// copied is its own text if a program may have posted it in place of a person's message: such a
	// program adds an embed to that of a reply.
	copied string
	// ancestors are messages of the reply chain that the cache lacked.
	ancestors []surface.Message
	nonce     string
}

// incoming prepares a message for the store; nil means that it is not for the
// bot. unresolved reports that this could not be decided, because Discord did
// not describe the channel, the bot's role, or the rest of an edited message.
// Downloads are bounded by the time of reception.
func (r *recorder) incoming(ctx context.Context, m wireMessage, updated bool, received time.Time) (in *incoming, unresolved bool) {
	if m.ID == "" || m.ChannelID == "" || updated && m.Edited == "" && !m.isLateAnswer() {
		return nil, false // for example, a link preview was added
	}
	if updated && m.Author.ID == "" { // an update may have only the fields that changed
		whole, err := r.completeUpdate(ctx, m)
		if err != nil {
			r.o.Logger.WarnContext(ctx, "cannot read a message that was edited", "channel_id", m.ChannelID, "message_id", m.ID, "error", err)
			return nil, mayPass(err)
		}
		m = whole
	}
	if m.Author.ID == "" {
		return nil, false
	}
	switch m.Type {
	case messageDefault, messageReply, messageCommand, messageMenu:
	default:
		return nil, false // a system message: a pin, a boost, the start of a thread
	}
	channel, allowed := r.channelOf(ctx, m)
	if !allowed || m.Flags&flagEphemeral != 0 {
		return nil, channel.kind == ""
	}
	mentioned, err := r.mentionsBot(ctx, m, channel.guildID)
	if err != nil {
		r.o.Logger.WarnContext(ctx, "cannot read the bot's role in a Discord server", "guild_id", channel.guildID, "error", err)
		if mayPass(err) {
			return nil, true
		}
	}
	m.Content = r.withoutRole(m.Content, channel.guildID)
	in = &incoming{
		m: r.convert.message(m), channel: channel, updated: updated, inboxID: m.ID, nonce: m.nonceText(),
	}
	if m.Type == messageDefault && m.WebhookID != "" && m.ApplicationID != "" {
		in.copied = strings.TrimSpace(m.Content)
	}
	if updated {
		in.inboxID = m.ID + ":" + m.Edited
	}
	in.m.Attachments = r.attachments.download(ctx, in.m, received)
	if !in.m.FromSelf {
		r.completeChain(ctx, in, m, received)
		r.completeThread(ctx, in, received)
	}
	in.facts = surface.Facts{
		IsDMBased: channel.kind == surface.Direct, MentionsBot: mentioned,
		ReplyToMessageID: in.m.ReplyTo, ReplyToBot: r.repliesToSelf(ctx, in, m),
		GuildID: channel.guildID, ParentChannelID: channel.parentID, ForwardOnly: len(m.Snapshots) > 0 && m.Content == "",
		AuthorIsBot: in.m.AuthorBot, AuthorIsSelf: in.m.FromSelf, Attachments: in.m.Attachments,
	}
	in.facts.MentionAdded = r.addsMention(ctx, in)
	return in, false
}

// isLateAnswer reports whether a message is the answer to a command that its program has
// deferred. It replaces "… is thinking", which does not count as an edit.
func (m wireMessage) isLateAnswer() bool {
	return (m.Type == messageCommand || m.Type == messageMenu) && m.Author.ID != "" && m.Flags&flagLoading == 0
}

// isStranger reports whether a message is a private one of a person who is not allowed.
func (r *recorder) isStranger(m wireMessage) bool {
	i, known := r.directory.cache.get(m.ChannelID)
	return known && i.kind == surface.Direct && i.recipient == m.Author.ID && !m.Author.Bot && m.Author.ID != r.status.selfID() && !r.directory.allows(m.ChannelID, i)
}

// mayPass reports whether a failed read may succeed later.
func mayPass(err error) bool {
	switch fault.KindOf(err) {
	case fault.NotFound, fault.Denied, fault.Invalid:
		return false
	}
	return true
}

// completeUpdate reads the rest of a message from which only changed fields are
// known.
func (r *recorder) completeUpdate(ctx context.Context, m wireMessage) (wireMessage, error) {
	whole, err := r.history.message(ctx, m.ChannelID, m.ID)
	if err != nil {
		return m, err
	}
	whole.GuildID = m.GuildID
	if whole.Edited == "" {
		whole.Edited = m.Edited
	}
	return whole, nil
}

// channelOf returns the message's channel and whether it is allowed. A channel
// without a kind could not be resolved.
func (r *recorder) channelOf(ctx context.Context, m wireMessage) (channelInfo, bool) {
	d := r.directory
	if m.GuildID == "" {
		if i, known := d.cache.get(m.ChannelID); known {
			return i, d.allows(m.ChannelID, i)
		}
		if m.Author.ID != r.status.selfID() {
			i := channelInfo{kind: surface.Direct, recipient: m.Author.ID, name: m.Author.name(nil)}
			d.cache.put(m.ChannelID, i)
			return i, d.allows(m.ChannelID, i)
		}
	}
	for attempt := 1; ; attempt++ {
		i, err := d.lookup(ctx, m.ChannelID)
		switch kind := fault.KindOf(err); {
		case err == nil:
			return i, d.allows(m.ChannelID, i)
		case kind == fault.NotFound || kind == fault.Denied || kind == fault.Invalid || attempt == lookupAttempts:
			i = channelInfo{guildID: m.GuildID, kind: surface.Channel}
			allowed := m.GuildID != "" && d.allows(m.ChannelID, i)
			if !allowed && attempt == lookupAttempts {
				r.o.Logger.WarnContext(ctx, "cannot look up the channel of a message", "channel_id", m.ChannelID, "message_id", m.ID, "error", err)
				return channelInfo{}, false
			}
			return i, allowed
		}
		if !delay.Wait(ctx, lookupPause) {
			return channelInfo{}, false
		}
	}
}

// repliesToSelf reports whether a message replies to a message of the bot.
func (r *recorder) repliesToSelf(ctx context.Context, in *incoming, m wireMessage) bool {
	if in.m.ReplyTo == "" {
		return false
	}
	if m.Referenced != nil && m.Referenced.ID == in.m.ReplyTo {
		return m.Referenced.Author.ID == r.status.selfID()
	}
	if i := slices.IndexFunc(in.ancestors, func(a surface.Message) bool { return a.ID == in.m.ReplyTo }); i >= 0 {
		return in.ancestors[i].FromSelf
	}
	// Discord omits a deleted message, for example an answer that was re-anchored.
	var ours bool
	err := r.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		ours, err = r.o.Tables.Messages.IsOurs(q, Platform, in.m.ChannelID, in.m.ReplyTo)
		return err
	})
	return err == nil && ours
}

// completeChain fetches the messages of the reply chain that the cache lacks.
// The chain ends at the first message that cannot be fetched in time.
func (r *recorder) completeChain(ctx context.Context, in *incoming, m wireMessage, received time.Time) {
	ctx, cancel := context.WithTimeout(ctx, chainTimeout)
	defer cancel()
	referenced, id := m.Referenced, in.m.ReplyTo
	for depth := 1; id != "" && depth < chainDepth; depth++ {
		if known, err := r.history.cached(ctx, in.m.ChannelID, id); err == nil {
			id, referenced = known.ReplyTo, nil
			continue
		}
		var found wireMessage
		if referenced != nil && referenced.ID == id {
			found = *referenced
		} else {
			var err error
			if found, err = r.history.message(ctx, in.m.ChannelID, id); err != nil {
				if kind := fault.KindOf(err); kind != fault.NotFound {
					r.o.Logger.WarnContext(ctx, "cannot complete a reply chain", "channel_id", in.m.ChannelID, "message_id", id, "error", err)
				}
				return
			}
		}
		found.ChannelID = in.m.ChannelID
		ancestor := r.convert.message(found)
		ancestor.Attachments = r.attachments.download(ctx, ancestor, received)
		in.ancestors = append(in.ancestors, ancestor)
		id, referenced = ancestor.ReplyTo, nil
	}
}
