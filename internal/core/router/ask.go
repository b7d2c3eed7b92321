package router

import (
	"fmt"
	"slices"

	"lilac/internal/core/compose"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// askPrompt is the prompt for the "Ask about this" command.
const askPrompt = "I ask you about this message."

// Ask begins a request about a cached message, for a person who selected it
// without writing anything. The answer replies to that message.
func (s *Service) Ask(tx *db.Tx, m surface.Message, by surface.User) error {
	if !s.o.Profile.MayTalk(by) {
		return fault.New(fault.Denied, "You may not talk to the agent here.")
	}
	session, err := s.session(tx, m.ChannelID)
	if err != nil {
		return err
	}
	if closed, err := s.closed(tx, session); err != nil {
		return err
	} else if closed != "" {
		return fault.New(fault.Conflict, "%s", closed)
	}
	id := "a" + s.o.NewID()
	source, err := s.chain(tx, m.ChannelID, m.ID, compose.MaxDepth)
	if err != nil {
		return err
	}
	if len(source) == 0 {
		return fault.New(fault.NotFound, "The message no longer exists.")
	}
	inHistory, ids, err := s.inHistory(tx, m.ChannelID, source)
	if err != nil {
		return err
	}
	messages := compose.Compose(s.snapshot(tx, append(source, surface.Message{
		Platform: s.o.Platform, ChannelID: m.ChannelID, ID: id, AuthorID: by.ID, AuthorName: by.Name, Text: askPrompt, ReplyTo: m.ID, CreatedAt: tx.Now().UnixMilli(),
	}), inHistory))
	if err := s.o.Table.MarkForwarded(tx, s.o.Platform, m.ChannelID, ids); err != nil {
		return fmt.Errorf("mark messages as forwarded: %w", err)
	}
	requestID := s.requestID(m.ChannelID, m.ID)
	if err := s.decide(tx, m.ChannelID, Delivered{requestID, ids}, nil); err != nil {
		return err
	}
	raw, err := s.encodeRaw(RequestFacts{MessageIDs: slices.DeleteFunc(slices.Clone(ids), compose.IsPlace), Trigger: TriggerCommand, Mode: s.modeOf(session), UserID: by.ID, UserName: by.Name})
	if err != nil {
		return err
	}
	// If the message has begun a request before, the runner uses the other id.
	return s.publish(tx, target{sessionID: m.ChannelID}, requestID, "message:"+s.o.Platform+":"+m.ChannelID+":"+id,
		event.RequestMessage{Queue: event.Prompt, Messages: messages, MessageID: id, Grant: s.o.Profile.Grant(by), Raw: raw, ElseRequestID: s.requestID(m.ChannelID, id)})
}
