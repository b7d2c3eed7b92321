package callables

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
	"time"
	"unicode/utf16"

	"lilac/internal/core/outbox"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/serve/toolserver"
)

const (
	// HookName is the prefix of the keys of outbox rows that callables create.
	HookName = "tool"
	// sendLife is the time after which a message is not sent any more.
	sendLife = 5 * time.Minute
	// sendWait limits how long a call waits for the outcome of its message, and sendTime
	// limits the whole call.
	sendWait = 45 * time.Second
	sendTime = time.Minute
)

// mayWrite returns an error if the caller may not write in a channel. If the channel is
// not cached, it asks the platform.
func (p Platform) mayWrite(ctx context.Context, caller toolserver.Caller, channelID string) error {
	allowed, err := p.Adapter.Allowed(ctx, channelID)
	if err != nil {
		return err
	}
	if !allowed {
		return p.closed(channelID)
	}
	var s surface.Session
	err = p.DB.Read(ctx, func(q db.Queryer) error {
		s, err = p.Cache.Session(q, p.Client(), channelID)
		return err
	})
	if fault.KindOf(err) == fault.NotFound {
		s, err = p.Adapter.Channel(ctx, channelID)
	}
	if err != nil || s.Kind != surface.Direct {
		return err
	}
	return private(caller, channelID)
}

// can refuses an action that the platform does not support.
func (p Platform) can(able bool, what string) error {
	if able {
		return nil
	}
	return fault.New(fault.Denied, "On %s %s.", p.Client(), what)
}

// compose converts names to mentions. Only the people mentioned in this way are notified.
func (p Platform) compose(ctx context.Context, text string) (c surface.Content, err error) {
	if strings.TrimSpace(text) == "" {
		return c, fault.InvalidField("text", "text is empty.")
	}
	err = p.DB.Read(ctx, func(q db.Queryer) error {
		c.Text, c.PingUsers = p.Names(q).Out(text)
		return nil
	})
	if limit := p.Adapter.Capabilities().MaxText; err == nil && limit > 0 && len(utf16.Encode([]rune(c.Text))) > limit {
		err = fault.New(fault.TooLarge, "A message on %s has at most %d characters: send it in several.", p.Client(), limit)
	}
	return c, err
}

// Prepare implements [Writer].
func (p Platform) Prepare(ctx context.Context, caller toolserver.Caller, m Outgoing) (s surface.Send, err error) {
	if m.ReplyTo != "" {
		if err := p.can(p.Adapter.Capabilities().Replies, "messages cannot reply to others"); err != nil {
			return s, err
		}
	}
	if err := p.mayWrite(ctx, caller, m.SessionID); err != nil {
		return s, err
	}
	s = surface.Send{ChannelID: m.SessionID, ReplyTo: m.ReplyTo}
	s.Content, err = p.compose(ctx, m.Text)
	return s, err
}

// Send implements [Writer]. The agent's request, the session, the message that it replies
// to, the text and Key identify a message, so a call that is repeated after an unknown
// outcome sends nothing twice. An operator's call always sends, unless it has a Key.
func (p Platform) Send(ctx context.Context, caller toolserver.Caller, m Outgoing) (Sent, error) {
	send, err := p.Prepare(ctx, caller, m)
	if err != nil {
		return Sent{}, err
	}
	key := actOf(caller, m)
	repeated := false
	err = p.DB.Update(ctx, func(tx *db.Tx) error {
		if _, err := p.Table.Row(tx, key); err == nil {
			repeated = true
			return nil
		} else if fault.KindOf(err) != fault.NotFound {
			return err
		}
		return p.Outbox.Plan(tx, outbox.Row{
			Key: key, Send: send, RequestID: caller.RequestID, SessionID: m.SessionID, ExpiresAt: tx.Now().Add(sendLife).UnixMilli(),
		})
	})
	if err != nil {
		return Sent{}, fmt.Errorf("plan message: %w", err)
	}
	waiting, cancel := context.WithTimeout(ctx, sendWait)
	defer cancel()
	row, err := p.Outbox.Wait(waiting, key)
	switch {
	case err != nil && waiting.Err() != nil && ctx.Err() == nil:
		return Sent{}, fault.New(fault.Timeout, "The message is on its way and not there yet. Make the same call again to hear what became of it: it is sent once.")
	case err != nil:
		return Sent{}, err
	case row.State != outbox.Sent:
		return Sent{}, fault.New(fault.Conflict, "The message was not sent: %s To try again, give another --key.", row.Reason)
	}
	return Sent{SessionID: m.SessionID, MessageID: row.MessageID, Repeated: repeated}, nil
}

// actOf returns the key of an outbox row. It is the same for a repeated call. Without a
// request, only a Key makes two calls the same.
func actOf(caller toolserver.Caller, m Outgoing) string {
	parts := []string{"request", caller.RequestID, m.SessionID, m.ReplyTo, m.Text, m.Key}
	if caller.RequestID == "" {
		parts = []string{"operator", caller.Operator, m.SessionID, cmp.Or(m.Key, rand.Text())}
	}
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return HookName + ":" + base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(sum.Sum(nil))
}

// Remember returns the outbox's hook for [HookName]: it caches the messages that calls
// sent.
func Remember(cache Cache) outbox.OnSent {
	return func(tx *db.Tx, r outbox.Row, m surface.Message) error {
		if r.State != outbox.Sent || m.ID == "" {
			return nil
		}
		m.Platform, m.ChannelID, m.FromSelf = r.Platform, r.Send.ChannelID, true
		if m.Text == "" {
			m.Text = r.Send.Text
		}
		return cache.PutMessage(tx, m)
	}
}

// ours returns a message that the bot sent, and refuses others.
func (p Platform) ours(ctx context.Context, ref event.MessageRef, what string) (m surface.Message, err error) {
	err = p.DB.Read(ctx, func(q db.Queryer) error {
		m, err = p.Cache.Message(q, ref.Platform, ref.ChannelID, ref.MessageID)
		return err
	})
	if fault.KindOf(err) == fault.NotFound {
		m, err = p.Adapter.Read(ctx, ref)
	}
	if err == nil && !m.FromSelf {
		err = fault.New(fault.Denied, "The message %s is not ours: only our own messages can be %s.", ref.MessageID, what)
	}
	return m, err
}

// Edit implements [Writer].
func (p Platform) Edit(ctx context.Context, caller toolserver.Caller, ref event.MessageRef, text string) error {
	if err := p.can(p.Adapter.Capabilities().Edit, "messages cannot be edited"); err != nil {
		return err
	}
	if err := p.mayWrite(ctx, caller, ref.ChannelID); err != nil {
		return err
	}
	m, err := p.ours(ctx, ref, "edited")
	if err != nil {
		return err
	}
	c, err := p.compose(ctx, text)
	if err != nil {
		return err
	}
	if err := p.Adapter.Edit(ctx, ref, c); err != nil {
		return err
	}
	m.Text = c.Text
	return p.DB.Update(ctx, func(tx *db.Tx) error { return p.Cache.PutMessage(tx, m) })
}

// Delete implements [Writer].
func (p Platform) Delete(ctx context.Context, caller toolserver.Caller, ref event.MessageRef) error {
	if err := p.can(p.Adapter.Capabilities().Delete, "messages cannot be deleted"); err != nil {
		return err
	}
	if err := p.mayWrite(ctx, caller, ref.ChannelID); err != nil {
		return err
	}
	if !p.DeleteOthers {
		if _, err := p.ours(ctx, ref, "deleted"); err != nil {
			return err
		}
	}
	if err := p.Adapter.Delete(ctx, ref); err != nil {
		return err
	}
	return p.DB.Update(ctx, func(tx *db.Tx) error {
		return p.Cache.MarkDeleted(tx, ref.Platform, ref.ChannelID, ref.MessageID, tx.Now().UnixMilli())
	})
}

// React implements [Writer].
func (p Platform) React(ctx context.Context, caller toolserver.Caller, ref event.MessageRef, emoji string) error {
	if err := p.mayReact(ctx, caller, ref); err != nil {
		return err
	}
	return p.Adapter.React(ctx, ref, emoji)
}

// Unreact implements [Writer].
func (p Platform) Unreact(ctx context.Context, caller toolserver.Caller, ref event.MessageRef, emoji string) error {
	if err := p.mayReact(ctx, caller, ref); err != nil {
		return err
	}
	return p.Adapter.Unreact(ctx, ref, emoji)
}

// Reactions implements [Writer]. Reactions are not cached, so it asks the platform.
func (p Platform) Reactions(ctx context.Context, caller toolserver.Caller, ref event.MessageRef) ([]surface.Reaction, error) {
	if err := p.mayReact(ctx, caller, ref); err != nil {
		return nil, err
	}
	return p.Adapter.Reactions(ctx, ref)
}

func (p Platform) mayReact(ctx context.Context, caller toolserver.Caller, ref event.MessageRef) error {
	if err := p.can(p.Adapter.Capabilities().Reactions, "there are no reactions"); err != nil {
		return err
	}
	return p.mayWrite(ctx, caller, ref.ChannelID)
}
