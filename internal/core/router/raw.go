package router

import (
	"encoding/json"
	"fmt"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// Trigger is why a message reaches the agent.
type Trigger string

// The triggers. If several apply, the first of them counts.
const (
	// TriggerCommand is a word or a command of the platform for the agent: a message that
	// interrupts, or "Ask about this".
	TriggerCommand Trigger = "command"
	TriggerMention Trigger = "mention"
	// TriggerReply is a reply to a message of ours.
	TriggerReply Trigger = "reply"
	// TriggerDM is any other message of a private conversation, and TriggerActive one of a
	// session in which the agent takes part.
	TriggerDM     Trigger = "dm"
	TriggerActive Trigger = "active"
)

// triggerOf returns why a message with these facts was forwarded with a queue mode.
func triggerOf(q event.Queue, f surface.Facts) Trigger {
	switch {
	case q == event.Interrupt:
		return TriggerCommand
	case f.MentionsBot:
		return TriggerMention
	case f.ReplyToBot:
		return TriggerReply
	case f.IsDMBased:
		return TriggerDM
	}
	return TriggerActive
}

// RequestFacts are the facts of a cmd.request.message. Its raw field has them under the
// platform's name.
type RequestFacts struct {
	// MessageIDs are the platform's messages in it, oldest first.
	MessageIDs []string `json:"messageIds"`
	Trigger    Trigger  `json:"trigger"`
	// Mode is how the session listens.
	Mode Mode `json:"mode"`
	// UserID and UserName are the author of the message that is the trigger.
	UserID   string `json:"userId,omitempty"`
	UserName string `json:"userName,omitempty"`
}

func (s *Service) encodeRaw(f RequestFacts) (json.RawMessage, error) {
	raw, err := json.Marshal(map[string]RequestFacts{s.o.Platform: f})
	if err != nil {
		return nil, fmt.Errorf("encode the facts of a request: %w", err)
	}
	return raw, nil
}

// rawOf returns the facts of forwarded messages. ids are all messages, with the reply chain.
func (s *Service) rawOf(q db.Queryer, sessionID string, f Forward, ids []string) (json.RawMessage, error) {
	m, err := s.o.Cache.Message(q, s.o.Platform, sessionID, f.MessageIDs[len(f.MessageIDs)-1])
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return nil, fmt.Errorf("load the message of a request: %w", err)
	}
	session, err := s.session(q, sessionID)
	if err != nil {
		return nil, err
	}
	facts, _ := surface.FactsOf(s.o.Platform, m.Raw)
	facts.IsDMBased = facts.IsDMBased || session.Kind == surface.Direct
	if facts.IsDMBased {
		session.Kind = surface.Direct // the channel may not be cached yet
	}
	return s.encodeRaw(RequestFacts{
		MessageIDs: ids, Trigger: triggerOf(f.Queue, facts), Mode: s.modeOf(session), UserID: m.AuthorID, UserName: m.AuthorName,
	})
}

func (s *Service) modeOf(session surface.Session) Mode {
	if session.Kind == surface.Direct {
		return Direct
	}
	return s.o.Profile.Mode(session)
}
