package discord

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/disgoorg/disgo/discord"
	"github.com/disgoorg/disgo/rest"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

const (
	// pageSize is the most that Discord lists ("Message Resource", get channel
	// messages).
	pageSize = 100
	// maxSearchPages bounds the search for a message of ours, from when it can have
	// been made on.
	maxSearchPages = 10
)

// Read implements [surface.Adapter].
func (a *Adapter) Read(ctx context.Context, ref event.MessageRef) (surface.Message, error) {
	m, err := a.fetch(ctx, ref.ChannelID, ref.MessageID)
	if err != nil {
		return surface.Message{}, err
	}
	return a.message(m), nil
}

// fetch asks for one message.
func (a *Adapter) fetch(ctx context.Context, channelID, messageID string) (m wireMessage, err error) {
	if !snowflake(channelID) || !snowflake(messageID) {
		return m, fault.New(fault.Invalid, "%q in %q is not a message of Discord.", messageID, channelID)
	}
	if err := a.mayRead(ctx, channelID); err != nil {
		return m, err
	}
	err = a.api.do(ctx, rest.GetMessage.Compile(nil, channelID, messageID), nil, &m)
	m.ChannelID = channelID
	return m, err
}

func (a *Adapter) mayRead(ctx context.Context, channelID string) error {
	return a.opened(ctx, channelID, "The configuration does not let the bot read the channel %s.")
}

// List implements [surface.Adapter]: newest first.
func (a *Adapter) List(ctx context.Context, channelID string, o surface.ListOptions) ([]surface.Message, error) {
	if o.Limit <= 0 {
		o.Limit = 50
	}
	page, err := a.page(ctx, channelID, o.Before, o.After, min(o.Limit, pageSize))
	if err != nil {
		return nil, err
	}
	out := make([]surface.Message, len(page))
	for i, m := range page {
		out[i] = a.message(m)
	}
	return out, nil
}

// page lists messages of a channel, newest first.
func (a *Adapter) page(ctx context.Context, channelID, before, after string, limit int) ([]wireMessage, error) {
	if !snowflake(channelID) {
		return nil, fault.New(fault.Invalid, "%q is not a channel of Discord.", channelID)
	}
	if err := a.mayRead(ctx, channelID); err != nil {
		return nil, err
	}
	query := discord.QueryValues{"limit": limit}
	if before != "" {
		query["before"] = before
	} else if after != "" {
		query["after"] = after
	}
	var page []wireMessage
	if err := a.api.do(ctx, rest.GetMessages.Compile(query, channelID), nil, &page); err != nil {
		return nil, err
	}
	for i := range page {
		page[i].ChannelID = channelID
	}
	slices.SortFunc(page, func(x, y wireMessage) int {
		if laterID(x.ID, y.ID) {
			return -1
		}
		return 1
	})
	return page, nil
}

// FindNonce implements [surface.Adapter]. The gateway tells the nonce of a
// message of ours and it is remembered then; histories do not always have it, and
// are empty for who may not read them. So nothing is looked for there before a
// session of the gateway has told again what was not heard.
func (a *Adapter) FindNonce(ctx context.Context, channelID, nonce string, notBefore time.Time) (surface.Message, bool, error) {
	if nonce == "" {
		return surface.Message{}, false, nil
	}
	var id string
	err := a.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		id, err = a.o.Tables.Sends.NonceMessage(q, channelID, nonce)
		return err
	})
	if err == nil {
		m, err := a.fetch(ctx, channelID, id)
		switch {
		case err == nil:
			return a.message(m), true, nil
		case fault.KindOf(err) != fault.NotFound && fault.KindOf(err) != fault.Denied:
			return surface.Message{}, false, err
		}
		// It was made, and somebody has deleted it since, or we may not read it.
		return surface.Message{Platform: Platform, ChannelID: channelID, ID: id, AuthorID: a.selfID(), FromSelf: true}, true, nil
	}
	if fault.KindOf(err) != fault.NotFound {
		return surface.Message{}, false, err
	}
	if !a.hasCaughtUp() {
		return surface.Message{}, false, fault.New(fault.Unavailable, "Discord is not connected, so nobody knows what it tells.")
	}
	return a.searchHistory(ctx, channelID, nonce, notBefore)
}

// searchHistory looks for a message of ours by its nonce or, because
// histories seldom have it, by what the outbox has planned under the nonce.
func (a *Adapter) searchHistory(ctx context.Context, channelID, nonce string, notBefore time.Time) (surface.Message, bool, error) {
	var planned *surface.Send
	err := a.o.DB.Read(ctx, func(q db.Queryer) error {
		s, err := a.o.Tables.Sends.PlannedSend(q, channelID, nonce)
		if err == nil {
			planned = &s
		}
		return err
	})
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return surface.Message{}, false, err
	}
	after := idBefore(idAt(notBefore.UnixMilli()))
	for range maxSearchPages {
		page, err := a.page(ctx, channelID, "", after, pageSize)
		if err != nil {
			return surface.Message{}, false, err
		}
		for _, w := range slices.Backward(page) {
			after = w.ID
			if w.Author.ID != a.selfID() {
				continue
			}
			found, err := w.nonce() == nonce, error(nil)
			if !found && planned != nil {
				found, err = a.isPlanned(ctx, w, *planned)
			}
			if err != nil || found {
				return a.message(w), found, err
			}
		}
		if len(page) < pageSize {
			return surface.Message{}, false, nil
		}
	}
	return surface.Message{}, false, fault.New(fault.Unavailable, "So much was said since that the message is not found.")
}

// isPlanned reports whether a message of ours shows what was planned and is
// no other one that we made.
func (a *Adapter) isPlanned(ctx context.Context, m wireMessage, s surface.Send) (bool, error) {
	// Discord cuts the space around a text, and drops the reference to a
	// message that was gone.
	if strings.TrimSpace(m.Content) != strings.TrimSpace(a.o.Scrub(s.Text)) || len(m.Attachments) != len(s.Files) ||
		m.Reference != nil && m.Reference.MessageID != s.ReplyTo {
		return false, nil
	}
	var other bool
	err := a.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		other, err = a.o.Tables.Sends.IsPlanned(q, m.ChannelID, m.ID, "")
		return err
	})
	return !other, err
}

// React implements [surface.Adapter]. A custom emoji is name:id.
func (a *Adapter) React(ctx context.Context, ref event.MessageRef, emoji string) error {
	return a.reaction(ctx, rest.AddReaction, ref, emoji)
}

// Unreact implements [surface.Adapter]: it takes our own back.
func (a *Adapter) Unreact(ctx context.Context, ref event.MessageRef, emoji string) error {
	return a.reaction(ctx, rest.RemoveOwnReaction, ref, emoji)
}

func (a *Adapter) reaction(ctx context.Context, e *rest.Endpoint, ref event.MessageRef, emoji string) error {
	if emoji == "" {
		return fault.New(fault.Invalid, "A reaction needs an emoji.")
	}
	if err := a.mayWrite(ctx, ref.ChannelID); err != nil {
		return err
	}
	return a.api.do(ctx, e.Compile(nil, ref.ChannelID, ref.MessageID, url.PathEscape(emoji)), nil, nil)
}

// Reactions implements [surface.Adapter].
func (a *Adapter) Reactions(ctx context.Context, ref event.MessageRef) ([]surface.Reaction, error) {
	m, err := a.fetch(ctx, ref.ChannelID, ref.MessageID)
	if err != nil {
		return nil, err
	}
	var out []surface.Reaction
	for _, r := range m.Reactions {
		out = append(out, surface.Reaction{Emoji: r.Emoji.text(), Count: r.Count, Mine: r.Me})
	}
	return out, nil
}

// permissionBits reads a set of permissions as Discord writes it.
func permissionBits(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
