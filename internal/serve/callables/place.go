package callables

import (
	"cmp"
	"context"

	"lilac/internal/core/surface"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/serve/toolserver"
)

// Place is one surface as callables reach it. It decides what a caller may do
// there: what it may not is a fault.Denied, what is not there a fault.NotFound.
// The session ids are those that [Places.Find] returned.
type Place interface {
	// Client is the name that request ids and headers use ("web", "discord").
	Client() string
	// Serves reports whether the sessions of a client, as its requests name it,
	// are here.
	Serves(client string) bool
	// Find resolves a form in which a session of the surface may be named. A
	// form that names none is a fault.NotFound, which may list near names.
	Find(ctx context.Context, form string) (sessionID string, err error)

	// Sessions lists what the caller may read, the last used first.
	Sessions(ctx context.Context, caller toolserver.Caller) ([]Session, error)
	// Messages lists the newest messages of a session before a message id (""
	// for all), oldest first.
	Messages(ctx context.Context, caller toolserver.Caller, sessionID, before string, limit int) ([]Message, error)
	Message(ctx context.Context, caller toolserver.Caller, ref event.MessageRef) (Message, error)
	// Search finds messages that hold all words of a query, in one session or,
	// for "", in all that the caller may read.
	Search(ctx context.Context, caller toolserver.Caller, sessionID, query string, limit int) ([]Message, error)

	// Prepare makes of a text with names what can be sent to a session, without
	// a nonce. It sends nothing.
	Prepare(ctx context.Context, caller toolserver.Caller, m Outgoing) (surface.Send, error)
	// Send sends a message and returns its id when the platform has told it.
	// The same act is sent once, whatever became of an earlier call.
	Send(ctx context.Context, caller toolserver.Caller, m Outgoing) (Sent, error)
	Edit(ctx context.Context, caller toolserver.Caller, ref event.MessageRef, text string) error
	Delete(ctx context.Context, caller toolserver.Caller, ref event.MessageRef) error
	React(ctx context.Context, caller toolserver.Caller, ref event.MessageRef, emoji string) error
	Unreact(ctx context.Context, caller toolserver.Caller, ref event.MessageRef, emoji string) error
	Reactions(ctx context.Context, caller toolserver.Caller, ref event.MessageRef) ([]surface.Reaction, error)
}

// Outgoing is a message that a caller wants to send.
type Outgoing struct {
	SessionID string
	// Text has names: @ann, #ops.
	Text string
	// ReplyTo is a message of the session, or "".
	ReplyTo string
	// Key tells an act from another one that says the same; see [Platform.Send].
	Key string
}

// Sent is what became of an [Outgoing] message.
type Sent struct {
	SessionID string `json:"sessionId"`
	MessageID string `json:"messageId"`
	// Repeated says that an earlier call had sent it.
	Repeated bool `json:"repeated,omitempty"`
}

// Session is a conversation as callables show it.
type Session struct {
	// ChannelID is what sessionId takes.
	ChannelID       string              `json:"channelId"`
	GuildID         string              `json:"guildId,omitempty"`
	ParentChannelID string              `json:"parentChannelId,omitempty"`
	Kind            surface.ChannelKind `json:"kind"`
	Title           string              `json:"title,omitempty"`
	// Token is the configured alias, without the #.
	Token  string `json:"token,omitempty"`
	Client string `json:"client"`
}

// Message is a message as callables show it; times are Unix milliseconds.
type Message struct {
	SessionID string `json:"sessionId"`
	MessageID string `json:"messageId"`
	RequestID string `json:"requestId,omitempty"`
	// Role is user, assistant or system, where a surface has roles.
	Role       string `json:"role,omitempty"`
	AuthorID   string `json:"authorId,omitempty"`
	AuthorName string `json:"authorName,omitempty"`
	// Self says that we wrote it, Bot that a program did.
	Self bool `json:"self,omitempty"`
	Bot  bool `json:"bot,omitempty"`
	// Text has names instead of the platform's mentions.
	Text             string       `json:"text"`
	ReplyToMessageID string       `json:"replyToMessageId,omitempty"`
	Attachments      []Attachment `json:"attachments,omitempty"`
	CreatedAt        int64        `json:"createdAt"`
	EditedAt         int64        `json:"editedAt,omitempty"`
}

// Attachment is a file of a message.
type Attachment struct {
	Filename string `json:"filename,omitempty"`
	MimeType string `json:"mimeType,omitempty"`
	// Size is in bytes.
	Size int64 `json:"size,omitempty"`
}

// Places are the surfaces of the program, those with aliases first.
type Places []Place

// Find resolves a form in which a session may be named; the empty one is the
// caller's own session. A form that names none is a fault.NotFound that lists
// near names. The call's record names the session from then on.
func (p Places) Find(ctx context.Context, caller toolserver.Caller, form string) (Place, string, error) {
	place, id, err := p.find(ctx, caller, form)
	if err == nil {
		toolserver.On(ctx, id)
	}
	return place, id, err
}

func (p Places) find(ctx context.Context, caller toolserver.Caller, form string) (Place, string, error) {
	if form == "" || form == caller.SessionID {
		if caller.SessionID == "" {
			return nil, "", fault.InvalidField("sessionId", "sessionId is missing: this token has no session of its own.")
		}
		for _, place := range p {
			if place.Serves(caller.Client) {
				return place, caller.SessionID, nil
			}
		}
		return nil, "", fault.New(fault.NotFound, "The session %q is on no surface that can be reached from here.", caller.SessionID)
	}
	unknown := error(fault.New(fault.NotFound, "There is no session %q.", form))
	for i, place := range p {
		id, err := place.Find(ctx, form)
		switch {
		case err == nil:
			return place, id, nil
		case fault.KindOf(err) != fault.NotFound:
			return nil, "", err
		case i == 0: // it has aliases, and says which are near
			unknown = cmp.Or(err, unknown)
		}
	}
	return nil, "", unknown
}
