package discord

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

const (
	// ingestRetry is the wait after a transaction that failed; the event waits.
	ingestRetry = time.Second
	// nonceAge is how long it is remembered which message a nonce made; the
	// outbox sends nothing older.
	nonceAge = 24 * time.Hour
	// warnEvery spreads warnings of one kind.
	warnEvery = 10 * time.Minute
)

// takeIn writes events down, one after the other, each until that works.
func (a *Adapter) takeIn(ctx context.Context, events <-chan *dispatch) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case d := <-events:
			select {
			case <-d.ready:
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := a.takeInOne(ctx, d); err != nil {
				return err
			}
			if d.kind == "READY" || d.kind == "RESUMED" {
				a.catchesUp()
			}
		}
	}
}

// takeInOne returns when the event is in the store. An event that changes
// nothing does not move the position: after a crash it comes again.
func (a *Adapter) takeInOne(ctx context.Context, d *dispatch) error {
	for d.write != nil {
		err := a.o.DB.Update(ctx, func(tx *db.Tx) error {
			if err := d.write(tx); err != nil {
				return err
			}
			return a.advance(tx, d)
		})
		switch {
		case err == nil:
			a.advanced(d)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		a.o.Logger.ErrorContext(ctx, "an event of Discord cannot be written down; what follows waits", "event", d.kind, "error", err)
		if !pause(ctx, ingestRetry) {
			return ctx.Err()
		}
	}
	return ctx.Err() // what nothing came of because ctx ended is not passed over
}

// advance writes the position down, with what the event says of the session.
func (a *Adapter) advance(tx *db.Tx, d *dispatch) error {
	state, err := a.o.Tables.Gateway.Gateway(tx)
	if err != nil {
		return err
	}
	a.mu.Lock()
	mine := a.state
	a.mu.Unlock()
	if state.Account != mine.Account {
		state = GatewayState{Account: mine.Account, Budget: mine.Budget}
	}
	state.Self, state.ApplicationID, state.Commands = mine.Self, mine.ApplicationID, mine.Commands
	state.SessionID, state.ResumeURL, state.Sequence, state.HeardAt = d.session, d.resumeURL, d.seq, tx.Now().UnixMilli()
	return a.o.Tables.Gateway.SaveGateway(tx, state)
}

// advanced takes over in memory what was written down.
func (a *Adapter) advanced(d *dispatch) {
	a.mu.Lock()
	a.state.HeardAt = time.Now().UnixMilli()
	a.mu.Unlock()
	if d.kind == "READY" {
		a.hearsSession() // not before it is written down: a session that a crash forgets was none
	}
	if d.kind == "READY" || d.kind == "GUILD_CREATE" {
		wake(a.gaps)
		wake(a.met)
	}
	if d.gap {
		wake(a.gaps)
	}
}

// effects is what an event changes beside the position; nil for nothing.
func (a *Adapter) effects(ctx context.Context, d *dispatch) func(*db.Tx) error {
	switch d.kind {
	case "GUILD_CREATE", "GUILD_ROLE_CREATE", "GUILD_ROLE_UPDATE", "GUILD_ROLE_DELETE", "GUILD_MEMBER_UPDATE", "CHANNEL_UPDATE", "THREAD_UPDATE":
		a.refused.forget() // they say what we may
	}
	switch d.kind {
	case "READY":
		return read(a, ctx, d, a.ready)
	case "GUILD_CREATE":
		return read(a, ctx, d, a.guild)
	case "GUILD_DELETE":
		return read(a, ctx, d, a.left)
	case "GUILD_ROLE_CREATE", "GUILD_ROLE_UPDATE", "GUILD_ROLE_DELETE", "GUILD_MEMBER_UPDATE":
		return read(a, ctx, d, a.permitted)
	case "CHANNEL_CREATE", "CHANNEL_UPDATE", "THREAD_CREATE", "THREAD_UPDATE":
		return read(a, ctx, d, a.channel)
	case "CHANNEL_DELETE", "THREAD_DELETE":
		return read(a, ctx, d, a.deleted)
	case "MESSAGE_CREATE", "MESSAGE_UPDATE":
		return read(a, ctx, d, func(m wireMessage) func(*db.Tx) error {
			in, unknown := a.placed(ctx, m, d.kind == "MESSAGE_UPDATE", d.heard)
			if unknown && ctx.Err() == nil { // it is read when that is known
				d.gap = true
				return func(tx *db.Tx) error {
					return a.o.Tables.Gaps.OpenGap(tx, Gap{ChannelID: m.ChannelID, After: idBefore(m.ID), Until: m.ID})
				}
			}
			if in == nil {
				return nil
			}
			a.watchForTwin(ctx, in)
			return func(tx *db.Tx) error { return a.put(tx, in) }
		})
	case "MESSAGE_DELETE", "MESSAGE_DELETE_BULK":
		return read(a, ctx, d, func(w wireDeletion) func(*db.Tx) error { return a.deletion(ctx, d, w) })
	case "MESSAGE_REACTION_ADD", "MESSAGE_REACTION_REMOVE", "MESSAGE_REACTION_REMOVE_ALL", "MESSAGE_REACTION_REMOVE_EMOJI":
		return read(a, ctx, d, func(w wireReaction) func(*db.Tx) error { return a.reacted(ctx, d, w) })
	}
	return nil
}

// read decodes an event for its handler. One that cannot be decoded is left
// out: it would fail for ever.
func read[T any](a *Adapter, ctx context.Context, d *dispatch, effects func(T) func(*db.Tx) error) func(*db.Tx) error {
	var v T
	if err := json.Unmarshal(d.data, &v); err != nil {
		a.o.Logger.ErrorContext(ctx, "an event of Discord cannot be read and is left out", "event", d.kind, "error", err)
		return nil
	}
	return effects(v)
}

// put takes a message in: inbox, cache and event.
func (a *Adapter) put(tx *db.Tx, in *incoming) error {
	m := in.m
	if in.nonce != "" && m.FromSelf {
		now := tx.Now()
		if err := a.o.Tables.Sends.PutNonce(tx, m.ChannelID, in.nonce, m.ID, now.UnixMilli(), now.Add(-nonceAge).UnixMilli()); err != nil {
			return err
		}
		// A reply may follow before the platform's answer to the call does, and
		// must be known as one to what is running.
		answers, err := a.o.Tables.Sends.AnsweredRequest(tx, m.ChannelID, in.nonce)
		if err != nil {
			return err
		}
		in.m.RequestID = answers
	}
	if err := a.remember(tx, in); err != nil {
		return err
	}
	// The gateway and the histories tell in order. What is known of a message
	// otherwise, of one that we sent above all, says nothing of those before it.
	if err := a.o.Tables.Messages.ReadUpTo(tx, m); err != nil {
		return err
	}
	// A page of the history may be older than the deletion.
	if _, err := a.o.Tables.Messages.Message(tx, Platform, m.ChannelID, m.ID); fault.KindOf(err) == fault.NotFound {
		return nil
	} else if err != nil {
		return err
	}
	if m.FromSelf && in.updated {
		return nil // our own edits; there are many, and whoever makes them knows
	}
	return a.publishOnce(tx, in.seen, event.AdapterMessage{
		Updated: in.updated, Platform: Platform, ChannelID: m.ChannelID, ChannelName: in.where.name,
		MessageID: m.ID, UserID: m.AuthorID, UserName: m.AuthorName, Text: m.Text, TS: max(m.CreatedAt, m.EditedAt), Raw: m.Raw,
	})
}

// remember puts a message, its chain of replies, its channel and the people
// into the cache.
func (a *Adapter) remember(tx *db.Tx, in *incoming) error {
	if err := a.putSession(tx, in.m.ChannelID, in.where, in.m); err != nil {
		return err
	}
	people := slices.Clone(in.m.Mentions)
	for _, m := range append(slices.Clone(in.learned), in.m) {
		people = append(people, surface.User{ID: m.AuthorID, Name: m.AuthorName, Bot: m.AuthorBot})
		if err := a.o.Tables.Messages.PutMessage(tx, m); err != nil {
			return err
		}
	}
	for _, u := range people {
		if err := a.o.Tables.Messages.PutUser(tx, Platform, u); err != nil {
			return err
		}
	}
	return nil
}

// putSession keeps what the channel is, without moving its positions back.
func (a *Adapter) putSession(tx *db.Tx, channelID string, p place, m surface.Message) error {
	s, err := a.session(tx, channelID, p)
	if err != nil {
		return err
	}
	s.UpdatedAt, s.Hidden = max(s.UpdatedAt, m.CreatedAt), false // or nobody had told us of it
	return a.o.Tables.Channels.PutSession(tx, s)
}

// publishOnce publishes an event unless its external id was seen.
func (a *Adapter) publishOnce(tx *db.Tx, externalID string, p event.Payload) error {
	_, seen, err := a.o.Tables.Inbox.Seen(tx, Platform, externalID, nil)
	if err != nil || seen {
		return err
	}
	e, err := event.New(event.Meta{ID: Platform + ":" + externalID, Time: tx.Now()}, p)
	if err != nil {
		return fmt.Errorf("make an event: %w", err)
	}
	return tx.Publish(e)
}

func (a *Adapter) deletion(ctx context.Context, d *dispatch, w wireDeletion) func(*db.Tx) error {
	if !a.heardIn(ctx, w.ChannelID, w.GuildID) {
		return nil
	}
	ids := w.IDs
	if w.ID != "" {
		ids = []string{w.ID}
	}
	return func(tx *db.Tx) error {
		for _, id := range ids {
			if err := a.putDeletion(tx, w.ChannelID, id, fmt.Sprintf("%s:%d:%s", d.session, d.seq, id)); err != nil {
				return err
			}
		}
		return nil
	}
}

func (a *Adapter) reacted(ctx context.Context, d *dispatch, w wireReaction) func(*db.Tx) error {
	if !a.heardIn(ctx, w.ChannelID, w.GuildID) {
		return nil
	}
	return func(tx *db.Tx) error {
		return a.publishOnce(tx, fmt.Sprintf("%s:%d", d.session, d.seq), event.AdapterReaction{
			Removed: d.kind != "MESSAGE_REACTION_ADD", Platform: Platform, ChannelID: w.ChannelID, MessageID: w.MessageID,
			UserID: w.UserID, Reaction: w.Emoji.text(), TS: tx.Now().UnixMilli(),
		})
	}
}

// heardIn reports whether a channel is heard that an event names.
func (a *Adapter) heardIn(ctx context.Context, channelID, guildID string) bool {
	_, heard := a.whereabouts(ctx, wireMessage{ChannelID: channelID, GuildID: guildID, Author: wireUser{ID: a.selfID()}})
	return heard
}

// watchForTwin warns of messages of ours that we did not send: a second
// process uses the token, and both answer.
func (a *Adapter) watchForTwin(ctx context.Context, in *incoming) {
	if !in.m.FromSelf || in.updated {
		return
	}
	a.mu.Lock()
	ours, quiet := a.nonces[in.nonce] && in.nonce != "", time.Since(a.warned) < warnEvery
	a.mu.Unlock()
	if ours || quiet {
		return
	}
	err := a.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		ours, err = a.o.Tables.Sends.IsPlanned(q, in.m.ChannelID, in.m.ID, in.nonce)
		return err
	})
	if err != nil || ours {
		return // an error shows where the message is written down
	}
	a.mu.Lock()
	a.warned = time.Now()
	a.mu.Unlock()
	a.o.Logger.WarnContext(ctx, "the bot said something that this Lilac did not send: another program uses the same token, and both answer. Stop the other one, or reset the token in the developer portal and set DISCORD_TOKEN here.",
		"channel_id", in.m.ChannelID, "message_id", in.m.ID)
}
