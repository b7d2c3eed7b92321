package router

import (
	"fmt"
	"maps"
	"slices"

	"lilac/internal/core/compose"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
)

// loadHistory loads the facts about the messages that a decision may forward: it
// decides without facts first, which forwards everything that can be forwarded.
func (s *Service) loadHistory(q db.Queryer, sessionID string, state State, in Input) (*History, error) {
	h := &History{Delivered: map[string]bool{}, Chains: map[string][]string{}}
	_, effects := Decide(state, in, s.o.Now())
	for _, e := range effects {
		f, ok := e.(Forward)
		if !ok {
			continue
		}
		// Only the last message that the model has not received needs its chain.
		depth := compose.MaxDepth
		for _, id := range slices.Backward(f.MessageIDs) {
			chain, err := s.chain(q, sessionID, id, depth)
			if err != nil {
				return nil, err
			}
			delivered, err := s.o.Table.Forwarded(q, s.o.Platform, sessionID, id)
			if err != nil {
				return nil, fmt.Errorf("check the history: %w", err)
			}
			inHistory, _, err := s.inHistory(q, sessionID, chain)
			if err != nil {
				return nil, err
			}
			maps.Copy(h.Delivered, inHistory)
			h.Delivered[id] = delivered
			for _, m := range chain {
				h.Chains[id] = append(h.Chains[id], m.ID)
			}
			if !delivered || f.Edited != 0 {
				depth = 1
			}
		}
	}
	return h, nil
}

// chain loads a message with the messages that it replies to, oldest first, at
// most depth in all. A message that was deleted has none.
func (s *Service) chain(q db.Queryer, sessionID, id string, depth int) ([]surface.Message, error) {
	chain, err := s.o.Cache.ReplyChain(q, s.o.Platform, sessionID, id, depth)
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return nil, fmt.Errorf("load the reply chain: %w", err)
	}
	if len(chain) == 0 || depth < compose.MaxDepth {
		return chain, nil
	}
	opening, err := s.opening(q, sessionID)
	if err != nil {
		return nil, err
	}
	opening = slices.DeleteFunc(opening, func(o surface.Message) bool {
		return slices.ContainsFunc(chain, func(m surface.Message) bool { return m.ID == o.ID })
	})
	return append(opening, chain...), nil
}

// opening returns what precedes all messages of a channel or thread: where it is and, if it is
// known, the message that started a thread. A private conversation has nothing of that.
func (s *Service) opening(q db.Queryer, sessionID string) ([]surface.Message, error) {
	session, err := s.session(q, sessionID)
	switch {
	case err != nil || session.Kind == surface.Direct || session.Title == "":
		return nil, err
	case session.Kind != surface.Thread:
		return []surface.Message{compose.Place(session, surface.Session{})}, nil
	}
	channel, err := s.session(q, session.ParentChannelID)
	if err != nil {
		return nil, err
	}
	out := []surface.Message{compose.Place(session, channel)}
	// A post in a forum starts with a message of the thread, other threads with one
	// of their channel. Both have the id of the thread.
	for _, channelID := range []string{sessionID, session.ParentChannelID} {
		starter, err := s.o.Cache.Message(q, s.o.Platform, channelID, sessionID)
		switch {
		case err == nil && starter.DeletedAt == 0:
			return append(out, starter), nil
		case err != nil && fault.KindOf(err) != fault.NotFound:
			return nil, fmt.Errorf("load the message that started the thread: %w", err)
		}
	}
	return out, nil
}

// compose turns cached messages into the model's messages. If they are for a
// request, the reply chain of the last one is part of them; the gate sees a burst
// alone. It also returns the ids that the history does not contain yet.
func (s *Service) compose(q db.Queryer, sessionID string, f Forward) (messages []chat.Message, ids []string, err error) {
	var source []surface.Message
	messageIDs := f.MessageIDs
	if f.RequestID != "" {
		if source, err = s.chain(q, sessionID, messageIDs[len(messageIDs)-1], compose.MaxDepth); err != nil {
			return nil, nil, err
		}
		messageIDs = slices.DeleteFunc(slices.Clone(messageIDs), func(id string) bool {
			return slices.ContainsFunc(source, func(m surface.Message) bool { return m.ID == id })
		})
	}
	// The burst comes after the chain and before the message that ended it.
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
	if len(source) > 0 {
		source = slices.Insert(source, len(source)-1, burst...)
	} else {
		source = burst
	}
	if len(source) == 0 {
		return nil, nil, nil
	}
	inHistory, ids, err := s.inHistory(q, sessionID, source)
	if err != nil {
		return nil, nil, err
	}
	snapshot := s.snapshot(q, source, inHistory)
	snapshot.Command, snapshot.Joins, snapshot.Edited = interruptCommand, f.RequestID, f.Edited != 0
	return compose.Compose(snapshot), ids, nil
}

func (s *Service) snapshot(q db.Queryer, source []surface.Message, inHistory map[string]bool) compose.Snapshot {
	return compose.Snapshot{
		Platform: s.o.Platform, Messages: source, SelfID: s.o.Profile.SelfID(), Names: s.o.Profile.Names(q),
		Shows: s.o.Profile.Shows, Starter: starterOf(source), InHistory: func(id string) bool { return inHistory[id] },
	}
}

// starterOf returns the id of the message that started the thread, "" if it is not
// there or the only message.
func starterOf(source []surface.Message) string {
	if len(source) > 2 && compose.IsPlace(source[0].ID) && source[1].ID == source[0].ChannelID {
		return source[1].ID
	}
	return ""
}

// undelivered returns those of the messages that the history does not contain.
func (s *Service) undelivered(q db.Queryer, sessionID string, messageIDs []string) (ids []string, err error) {
	for _, id := range messageIDs {
		delivered, err := s.o.Table.Forwarded(q, s.o.Platform, sessionID, id)
		if err != nil {
			return nil, fmt.Errorf("check the history: %w", err)
		}
		if !delivered {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// inHistory reports for each message whether the session's history contains it,
// and returns the ids of the others. The history contains the agent's own
// messages together with the request whose output they show.
func (s *Service) inHistory(q db.Queryer, sessionID string, source []surface.Message) (in map[string]bool, others []string, err error) {
	in = map[string]bool{}
	for _, m := range source {
		if m.FromSelf && m.RequestID != "" && m.ChannelID == sessionID {
			in[m.ID], err = s.o.Table.Ran(q, sessionID, m.RequestID)
		} else {
			in[m.ID], err = s.o.Table.Remembered(q, s.o.Platform, sessionID, m.ID)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("check the history: %w", err)
		}
		if !in[m.ID] {
			others = append(others, m.ID)
		}
	}
	return in, others, nil
}
