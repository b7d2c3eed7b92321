package discordtest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// patience is the timeout of the waiting methods. It is much longer than any wait should
// take, because test machines can stall.
const patience = time.Minute

// Messages returns the visible messages of a channel, oldest first.
func (s Observer) Messages(channelID string) []Message {
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

// Ours returns the bot's messages among [Observer.Messages].
func (s Observer) Ours(channelID string) []Message {
	return slices.DeleteFunc(s.Messages(channelID), func(m Message) bool { return m.Author != s.world.bot })
}

// Everything returns all messages ever posted in a channel, including deleted ones.
func (s Observer) Everything(channelID string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Message
	for _, m := range s.world.in(channelID).messages {
		list = append(list, m.copied())
	}
	return list
}

// Message returns the message with an ID, even if it was deleted.
func (s Observer) Message(channelID, messageID string) (Message, bool) {
	for _, m := range s.Everything(channelID) {
		if m.ID == messageID {
			return m, true
		}
	}
	return Message{}, false
}

// FileData returns the content of an attachment.
func (s Observer) FileData(a Attachment) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.files[strings.TrimPrefix(a.URL, s.CDNURL)].data)
}

// Identifies returns all identifies that clients sent.
func (s Observer) Identifies() []Identify {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.gateway.identifies)
}

// Heartbeats returns the number of heartbeats received.
func (s Observer) Heartbeats() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gateway.heartbeats
}

// Connected returns the number of connections whose session has received an event.
func (s Observer) Connected() int {
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

// CommandWrites returns how often the application's commands were overwritten.
func (s Observer) CommandWrites() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.world.commandWrites
}

// Commands returns the names of the registered commands.
func (s Observer) Commands() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cmd := range s.world.commands {
		names = append(names, cmd["name"].(string))
	}
	return names
}

// Requests returns the REST requests that were answered or cut.
func (s Observer) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Violations returns the recorded violations. [New] fails the test if there are any.
func (s Observer) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.violations)
}

// TakeViolations returns the violations and clears them. Tests that provoke a violation
// use it.
func (s Observer) TakeViolations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.violations
	s.violations = nil
	return taken
}

// Wait waits until holds returns true. It calls holds after every change of the server's
// state.
func (s Observer) Wait(ctx context.Context, holds func() bool) error {
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

// Await is like Wait, but fails the test after one minute.
func (s Observer) Await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Wait(ctx, holds); err != nil {
		t.Fatalf("%s: not within %v", what, patience)
	}
}

// AwaitConnected waits until the bot has a session and has received an event in it.
func (s Observer) AwaitConnected(t testing.TB) {
	t.Helper()
	s.Await(t, "the bot connects", func() bool { return s.Connected() > 0 })
}

// AwaitMessage waits until a channel contains a matching message of the bot.
func (s Observer) AwaitMessage(t testing.TB, channelID, what string, like func(Message) bool) (found Message) {
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

// AwaitInteraction waits until the bot has responded to an interaction.
func (s Observer) AwaitInteraction(t testing.TB, id string) (i Interaction) {
	t.Helper()
	s.Await(t, "the interaction is answered", func() bool {
		i = s.Interaction(id)
		return i.Acked
	})
	return i
}
