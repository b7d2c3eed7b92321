package router

import (
	"fmt"

	"lilac/internal/core/compose"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// asked is what somebody says who points at a message.
const asked = "I ask you about this message."

// Ask begins a request about a message of the cache, for somebody who pointed
// at it without writing. It answers in reply to that message.
func (s *Service) Ask(tx *db.Tx, m surface.Message, by surface.User) error {
	id := "a" + s.o.NewID()
	said, err := s.o.Cache.ReplyChain(tx, s.o.Platform, m.ChannelID, m.ID, compose.MaxDepth)
	if fault.KindOf(err) == fault.NotFound {
		return fault.Wrap(fault.NotFound, err, "The message is not there any more.")
	}
	if err != nil {
		return fmt.Errorf("load the reply chain: %w", err)
	}
	known, ids, err := s.known(tx, m.ChannelID, said)
	if err != nil {
		return err
	}
	said = append(said, surface.Message{
		Platform: s.o.Platform, ChannelID: m.ChannelID, ID: id, AuthorID: by.ID, AuthorName: by.Name, Text: asked, ReplyTo: m.ID, CreatedAt: tx.Now().UnixMilli(),
	})
	messages := compose.Compose(compose.Snapshot{
		Platform: s.o.Platform, Messages: said, SelfID: s.o.SelfID(), Names: s.o.Names(tx), Images: s.o.Images != nil && s.o.Images(),
		InHistory: func(id string) bool { return known[id] },
	})
	if err := s.o.Table.MarkForwarded(tx, s.o.Platform, m.ChannelID, ids); err != nil {
		return fmt.Errorf("remember what was forwarded: %w", err)
	}
	if err := s.decide(tx, m.ChannelID, Told{s.requestID(m.ChannelID, m.ID), ids}, nil); err != nil {
		return err
	}
	// Asked about before, it gets a request of another name from the runner.
	return s.publish(tx, m.ChannelID, s.requestID(m.ChannelID, m.ID), "message:"+s.o.Platform+":"+m.ChannelID+":"+id, "",
		event.RequestMessage{Queue: event.Prompt, Messages: messages, MessageID: id, ElseRequestID: s.requestID(m.ChannelID, id)})
}
