package callables

import (
	"cmp"
	"context"
	"slices"

	"lilac/internal/core/surface"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/order"
	"lilac/internal/serve/toolserver"
)

// Fields that several inputs have. The help of a callable shows the descriptions.
type (
	inSession struct {
		SessionID string `json:"sessionId,omitempty" max:"128" jsonschema:"The conversation: its id, <#id>, a configured name (ops or #ops), or #title of a channel. The command's own when left out."`
	}
	onMessage struct {
		inSession
		MessageID string `json:"messageId" min:"1" max:"128" jsonschema:"The message."`
	}
	limited struct {
		Limit int `json:"limit,omitempty" min:"1" max:"200" default:"50" jsonschema:"At most so many."`
	}
)

func (s inSession) session() string { return s.SessionID }

type listMessagesInput struct {
	inSession
	Before string `json:"before,omitempty" max:"128" jsonschema:"The id of a message; older ones are listed."`
	limited
}

type searchInput struct {
	inSession
	Query string `json:"query" min:"1" max:"500" jsonschema:"Words; the last may be a beginning."`
	limited
}

type sendInput struct {
	inSession
	Text             string `json:"text" min:"1" max:"8000" jsonschema:"What it says. @name mentions and notifies a person, #name links a channel."`
	ReplyToMessageID string `json:"replyToMessageId,omitempty" max:"128" jsonschema:"A message of the conversation that it replies to."`
	Key              string `json:"key,omitempty" max:"128" jsonschema:"Distinguishes this message from another one with the same text. With the token of an operator, it identifies the message: one is sent per key, whatever its text."`
}

type editInput struct {
	onMessage
	Text string `json:"text" min:"1" max:"8000" jsonschema:"What it says. @name mentions and notifies a person, #name links a channel."`
}

type reactionInput struct {
	onMessage
	Emoji string `json:"emoji" min:"1" max:"100" jsonschema:"The emoji itself, or name:id for one of a server's own."`
}

// located is an input whose session was found.
type located[In any] struct {
	in      In
	caller  toolserver.Caller
	surface Reader
	id      string // of the session
}

// message names a message of the session.
func (l located[In]) message(id string) event.MessageRef {
	return event.MessageRef{Platform: l.surface.Client(), ChannelID: l.id, MessageID: id}
}

// reading returns a callable that finds the session of its input before it runs.
func reading[In interface{ session() string }](s Surfaces, c toolserver.Callable, run func(context.Context, located[In]) (any, error)) toolserver.Callable {
	return toolserver.NewCallable(c, func(ctx context.Context, caller toolserver.Caller, in In) (any, error) {
		found, id, err := s.Find(ctx, caller, in.session())
		if err != nil {
			return nil, err
		}
		return run(ctx, located[In]{in, caller, found, id})
	})
}

// writing is like reading, but for what only some surfaces can do; action says what.
func writing[In interface{ session() string }](s Surfaces, action string, c toolserver.Callable, run func(context.Context, Writer, located[In]) (any, error)) toolserver.Callable {
	return reading(s, c, func(ctx context.Context, l located[In]) (any, error) {
		w, err := writer(l.surface, action)
		if err != nil {
			return nil, err
		}
		return run(ctx, w, l)
	})
}

// Surface returns the callables surface.*.
func Surface(s Surfaces) []toolserver.Callable {
	return slices.Concat(sessionCallables(s), messageCallables(s), reactionCallables(s))
}

func sessionCallables(s Surfaces) []toolserver.Callable {
	return []toolserver.Callable{
		toolserver.NewCallable(toolserver.Callable{
			ID: "surface.sessions.list", Summary: "Lists the conversations that this command may read", Repeatable: true,
			Examples: []string{"tools surface.sessions.list --output=json"},
		}, func(ctx context.Context, caller toolserver.Caller, _ struct{}) (any, error) {
			return concat(s, func(one Reader) ([]Session, error) { return one.Sessions(ctx, caller) })
		}),
	}
}

func messageCallables(s Surfaces) []toolserver.Callable {
	return []toolserver.Callable{
		reading(s, toolserver.Callable{
			ID: "surface.messages.list", Summary: "Lists the newest messages of a conversation, oldest first", Repeatable: true,
			Description: "Lists the messages that were sent since the bot joined. Nothing is fetched from the platform.",
			Examples:    []string{"tools surface.messages.list --limit=20", "tools surface.messages.list --session-id=#ops --before=MESSAGE_ID --output=json"},
		}, func(ctx context.Context, l located[listMessagesInput]) (any, error) {
			return l.surface.Messages(ctx, l.caller, l.id, l.in.Before, l.in.Limit)
		}),
		reading(s, toolserver.Callable{
			ID: "surface.messages.read", Summary: "Shows one message", Repeatable: true,
			Examples: []string{"tools surface.messages.read --message-id=MESSAGE_ID --output=json"},
		}, func(ctx context.Context, l located[onMessage]) (any, error) {
			return l.surface.Message(ctx, l.caller, l.message(l.in.MessageID))
		}),
		toolserver.NewCallable(toolserver.Callable{
			ID: "surface.messages.search", Summary: "Finds messages that contain all words of a query", Repeatable: true,
			Description: "Without a session, it searches every conversation that this command may read.",
			Examples:    []string{`tools surface.messages.search --query="release plan" --session-id=#ops`},
		}, s.search),
		writing(s, "send messages", toolserver.Callable{
			ID: "surface.messages.send", Summary: "Sends a message and prints its id", Changes: true, Repeatable: true, Time: sendTime,
			Description: "Your answer is shown in your own conversation without this; use it for other conversations, and for separate messages.\n" +
				"The same text to the same conversation is sent once in a request, however often it is called: give another --key to send it again.",
			Examples: []string{`tools surface.messages.send --session-id=#ops --text="The build is done, @ann."`, `tools surface.messages.send --session-id=#ops --text=Yes. --reply-to-message-id=MESSAGE_ID`},
		}, func(ctx context.Context, w Writer, l located[sendInput]) (any, error) {
			return w.Send(ctx, l.caller, Outgoing{SessionID: l.id, Text: l.in.Text, ReplyTo: l.in.ReplyToMessageID, Key: l.in.Key})
		}),
		writing(s, "edit messages", toolserver.Callable{
			ID: "surface.messages.edit", Summary: "Replaces the text of a message that the bot sent", Changes: true, Repeatable: true,
			Examples: []string{`tools surface.messages.edit --session-id=#ops --message-id=MESSAGE_ID --text="Better: tomorrow."`},
		}, func(ctx context.Context, w Writer, l located[editInput]) (any, error) {
			ref := l.message(l.in.MessageID)
			return changed(ref, w.Edit(ctx, l.caller, ref, l.in.Text))
		}),
		writing(s, "delete messages", toolserver.Callable{
			ID: "surface.messages.delete", Summary: "Deletes a message that the bot sent", Changes: true,
			Examples: []string{"tools surface.messages.delete --session-id=#ops --message-id=MESSAGE_ID"},
		}, func(ctx context.Context, w Writer, l located[onMessage]) (any, error) {
			ref := l.message(l.in.MessageID)
			return changed(ref, w.Delete(ctx, l.caller, ref))
		}),
	}
}

func reactionCallables(s Surfaces) []toolserver.Callable {
	return []toolserver.Callable{
		writing(s, "see reactions", toolserver.Callable{
			ID: "surface.reactions.list", Summary: "Lists the reactions to a message", Repeatable: true,
			Examples: []string{"tools surface.reactions.list --message-id=MESSAGE_ID"},
		}, func(ctx context.Context, w Writer, l located[onMessage]) (any, error) {
			out, err := w.Reactions(ctx, l.caller, l.message(l.in.MessageID))
			return append([]surface.Reaction{}, out...), err
		}),
		writing(s, "react to messages", toolserver.Callable{
			ID: "surface.reactions.add", Summary: "Adds an emoji reaction to a message", Changes: true, Repeatable: true,
			Examples: []string{"tools surface.reactions.add --message-id=MESSAGE_ID --emoji=👍"},
		}, func(ctx context.Context, w Writer, l located[reactionInput]) (any, error) {
			ref := l.message(l.in.MessageID)
			return changed(ref, w.React(ctx, l.caller, ref, l.in.Emoji))
		}),
		writing(s, "react to messages", toolserver.Callable{
			ID: "surface.reactions.remove", Summary: "Removes the bot's emoji reaction from a message", Changes: true, Repeatable: true,
			Examples: []string{"tools surface.reactions.remove --message-id=MESSAGE_ID --emoji=👍"},
		}, func(ctx context.Context, w Writer, l located[reactionInput]) (any, error) {
			ref := l.message(l.in.MessageID)
			return changed(ref, w.Unreact(ctx, l.caller, ref, l.in.Emoji))
		}),
	}
}

// search finds messages in one session, or in all that the caller may read.
func (s Surfaces) search(ctx context.Context, caller toolserver.Caller, in searchInput) (any, error) {
	surfaces, id := s, ""
	if in.SessionID != "" {
		found, sessionID, err := s.Find(ctx, caller, in.SessionID)
		if err != nil {
			return nil, err
		}
		surfaces, id = Surfaces{found}, sessionID
	}
	found, err := concat(surfaces, func(one Reader) ([]Message, error) { return one.Search(ctx, caller, id, in.Query, in.Limit) })
	if len(found) > in.Limit { // each surface returned up to the limit
		order.By(found, func(a, b Message) int { return cmp.Compare(b.CreatedAt, a.CreatedAt) })
		found = found[:in.Limit]
	}
	return found, err
}

// changed returns the reference to a message that was changed.
func changed(ref event.MessageRef, err error) (any, error) {
	return Sent{SessionID: ref.ChannelID, MessageID: ref.MessageID}, err
}

// concat joins the results of all surfaces.
func concat[T any](surfaces Surfaces, list func(Reader) ([]T, error)) ([]T, error) {
	out := []T{}
	for _, one := range surfaces {
		some, err := list(one)
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	return out, nil
}
