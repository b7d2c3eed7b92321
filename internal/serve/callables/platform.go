package callables

import (
	"context"
	"slices"

	"lilac/internal/core/entity"
	"lilac/internal/core/outbox"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/serve/toolserver"
)

// OutboxTable is the part of the outbox's table that a [Platform] needs.
type OutboxTable interface {
	// Row returns a fault.NotFound for an unknown key.
	Row(q db.Queryer, key string) (outbox.Row, error)
}

// Cache has the cached messages and sessions of platforms; see [surface.MessageCache] and
// [surface.Directory].
type Cache interface {
	Message(q db.Queryer, platform, channelID, messageID string) (surface.Message, error)
	Messages(q db.Queryer, platform, channelID, before string, limit int) ([]surface.Message, error)
	SearchMessages(q db.Queryer, platform string, channelIDs []string, query string, limit int) ([]surface.Message, error)
	PutMessage(tx *db.Tx, m surface.Message) error
	MarkDeleted(tx *db.Tx, platform, channelID, messageID string, at int64) error
	Session(q db.Queryer, platform, channelID string) (surface.Session, error)
	Sessions(q db.Queryer, platform string) ([]surface.Session, error)
}

// Platform is a chat platform such as Discord. Reads use only the cache, and only channels
// that the configuration allows. Private conversations are visible to themselves and to
// operators.
type Platform struct {
	DB      *db.DB
	Cache   Cache
	Adapter surface.Adapter
	Outbox  outbox.Outbox
	Table   OutboxTable
	// Names converts mentions to names and back.
	Names func(q db.Queryer) *entity.Mapper
	// DeleteOthers allows deleting messages that the bot did not send.
	DeleteOthers bool
}

var (
	_ Reader = Platform{}
	_ Writer = Platform{}
)

// Client implements [Reader].
func (p Platform) Client() string { return p.Adapter.Platform() }

// Serves implements [Reader].
func (p Platform) Serves(client string) bool { return client == p.Client() }

// Find implements [Reader].
func (p Platform) Find(ctx context.Context, form string) (id string, err error) {
	rerr := p.DB.Read(ctx, func(q db.Queryer) error {
		id, err = p.Names(q).SessionID(form)
		return nil
	})
	if rerr != nil {
		return "", rerr
	}
	return id, err
}

// Sessions implements [Reader].
func (p Platform) Sessions(ctx context.Context, caller toolserver.Caller) ([]Session, error) {
	known, err := p.readable(ctx, caller)
	if err != nil {
		return nil, err
	}
	out := make([]Session, len(known))
	err = p.DB.Read(ctx, func(q db.Queryer) error {
		names := p.Names(q)
		for i, s := range known {
			out[i] = Session{ChannelID: s.ChannelID, GuildID: s.GuildID, ParentChannelID: s.ParentChannelID, Kind: s.Kind, Title: s.Title, Client: p.Client()}
			out[i].Token, _ = names.Token(s.ChannelID)
		}
		return nil
	})
	return out, err
}

// readable lists the cached sessions that a caller may read.
func (p Platform) readable(ctx context.Context, caller toolserver.Caller) (out []surface.Session, err error) {
	err = p.DB.Read(ctx, func(q db.Queryer) error {
		out, err = p.Cache.Sessions(q, p.Client())
		return err
	})
	if err != nil {
		return nil, err
	}
	var trouble error
	out = slices.DeleteFunc(out, func(s surface.Session) bool {
		err := p.mayRead(ctx, caller, s)
		if err != nil && fault.KindOf(err) != fault.Denied {
			trouble = err
		}
		return err != nil
	})
	return out, trouble
}

// mayRead returns an error if the caller may not read a cached session. It does not
// depend on the platform being reachable.
func (p Platform) mayRead(ctx context.Context, caller toolserver.Caller, s surface.Session) error {
	if s.Kind == surface.Direct {
		return private(caller, s.ChannelID)
	}
	allowed, err := p.Adapter.Allowed(ctx, s.ChannelID)
	if err == nil && !allowed {
		err = p.closed(s.ChannelID)
	}
	return err
}

// closed refuses a channel that the configuration does not allow.
func (p Platform) closed(channelID string) error {
	return fault.New(fault.Denied, "The configuration does not open the channel %s: neither it nor its server is in surface.%s.allowedChannelIds or allowedGuildIds.", channelID, p.Client())
}

// session returns a cached session that the caller may read.
func (p Platform) session(ctx context.Context, caller toolserver.Caller, id string) (s surface.Session, err error) {
	err = p.DB.Read(ctx, func(q db.Queryer) error {
		s, err = p.Cache.Session(q, p.Client(), id)
		return err
	})
	if fault.KindOf(err) == fault.NotFound {
		return s, fault.New(fault.NotFound, "Nothing is known of the channel %s: what can be read is what was heard since the bot is there. See surface.sessions.list.", id)
	}
	if err != nil {
		return s, err
	}
	return s, p.mayRead(ctx, caller, s)
}

// Messages implements [Reader].
func (p Platform) Messages(ctx context.Context, caller toolserver.Caller, sessionID, before string, limit int) ([]Message, error) {
	if _, err := p.session(ctx, caller, sessionID); err != nil {
		return nil, err
	}
	out, err := p.show(ctx, func(q db.Queryer) ([]surface.Message, error) {
		return p.Cache.Messages(q, p.Client(), sessionID, before, limit)
	})
	slices.Reverse(out)
	return out, err
}

// Message implements [Reader].
func (p Platform) Message(ctx context.Context, caller toolserver.Caller, ref event.MessageRef) (Message, error) {
	if _, err := p.session(ctx, caller, ref.ChannelID); err != nil {
		return Message{}, err
	}
	out, err := p.show(ctx, func(q db.Queryer) ([]surface.Message, error) {
		m, err := p.Cache.Message(q, p.Client(), ref.ChannelID, ref.MessageID)
		return []surface.Message{m}, err
	})
	if err != nil {
		return Message{}, err
	}
	return out[0], nil
}

// Search implements [Reader].
func (p Platform) Search(ctx context.Context, caller toolserver.Caller, sessionID, query string, limit int) ([]Message, error) {
	var channels []string
	if sessionID != "" {
		if _, err := p.session(ctx, caller, sessionID); err != nil {
			return nil, err
		}
		channels = []string{sessionID}
	} else {
		known, err := p.readable(ctx, caller)
		if err != nil {
			return nil, err
		}
		for _, s := range known {
			channels = append(channels, s.ChannelID)
		}
	}
	return p.show(ctx, func(q db.Queryer) ([]surface.Message, error) {
		return p.Cache.SearchMessages(q, p.Client(), channels, query, limit)
	})
}

// show reads messages and converts their mentions to names.
func (p Platform) show(ctx context.Context, read func(db.Queryer) ([]surface.Message, error)) ([]Message, error) {
	out := []Message{}
	err := p.DB.Read(ctx, func(q db.Queryer) error {
		found, err := read(q)
		if err != nil {
			return err
		}
		names := p.Names(q)
		for _, m := range found {
			one := Message{
				SessionID: m.ChannelID, MessageID: m.ID, RequestID: m.RequestID, AuthorID: m.AuthorID, AuthorName: m.AuthorName, Self: m.FromSelf, Bot: m.AuthorBot,
				Text: names.In(m.Text), ReplyToMessageID: m.ReplyTo, CreatedAt: m.CreatedAt, EditedAt: m.EditedAt,
			}
			for _, a := range m.Attachments {
				one.Attachments = append(one.Attachments, Attachment{Filename: a.Filename, MimeType: a.MimeType, Size: a.Size})
			}
			out = append(out, one)
		}
		return nil
	})
	return out, err
}
