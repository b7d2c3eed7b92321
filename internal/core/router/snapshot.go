package router

import (
	"fmt"
	"slices"

	"lilac/internal/core/compose"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
)

// compose turns messages of the cache into the model's, with what the last one
// replies to if they are for a request: the gate is asked about a burst alone.
// It also returns the ids of what was said.
func (s *Service) compose(q db.Queryer, sessionID string, f Forward) (messages []chat.Message, ids []string, err error) {
	var said []surface.Message
	messageIDs := f.MessageIDs
	if f.RequestID != "" {
		said, err = s.o.Cache.ReplyChain(q, s.o.Platform, sessionID, messageIDs[len(messageIDs)-1], compose.MaxDepth)
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return nil, nil, fmt.Errorf("load the reply chain: %w", err)
		}
		messageIDs = slices.DeleteFunc(slices.Clone(messageIDs), func(id string) bool {
			return slices.ContainsFunc(said, func(m surface.Message) bool { return m.ID == id })
		})
	}
	// A burst stands before the message that took it with it, behind the chain.
	var burst []surface.Message
	for _, id := range messageIDs {
		m, err := s.o.Cache.Message(q, s.o.Platform, sessionID, id)
		if fault.KindOf(err) == fault.NotFound {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, nil, fmt.Errorf("load message: %w", err)
		}
		burst = append(burst, m)
	}
	if len(said) > 0 {
		said = slices.Insert(said, len(said)-1, burst...)
	} else {
		said = burst
	}
	if len(said) == 0 {
		return nil, nil, nil
	}
	known, ids, err := s.known(q, sessionID, said)
	if err != nil {
		return nil, nil, err
	}
	return compose.Compose(compose.Snapshot{
		Platform: s.o.Platform, Messages: said, SelfID: s.o.SelfID(), Names: s.o.Names(q), Command: interruptCommand,
		Images: s.o.Images != nil && s.o.Images(), InHistory: func(id string) bool { return known[id] }, Joins: f.RequestID, Edited: f.Edited != 0,
	}), ids, nil
}

// untold are those of a forward's messages that the session's history does not
// hold; an edit is told there all the same.
func (s *Service) untold(q db.Queryer, sessionID string, f Forward) (ids []string, err error) {
	if f.Edited != 0 {
		return f.MessageIDs, nil
	}
	for _, id := range f.MessageIDs {
		told, err := s.o.Table.Forwarded(q, s.o.Platform, sessionID, id)
		if err != nil {
			return nil, fmt.Errorf("check the history: %w", err)
		}
		if !told {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// known are the messages that the session's history holds, ours with the whole
// story of the request that said them; ids are the others.
func (s *Service) known(q db.Queryer, sessionID string, said []surface.Message) (known map[string]bool, ids []string, err error) {
	known = map[string]bool{}
	for _, m := range said {
		if m.FromSelf && m.RequestID != "" {
			known[m.ID], err = s.o.Table.Ran(q, sessionID, m.RequestID)
		} else {
			known[m.ID], err = s.o.Table.Forwarded(q, s.o.Platform, sessionID, m.ID)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("check the history: %w", err)
		}
		if !known[m.ID] {
			ids = append(ids, m.ID)
		}
	}
	return known, ids, nil
}
