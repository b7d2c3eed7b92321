package discord

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/order"
)

const (
	// pageSize is Discord's maximum ("Message Resource", get channel messages).
	pageSize = 100
	// defaultList is the length of a list without a limit.
	defaultList = 50
	// maxSearchPages bounds the search for a message of the bot.
	maxSearchPages = 10
)

// history reads messages over the REST API.
type history struct {
	o         Options
	status    *status
	client    *client
	directory *directory
	convert   converter
}

func (h *history) read(ctx context.Context, ref event.MessageRef) (surface.Message, error) {
	m, err := h.message(ctx, ref.ChannelID, ref.MessageID)
	if err != nil {
		return surface.Message{}, err
	}
	return h.convert.message(m), nil
}

// message reads one message.
func (h *history) message(ctx context.Context, channelID, messageID string) (m wireMessage, err error) {
	if !isSnowflake(channelID) || !isSnowflake(messageID) {
		return m, fault.New(fault.Invalid, "%q in %q is not a Discord message.", messageID, channelID)
	}
	if err := h.directory.requireReadable(ctx, channelID); err != nil {
		return m, err
	}
	err = h.client.get(ctx, getChannelMessage.with(channelID, messageID), &m)
	m.ChannelID = channelID
	return m, err
}

func (h *history) list(ctx context.Context, channelID string, o surface.ListOptions) ([]surface.Message, error) {
	if o.Limit <= 0 {
		o.Limit = defaultList
	}
	page, err := h.page(ctx, channelID, o.Before, o.After, min(o.Limit, pageSize))
	if err != nil {
		return nil, err
	}
	out := make([]surface.Message, len(page))
	for i, m := range page {
		out[i] = h.convert.message(m)
	}
	return out, nil
}

// page lists messages of a channel, newest first.
func (h *history) page(ctx context.Context, channelID, before, after string, limit int) ([]wireMessage, error) {
	if !isSnowflake(channelID) {
		return nil, fault.New(fault.Invalid, "%q is not a Discord channel id.", channelID)
	}
	if err := h.directory.requireReadable(ctx, channelID); err != nil {
		return nil, err
	}
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if before != "" {
		query.Set("before", before)
	} else if after != "" {
		query.Set("after", after)
	}
	var page []wireMessage
	if err := h.client.get(ctx, getChannelMessages.with(channelID).search(query), &page); err != nil {
		return nil, err
	}
	for i := range page {
		page[i].ChannelID = channelID
	}
	order.By(page, func(x, y wireMessage) int {
		if isNewer(x.ID, y.ID) {
			return -1
		}
		return 1
	})
	return page, nil
}

func (h *history) reactions(ctx context.Context, ref event.MessageRef) ([]surface.Reaction, error) {
	m, err := h.message(ctx, ref.ChannelID, ref.MessageID)
	if err != nil {
		return nil, err
	}
	var out []surface.Reaction
	for _, r := range m.Reactions {
		out = append(out, surface.Reaction{Emoji: r.Emoji.text(), Count: r.Count, Mine: r.Me})
	}
	return out, nil
}

// findNonce finds the message that an earlier send created. The gateway reports
// the nonces of the bot's messages and they are stored; histories often lack
// them, and are empty for a bot that may not read them. Therefore the history is
// searched only after the gateway has replayed what was missed.
func (h *history) findNonce(ctx context.Context, channelID, nonce string, notBefore time.Time) (surface.Message, bool, error) {
	if nonce == "" {
		return surface.Message{}, false, nil
	}
	complete := h.status.caughtUp() // asked first: events may be stored after the table was read
	var id string
	err := h.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		id, err = h.o.Tables.Sends.NonceMessage(q, channelID, nonce)
		return err
	})
	if err == nil {
		m, err := h.message(ctx, channelID, id)
		switch {
		case err == nil:
			return h.convert.message(m), true, nil
		case fault.KindOf(err) != fault.NotFound && fault.KindOf(err) != fault.Denied:
			return surface.Message{}, false, err
		}
		// It was created, but has been deleted since or must not be read.
		return surface.Message{Platform: Platform, ChannelID: channelID, ID: id, AuthorID: h.status.selfID(), FromSelf: true}, true, nil
	}
	if fault.KindOf(err) != fault.NotFound {
		return surface.Message{}, false, err
	}
	if !complete {
		return surface.Message{}, false, fault.New(fault.Unavailable, "Discord is not connected, so its missed events are unknown.")
	}
	return h.searchNonce(ctx, channelID, nonce, notBefore)
}

// searchNonce searches the history for a message of the bot with the nonce or,
// because histories rarely have nonces, with the content that the outbox planned
// for it.
func (h *history) searchNonce(ctx context.Context, channelID, nonce string, notBefore time.Time) (surface.Message, bool, error) {
	var planned *surface.Send
	err := h.o.DB.Read(ctx, func(q db.Queryer) error {
		s, err := h.o.Tables.Sends.PlannedSend(q, channelID, nonce)
		if err == nil {
			planned = &s
		}
		return err
	})
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return surface.Message{}, false, err
	}
	after := idBefore(firstIDAt(notBefore.UnixMilli()))
	for range maxSearchPages {
		page, err := h.page(ctx, channelID, "", after, pageSize)
		if err != nil {
			return surface.Message{}, false, err
		}
		for _, m := range slices.Backward(page) {
			after = m.ID
			if m.Author.ID != h.status.selfID() {
				continue
			}
			found, err := m.nonceText() == nonce, error(nil)
			if !found && planned != nil {
				found, err = h.matchesPlan(ctx, m, *planned)
			}
			if err != nil || found {
				return h.convert.message(m), found, err
			}
		}
		if len(page) < pageSize {
			return surface.Message{}, false, nil
		}
	}
	return surface.Message{}, false, fault.New(fault.Unavailable, "The message was not found among the last %d messages of the channel.", maxSearchPages*pageSize)
}

// matchesPlan reports whether a message of the bot shows what was planned and is
// not another message that the bot sent.
func (h *history) matchesPlan(ctx context.Context, m wireMessage, s surface.Send) (bool, error) {
	// Discord trims the text, and drops the reference to a deleted message.
	if strings.TrimSpace(m.Content) != strings.TrimSpace(h.o.Scrub(s.Text)) || len(m.Attachments) != len(s.Files) ||
		m.Reference != nil && m.Reference.MessageID != s.ReplyTo {
		return false, nil
	}
	var other bool
	err := h.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		other, err = h.o.Tables.Sends.IsPlanned(q, m.ChannelID, m.ID, "")
		return err
	})
	return !other, err
}

// cached reads a message from the store.
func (h *history) cached(ctx context.Context, channelID, messageID string) (m surface.Message, err error) {
	err = h.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		m, err = h.o.Tables.Messages.Message(q, Platform, channelID, messageID)
		return err
	})
	return m, err
}
