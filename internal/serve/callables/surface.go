package callables

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"lilac/internal/core/surface"
	"lilac/internal/foundation/event"
	"lilac/internal/serve/toolserver"
)

// Pieces of the schemas. The help of a callable shows the descriptions.
const (
	sessionField = `"sessionId":{"type":"string","maxLength":128,"description":"The conversation: its id, <#id>, a configured name (ops or #ops), or #title of a channel. The command's own when left out."}`
	messageField = `"messageId":{"type":"string","minLength":1,"maxLength":128,"description":"The message."}`
	textField    = `"text":{"type":"string","minLength":1,"maxLength":8000,"description":"What it says. @name mentions and notifies a person, #name links a channel."}`
	emojiField   = `"emoji":{"type":"string","minLength":1,"maxLength":100,"description":"The emoji itself, or name:id for one of a server's own."}`
	limitField   = `"limit":{"type":"integer","minimum":1,"maximum":200,"default":50,"description":"At most so many."}`
)

func object(required string, fields string) string {
	return `{"type":"object","properties":{` + fields + `},"required":[` + required + `]}`
}

// surfaceInput is what the callables surface.messages.* and
// surface.reactions.* take, each some of it.
type surfaceInput struct {
	SessionID        string `json:"sessionId"`
	MessageID        string `json:"messageId"`
	Before           string `json:"before"`
	Limit            int    `json:"limit"`
	Query            string `json:"query"`
	Text             string `json:"text"`
	ReplyToMessageID string `json:"replyToMessageId"`
	Key              string `json:"key"`
	Emoji            string `json:"emoji"`
}

// at is an input whose session was found.
type at struct {
	surfaceInput
	place Place
	// ref names the session, and the message if the input did.
	ref event.MessageRef
}

// in reads the input and finds its session.
func (p Places) in(run func(ctx context.Context, caller toolserver.Caller, in at) (any, error)) func(context.Context, toolserver.Caller, json.RawMessage) (any, error) {
	return func(ctx context.Context, caller toolserver.Caller, raw json.RawMessage) (any, error) {
		in, err := decode[surfaceInput](raw)
		if err != nil {
			return nil, err
		}
		place, id, err := p.Find(ctx, caller, in.SessionID)
		if err != nil {
			return nil, err
		}
		in.SessionID = id
		return run(ctx, caller, at{in, place, event.MessageRef{Platform: place.Client(), ChannelID: id, MessageID: in.MessageID}})
	}
}

// Surface returns the callables surface.*.
func Surface(places Places) []toolserver.Callable {
	return append(places.reading(), places.writing()...)
}

func (p Places) reading() []toolserver.Callable {
	return []toolserver.Callable{
		{
			ID: "surface.sessions.list", Summary: "Lists the conversations that this command may read", Repeatable: true,
			Examples: []string{"tools surface.sessions.list --output=json"},
			Schema:   object("", ""),
			Run: func(ctx context.Context, caller toolserver.Caller, _ json.RawMessage) (any, error) {
				return each(p, func(one Place) ([]Session, error) { return one.Sessions(ctx, caller) })
			},
		},
		{
			ID: "surface.messages.list", Summary: "Lists the newest messages of a conversation, oldest first", Repeatable: true,
			Description: "Lists what is known: what was said since the bot is there. Nothing is fetched.",
			Examples:    []string{"tools surface.messages.list --limit=20", "tools surface.messages.list --session-id=#ops --before=MESSAGE_ID --output=json"},
			Schema: object("", sessionField+`,"before":{"type":"string","maxLength":128,"description":"The id of a message; older ones are listed."},
`+limitField),
			Run: p.in(func(ctx context.Context, caller toolserver.Caller, in at) (any, error) {
				return in.place.Messages(ctx, caller, in.SessionID, in.Before, in.Limit)
			}),
		},
		{
			ID: "surface.messages.read", Summary: "Shows one message", Repeatable: true,
			Examples: []string{"tools surface.messages.read --message-id=MESSAGE_ID --output=json"},
			Schema:   object(`"messageId"`, sessionField+","+messageField),
			Run: p.in(func(ctx context.Context, caller toolserver.Caller, in at) (any, error) {
				return in.place.Message(ctx, caller, in.ref)
			}),
		},
		{
			ID: "surface.messages.search", Summary: "Finds messages that have all words of a query", Repeatable: true,
			Description: "Without a session it searches every conversation that this command may read.",
			Examples:    []string{`tools surface.messages.search --query="release plan" --session-id=#ops`},
			Schema:      object(`"query"`, sessionField+`,"query":{"type":"string","minLength":1,"maxLength":500,"description":"Words; the last may be a beginning."},`+limitField),
			Run: func(ctx context.Context, caller toolserver.Caller, raw json.RawMessage) (any, error) {
				in, err := decode[surfaceInput](raw)
				if err != nil {
					return nil, err
				}
				places, id := p, ""
				if in.SessionID != "" {
					var place Place
					if place, id, err = p.Find(ctx, caller, in.SessionID); err != nil {
						return nil, err
					}
					places = Places{place}
				}
				found, err := each(places, func(one Place) ([]Message, error) { return one.Search(ctx, caller, id, in.Query, in.Limit) })
				if len(found) > in.Limit { // each surface found as many as it may
					slices.SortStableFunc(found, func(a, b Message) int { return cmp.Compare(b.CreatedAt, a.CreatedAt) })
					found = found[:in.Limit]
				}
				return found, err
			},
		},
		{
			ID: "surface.reactions.list", Summary: "Lists the reactions to a message", Repeatable: true,
			Examples: []string{"tools surface.reactions.list --message-id=MESSAGE_ID"},
			Schema:   object(`"messageId"`, sessionField+","+messageField),
			Run: p.in(func(ctx context.Context, caller toolserver.Caller, in at) (any, error) {
				out, err := in.place.Reactions(ctx, caller, in.ref)
				return append([]surface.Reaction{}, out...), err
			}),
		},
	}
}

func (p Places) writing() []toolserver.Callable {
	return []toolserver.Callable{
		{
			ID: "surface.messages.send", Summary: "Sends a message and prints its id", Changes: true, Repeatable: true, Time: sendTime,
			Description: "What you answer in your own conversation is shown there by itself; this is for other ones, and for messages of their own.\n" +
				"The same text to the same place is sent once in a request, however often it is called: give another --key to say it again.",
			Examples: []string{`tools surface.messages.send --session-id=#ops --text="The build is done, @ann."`, `tools surface.messages.send --session-id=#ops --text=Yes. --reply-to-message-id=MESSAGE_ID`},
			Schema: object(`"text"`, sessionField+","+textField+`,
"replyToMessageId":{"type":"string","maxLength":128,"description":"A message of the conversation that it replies to."},
"key":{"type":"string","maxLength":128,"description":"Tells this message from another one with the same text. With a token of an operator it names the message: whatever the text, one is sent under it."}`),
			Run: p.in(func(ctx context.Context, caller toolserver.Caller, in at) (any, error) {
				return in.place.Send(ctx, caller, Outgoing{SessionID: in.SessionID, Text: in.Text, ReplyTo: in.ReplyToMessageID, Key: in.Key})
			}),
		},
		{
			ID: "surface.messages.edit", Summary: "Replaces the text of a message of ours", Changes: true, Repeatable: true,
			Examples: []string{`tools surface.messages.edit --session-id=#ops --message-id=MESSAGE_ID --text="Better: tomorrow."`},
			Schema:   object(`"messageId","text"`, sessionField+","+messageField+","+textField),
			Run: p.in(func(ctx context.Context, caller toolserver.Caller, in at) (any, error) {
				return done(in.ref, in.place.Edit(ctx, caller, in.ref, in.Text))
			}),
		},
		{
			ID: "surface.messages.delete", Summary: "Deletes a message of ours", Changes: true,
			Examples: []string{"tools surface.messages.delete --session-id=#ops --message-id=MESSAGE_ID"},
			Schema:   object(`"messageId"`, sessionField+","+messageField),
			Run: p.in(func(ctx context.Context, caller toolserver.Caller, in at) (any, error) {
				return done(in.ref, in.place.Delete(ctx, caller, in.ref))
			}),
		},
		{
			ID: "surface.reactions.add", Summary: "Puts an emoji on a message", Changes: true, Repeatable: true,
			Examples: []string{"tools surface.reactions.add --message-id=MESSAGE_ID --emoji=👍"},
			Schema:   object(`"messageId","emoji"`, sessionField+","+messageField+","+emojiField),
			Run: p.in(func(ctx context.Context, caller toolserver.Caller, in at) (any, error) {
				return done(in.ref, in.place.React(ctx, caller, in.ref, in.Emoji))
			}),
		},
		{
			ID: "surface.reactions.remove", Summary: "Takes our emoji off a message", Changes: true, Repeatable: true,
			Examples: []string{"tools surface.reactions.remove --message-id=MESSAGE_ID --emoji=👍"},
			Schema:   object(`"messageId","emoji"`, sessionField+","+messageField+","+emojiField),
			Run: p.in(func(ctx context.Context, caller toolserver.Caller, in at) (any, error) {
				return done(in.ref, in.place.Unreact(ctx, caller, in.ref, in.Emoji))
			}),
		},
	}
}

// done says what was changed.
func done(ref event.MessageRef, err error) (any, error) {
	return Sent{SessionID: ref.ChannelID, MessageID: ref.MessageID}, err
}

// each joins what the surfaces answer.
func each[T any](places Places, ask func(Place) ([]T, error)) ([]T, error) {
	out := []T{}
	for _, place := range places {
		some, err := ask(place)
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	return out, nil
}
