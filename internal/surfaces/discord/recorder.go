package discord

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

const (
	// nonceTTL is how long the message of a nonce is remembered; the outbox sends
	// nothing older.
	nonceTTL = 24 * time.Hour
	// duplicateWarnInterval is the minimum time between warnings about a second
	// process.
	duplicateWarnInterval = 10 * time.Minute
)

// recorder turns Discord's messages, deletions, and reactions into rows of the
// cache and events of the bus.
type recorder struct {
	o           Options
	status      *status
	directory   *directory
	history     *history
	attachments *attachments
	convert     converter
	sent        *nonces
	starters    *starters

	mu sync.Mutex
	// warnedAt is when a message of another process was last reported.
	warnedAt time.Time
	// deleted are the messages that were deleted last, newest last: a copy may follow, and
	// the cache forgets their texts. Transactions alone use it, and they run one after another.
	deleted []surface.Message
}

// store writes a message to the inbox and the cache, and publishes its event.
func (r *recorder) store(tx *db.Tx, in *incoming) error {
	m := in.m
	if in.nonce != "" && m.FromSelf {
		now := tx.Now()
		if err := r.o.Tables.Sends.PutNonce(tx, m.ChannelID, in.nonce, m.ID, now.UnixMilli(), now.Add(-nonceTTL).UnixMilli()); err != nil {
			return err
		}
		// A reply may arrive before the response to the send call, and must be
		// recognized as a reply to the running request.
		requestID, err := r.o.Tables.Sends.AnsweredRequest(tx, m.ChannelID, in.nonce)
		if err != nil {
			return err
		}
		in.m.RequestID = requestID
	}
	if err := r.cache(tx, in); err != nil {
		return err
	}
	// Gateway and histories deliver in order. Only they move the read position:
	// other sources, above all the bot's own sends, say nothing about earlier
	// messages.
	if err := r.o.Tables.Messages.ReadUpTo(tx, m); err != nil {
		return err
	}
	// A page of the history may be older than the message's deletion.
	if _, err := r.o.Tables.Messages.Message(tx, Platform, m.ChannelID, m.ID); fault.KindOf(err) == fault.NotFound {
		return nil
	} else if err != nil {
		return err
	}
	if m.FromSelf && in.updated {
		return nil // the bot's own edits are frequent, and their author knows of them
	}
	facts, text := in.facts, m.Text
	facts.Content = m.Text
	if r.o.Names != nil {
		text = r.o.Names(tx)(text)
	}
	return r.publishOnce(tx, in.inboxID, event.AdapterMessage{
		Updated: in.updated, Platform: Platform, ChannelID: m.ChannelID, ChannelName: in.channel.name,
		MessageID: m.ID, UserID: m.AuthorID, UserName: m.AuthorName, Text: text, TS: max(m.CreatedAt, m.EditedAt), Raw: facts.Raw(Platform),
	})
}

// cache stores a message, its reply chain, its channel, and its people.
func (r *recorder) cache(tx *db.Tx, in *incoming) error {
	if err := r.relate(tx, in); err != nil {
		return err
	}
	in.m.Raw = in.facts.Raw(Platform)
	if err := r.cacheChannel(tx, in.m.ChannelID, in.channel, in.m); err != nil {
		return err
	}
	people := slices.Clone(in.m.Mentions)
	for _, m := range append(slices.Clone(in.ancestors), in.m) {
		people = append(people, surface.User{ID: m.AuthorID, Name: m.AuthorName, Bot: m.AuthorBot})
		if err := r.o.Tables.Messages.PutMessage(tx, m); err != nil {
			return err
		}
	}
	for _, u := range people {
		if err := r.o.Tables.Messages.PutUser(tx, Platform, u); err != nil {
			return err
		}
	}
	return nil
}

// cacheChannel stores the channel without moving its read position back.
func (r *recorder) cacheChannel(tx *db.Tx, channelID string, i channelInfo, m surface.Message) error {
	s, err := r.directory.session(tx, channelID, i)
	if err != nil {
		return err
	}
	s.UpdatedAt, s.Hidden = max(s.UpdatedAt, m.CreatedAt), false // a hidden channel would deliver nothing
	return r.o.Tables.Channels.PutSession(tx, s)
}

// storeDeletion records that a message was deleted.
func (r *recorder) storeDeletion(tx *db.Tx, channelID, messageID, inboxID string) error {
	now := tx.Now().UnixMilli()
	if m, err := r.o.Tables.Messages.Message(tx, Platform, channelID, messageID); err == nil {
		r.deleted = append(r.deleted[max(0, len(r.deleted)-maxDeleted+1):], m)
	}
	if err := r.o.Tables.Messages.MarkDeleted(tx, Platform, channelID, messageID, now); err != nil {
		return err
	}
	return r.publishOnce(tx, inboxID, event.AdapterDeletion{Platform: Platform, ChannelID: channelID, MessageID: messageID, TS: now})
}

// publishOnce publishes an event unless the inbox has its id.
func (r *recorder) publishOnce(tx *db.Tx, inboxID string, p event.Payload) error {
	_, err := r.publishFresh(tx, inboxID, p)
	return err
}

// publishFresh is like publishOnce. It reports whether the event was published.
func (r *recorder) publishFresh(tx *db.Tx, inboxID string, p event.Payload) (fresh bool, err error) {
	_, seen, err := r.o.Tables.Inbox.Seen(tx, Platform, inboxID, nil)
	if err != nil || seen {
		return false, err
	}
	e, err := event.New(event.Meta{ID: Platform + ":" + inboxID, Time: tx.Now()}, p)
	if err != nil {
		return false, fmt.Errorf("create an event: %w", err)
	}
	return true, tx.Publish(e)
}

// deletion returns the effect of a deletion event, nil if there is none.
func (r *recorder) deletion(ctx context.Context, d *dispatch, w wireDeletion) func(*db.Tx) error {
	if !r.isAllowed(ctx, w.ChannelID, w.GuildID) {
		return nil
	}
	ids := w.IDs
	if w.ID != "" {
		ids = []string{w.ID}
	}
	return func(tx *db.Tx) error {
		for _, id := range ids {
			if err := r.storeDeletion(tx, w.ChannelID, id, fmt.Sprintf("%s:%d:%s", d.session, d.seq, id)); err != nil {
				return err
			}
		}
		return nil
	}
}

// reaction returns the effect of a reaction event, nil if there is none.
func (r *recorder) reaction(ctx context.Context, d *dispatch, w wireReaction) func(*db.Tx) error {
	if !r.isAllowed(ctx, w.ChannelID, w.GuildID) {
		return nil
	}
	return func(tx *db.Tx) error {
		inboxID := fmt.Sprintf("%s:%d", d.session, d.seq)
		fresh, err := r.publishFresh(tx, inboxID, event.AdapterReaction{
			Removed: d.kind != "MESSAGE_REACTION_ADD", Platform: Platform, ChannelID: w.ChannelID, MessageID: w.MessageID,
			UserID: w.UserID, Reaction: w.Emoji.text(), TS: tx.Now().UnixMilli(),
		})
		if err != nil || !fresh {
			return err
		}
		return r.cacheReaction(tx, d.kind, w)
	}
}

// maxReactions is the number of different emoji on a message ("Opcodes and Status
// Codes", JSON error code 30010).
const maxReactions = 20

// cacheReaction counts a reaction on a cached message.
func (r *recorder) cacheReaction(tx *db.Tx, kind string, w wireReaction) error {
	m, err := r.o.Tables.Messages.Message(tx, Platform, w.ChannelID, w.MessageID)
	if fault.KindOf(err) == fault.NotFound {
		return nil
	} else if err != nil {
		return err
	}
	emoji, self := w.Emoji.shown(), w.UserID == r.status.selfID()
	m.Reactions = slices.Clone(m.Reactions)
	at := slices.IndexFunc(m.Reactions, func(o surface.Reaction) bool { return o.Emoji == emoji })
	switch kind {
	case "MESSAGE_REACTION_ADD":
		if at < 0 && len(m.Reactions) < maxReactions {
			m.Reactions = append(m.Reactions, surface.Reaction{Emoji: emoji})
			at = len(m.Reactions) - 1
		}
		if at >= 0 {
			m.Reactions[at].Count++
			m.Reactions[at].Mine = m.Reactions[at].Mine || self
		}
	case "MESSAGE_REACTION_REMOVE":
		if at >= 0 {
			m.Reactions[at].Count--
			m.Reactions[at].Mine = m.Reactions[at].Mine && !self
		}
	case "MESSAGE_REACTION_REMOVE_ALL":
		m.Reactions = nil
	case "MESSAGE_REACTION_REMOVE_EMOJI":
		if at >= 0 {
			m.Reactions = slices.Delete(m.Reactions, at, at+1)
		}
	}
	m.Reactions = slices.DeleteFunc(m.Reactions, func(o surface.Reaction) bool { return o.Count <= 0 })
	return r.o.Tables.Messages.PutMessage(tx, m)
}

// isAllowed reports whether the channel of an event without an author is
// allowed.
func (r *recorder) isAllowed(ctx context.Context, channelID, guildID string) bool {
	_, allowed := r.channelOf(ctx, wireMessage{ChannelID: channelID, GuildID: guildID, Author: wireUser{ID: r.status.selfID()}})
	return allowed
}

// warnOfDuplicate warns about messages of the bot that this process did not
// send: a second process uses the token, and both answer.
func (r *recorder) warnOfDuplicate(ctx context.Context, in *incoming) {
	if !in.m.FromSelf || in.updated {
		return
	}
	r.mu.Lock()
	recent := time.Since(r.warnedAt) < duplicateWarnInterval
	r.mu.Unlock()
	if recent || r.sent.has(in.nonce) {
		return
	}
	var ours bool
	err := r.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		ours, err = r.o.Tables.Sends.IsPlanned(q, in.m.ChannelID, in.m.ID, in.nonce)
		return err
	})
	if err != nil || ours {
		return // storing the message will report the error
	}
	r.mu.Lock()
	r.warnedAt = time.Now()
	r.mu.Unlock()
	r.o.Logger.WarnContext(ctx, "another program uses the same Discord token and answers too: stop it, or reset the token in the developer portal and set DISCORD_TOKEN here",
		"channel_id", in.m.ChannelID, "message_id", in.m.ID)
}
