package router

import (
	"fmt"
	"slices"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

// channelOf returns the channel of a thread, "" for every other session.
func channelOf(s surface.Session) string {
	if s.Kind != surface.Thread {
		return ""
	}
	return s.ParentChannelID
}

// decideMessage decides about a message. If programs may wake the agent, those that speak in the
// threads of one channel count together.
func (s *Service) decideMessage(tx *db.Tx, sessionID string, m Message, h event.Headers) error {
	if m.Programs && m.Channel != "" && m.CopyOf == "" && (m.Mode != Mention || m.Mentions || m.ReplyToUs) {
		before, err := s.o.Table.RouterState(tx, s.o.Platform, m.Channel)
		if err != nil {
			return fmt.Errorf("load the router state of the channel: %w", err)
		}
		if m.FromBot || len(before.Programs) > 0 {
			_, effects, err := s.core.ApplyTo(tx, target{m.Channel, h[event.HeaderTraceParent]}, before, Input{Event: SpokeInThread{m.ID, m.FromBot}, Rules: s.rules()})
			if err != nil || slices.ContainsFunc(effects, func(e Effect) bool { _, ignored := e.(Ignore); return ignored }) {
				return err
			}
		}
	}
	return s.decide(tx, sessionID, m, h)
}
