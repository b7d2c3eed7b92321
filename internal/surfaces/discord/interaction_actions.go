package discord

import (
	"context"
	"slices"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

const helpText = "Mention me, reply to me, or send me a private message, and I answer. While I work, reply to my answer to add information; reply and mention me to change the task. " +
	"The Stop button or /stop ends the answer, /status shows what I am working on, and /queue what waits. /model chooses the model, and /new begins a new conversation. To ask about a message, open its menu and select Apps, “Ask about this”."

// newConversationText confirms /new.
const newConversationText = "This is a new conversation: I no longer see the messages before it. They are kept, and you can find them on the page."

// plan decides what an interaction does, nil for nothing, and what to show once
// that is done.
func (s *interactions) plan(ctx context.Context, i interaction) (reply string, action func(*db.Tx) error, err error) {
	by, moderator := i.person()
	if by.ID == "" {
		return "", nil, fault.New(fault.Invalid, "Discord did not send your user id.")
	}
	if i.GuildID == "" {
		s.directory.cache.put(i.ChannelID, channelInfo{kind: surface.Direct, recipient: by.ID, name: by.Name})
	}
	if err := s.directory.requireWritable(ctx, i.ChannelID); err != nil {
		return "", nil, fault.Wrap(fault.Denied, err, "I do not work in this channel.")
	}
	if s.o.Interactions == nil && i.Data.Name != commandHelp {
		return "", nil, fault.New(fault.Unavailable, "I cannot do that now.")
	}
	if i.Type == interactionComponent {
		if i.requestID == "" {
			return "", nil, fault.New(fault.Invalid, "This button no longer works.")
		}
		if pause, answer, _, ok := surface.ParseAnswerButton(i.Data.CustomID); ok {
			return "Your answer counts.", func(tx *db.Tx) error { return s.o.Interactions.Answer(tx, i.requestID, pause, answer, by) }, nil
		}
		return s.stop(ctx, i.requestID, by, moderator)
	}
	c, ok := findCommand(i.Data.Name)
	if !ok {
		return "", nil, fault.New(fault.Invalid, "This command no longer exists.")
	}
	// Who may stop the answers of others is a setting of its own, and help tells nothing.
	if c.name != commandStop && c.name != commandHelp && !s.o.MayTalk(by) {
		return "", nil, fault.New(fault.Denied, "You may not talk to the agent here.")
	}
	return c.plan(ctx, s, i, by, moderator)
}

func planStop(ctx context.Context, s *interactions, i interaction, by surface.User, moderator bool) (string, func(*db.Tx) error, error) {
	if i.requestID == "" {
		return "No answer is in progress here.", nil, nil
	}
	return s.stop(ctx, i.requestID, by, moderator)
}

func planHelp(context.Context, *interactions, interaction, surface.User, bool) (string, func(*db.Tx) error, error) {
	return helpText, nil, nil
}

func planStatus(ctx context.Context, s *interactions, i interaction, _ surface.User, _ bool) (string, func(*db.Tx) error, error) {
	reply, err := s.o.Interactions.Status(ctx, i.ChannelID)
	return reply, nil, err
}

func planQueue(ctx context.Context, s *interactions, i interaction, _ surface.User, _ bool) (string, func(*db.Tx) error, error) {
	reply, err := s.o.Interactions.Queue(ctx, i.ChannelID)
	return reply, nil, err
}

// planNew begins a new conversation in the channel.
func planNew(_ context.Context, s *interactions, i interaction, by surface.User, _ bool) (string, func(*db.Tx) error, error) {
	return newConversationText, func(tx *db.Tx) error { return s.o.Interactions.NewConversation(tx, i.ChannelID, by) }, nil
}

func planAsk(ctx context.Context, s *interactions, i interaction, by surface.User, _ bool) (string, func(*db.Tx) error, error) {
	return s.ask(ctx, i, by)
}

// stop ends a request for a person who asked for it, or for a moderator.
func (s *interactions) stop(ctx context.Context, requestID string, by surface.User, moderator bool) (string, func(*db.Tx) error, error) {
	if !s.o.MayStop(by, moderator) {
		askers, err := s.o.Interactions.Askers(ctx, requestID)
		if err != nil {
			return "", nil, err
		}
		if !slices.Contains(askers, by.ID) {
			return "", nil, fault.New(fault.Denied, "Only the person who asked, or a moderator, can stop this.")
		}
	}
	return "Stopped.", func(tx *db.Tx) error { return s.o.Interactions.Stop(tx, requestID, by) }, nil
}

// ask caches the selected message and starts a request about it.
func (s *interactions) ask(ctx context.Context, i interaction, by surface.User) (string, func(*db.Tx) error, error) {
	m, ok := i.Data.Resolved.Messages[i.Data.TargetID]
	if !ok {
		return "", nil, fault.New(fault.Invalid, "Discord did not send the message that you selected.")
	}
	m.ChannelID, m.GuildID = i.ChannelID, i.GuildID
	in, _ := s.recorder.incoming(ctx, m, false, time.Now())
	if in == nil {
		return "", nil, fault.New(fault.Invalid, "This message has no readable content.")
	}
	return "I am looking at it.", func(tx *db.Tx) error {
		if err := s.recorder.cache(tx, in); err != nil {
			return err
		}
		return s.o.Interactions.Ask(tx, in.m, by)
	}, nil
}
