package discordtest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// patience is how long the waiting methods wait: much longer than anything
// takes, because machines stall.
const patience = time.Minute

// Messages is what a channel shows, oldest first.
func (s *Server) Messages(channelID string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Message
	for _, m := range s.world.in(channelID).messages {
		if !m.Deleted {
			list = append(list, m.copied())
		}
	}
	return list
}

// Ours is the bot's part of [Server.Messages].
func (s *Server) Ours(channelID string) []Message {
	return slices.DeleteFunc(s.Messages(channelID), func(m Message) bool { return m.Author != s.world.bot })
}

// Everything is what was ever written in a channel, with what was deleted.
func (s *Server) Everything(channelID string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Message
	for _, m := range s.world.in(channelID).messages {
		list = append(list, m.copied())
	}
	return list
}

// Message is one by its id, also when it was deleted.
func (s *Server) Message(channelID, messageID string) (Message, bool) {
	for _, m := range s.Everything(channelID) {
		if m.ID == messageID {
			return m, true
		}
	}
	return Message{}, false
}

// FileData is what an attachment holds.
func (s *Server) FileData(a Attachment) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.files[strings.TrimPrefix(a.URL, s.CDNURL)].data)
}

// Identifies lists the gateway sessions that were asked for.
func (s *Server) Identifies() []Identify {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.gateway.identifies)
}

// Heartbeats is how many have come.
func (s *Server) Heartbeats() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gateway.heartbeats
}

// Connected is how many connections are in a session now.
func (s *Server) Connected() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, ss := range s.gateway.sessions {
		if ss.conn != nil && ss.conn.sent > 0 {
			n++
		}
	}
	return n
}

// CommandWrites is how often the application's commands were overwritten.
func (s *Server) CommandWrites() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.world.commandWrites
}

// Commands are the names of the registered commands.
func (s *Server) Commands() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cmd := range s.world.commands {
		names = append(names, cmd["name"].(string))
	}
	return names
}

// Requests lists what came in over REST and was answered or cut.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Violations lists what broke a rule. [New] fails the test for them.
func (s *Server) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.violations)
}

// TakeViolations is Violations and forgets them: for the controls of tests.
func (s *Server) TakeViolations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.violations
	s.violations = nil
	return taken
}

// Wait waits until a condition holds; it is looked at whenever something has
// happened on the server.
func (s *Server) Wait(ctx context.Context, holds func() bool) error {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if holds() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Await is Wait that fails the test after half a minute.
func (s *Server) Await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Wait(ctx, holds); err != nil {
		t.Fatalf("%s: not within %v", what, patience)
	}
}

// AwaitConnected waits until the bot is in a session and has been told so.
func (s *Server) AwaitConnected(t testing.TB) {
	t.Helper()
	s.Await(t, "the bot connects", func() bool { return s.Connected() > 0 })
}

// AwaitMessage waits for a message of the bot in a channel.
func (s *Server) AwaitMessage(t testing.TB, channelID, what string, like func(Message) bool) (found Message) {
	t.Helper()
	s.Await(t, what, func() bool {
		list := s.Ours(channelID)
		i := slices.IndexFunc(list, like)
		if i >= 0 {
			found = list[i]
		}
		return i >= 0
	})
	return found
}

// AwaitInteraction waits until an interaction was answered.
func (s *Server) AwaitInteraction(t testing.TB, id string) (i Interaction) {
	t.Helper()
	s.Await(t, "the interaction is answered", func() bool {
		i = s.Interaction(id)
		return i.Acked
	})
	return i
}
