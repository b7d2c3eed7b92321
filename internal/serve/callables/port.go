package callables

import (
	"cmp"
	"context"

	"lilac/internal/core/surface"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/serve/toolserver"
)

// Reader reads the conversations of one surface. It decides what a caller may
// read: it refuses with a fault.Denied, and reports what does not exist as a
// fault.NotFound. Session ids are those that [Surfaces.Find] returned.
type Reader interface {
	// Client returns the name of the surface in request ids and headers ("web",
	// "discord").
	Client() string
	// Serves reports whether the sessions of a client, as its requests name it,
	// belong to this surface.
	Serves(client string) bool
	// Find resolves a form in which a session may be named. A form that names no
	// session is a fault.NotFound, which may list similar names.
	Find(ctx context.Context, form string) (sessionID string, err error)
	// Sessions lists the sessions that the caller may read, most recently used first.
	Sessions(ctx context.Context, caller toolserver.Caller) ([]Session, error)
	// Messages lists the newest messages of a session before a message id (""
	// for all), oldest first.
	Messages(ctx context.Context, caller toolserver.Caller, sessionID, before string, limit int) ([]Message, error)
	Message(ctx context.Context, caller toolserver.Caller, ref event.MessageRef) (Message, error)
	// Search finds messages that contain all words of a query, in one session or,
	// for "", in all sessions that the caller may read.
	Search(ctx context.Context, caller toolserver.Caller, sessionID, query string, limit int) ([]Message, error)
}

// Writer is implemented by a [Reader] whose surface lets commands send messages.
// It decides what a caller may do, as a Reader does.
type Writer interface {
	// Prepare turns a text with names into a message for a session, without a
	// nonce. It sends nothing.
	Prepare(ctx context.Context, caller toolserver.Caller, m Outgoing) (surface.Send, error)
	// Send sends a message and returns its id once the platform has confirmed it.
	// The same call again sends nothing, whatever the outcome of the first.
	Send(ctx context.Context, caller toolserver.Caller, m Outgoing) (Sent, error)
	Edit(ctx context.Context, caller toolserver.Caller, ref event.MessageRef, text string) error
	Delete(ctx context.Context, caller toolserver.Caller, ref event.MessageRef) error
	React(ctx context.Context, caller toolserver.Caller, ref event.MessageRef, emoji string) error
	Unreact(ctx context.Context, caller toolserver.Caller, ref event.MessageRef, emoji string) error
	Reactions(ctx context.Context, caller toolserver.Caller, ref event.MessageRef) ([]surface.Reaction, error)
}

// writer returns the Writer of a surface, or an error that refuses an action.
func writer(r Reader, action string) (Writer, error) {
	if w, ok := r.(Writer); ok {
		return w, nil
	}
	return nil, fault.New(fault.Denied, "A command cannot %s in a conversation of the page or the terminal: your answer is shown there by itself.", action)
}

// Outgoing is a message that a caller wants to send.
type Outgoing struct {
	SessionID string
	// Text has names: @ann, #ops.
	Text string
	// ReplyTo is the id of a message of the session, or "".
	ReplyTo string
	// Key tells two messages with the same text apart; see [Platform.Send].
	Key string
}

// Sent is the outcome of an [Outgoing] message.
type Sent struct {
	SessionID string `json:"sessionId"`
	MessageID string `json:"messageId"`
	// Repeated reports that an earlier call sent it.
	Repeated bool `json:"repeated,omitempty"`
}

// Session is a conversation in the results of callables.
type Session struct {
	// ChannelID is the value for the field sessionId of inputs.
	ChannelID       string              `json:"channelId"`
	GuildID         string              `json:"guildId,omitempty"`
	ParentChannelID string              `json:"parentChannelId,omitempty"`
	Kind            surface.ChannelKind `json:"kind"`
	Title           string              `json:"title,omitempty"`
	// Token is the configured alias, without the #.
	Token  string `json:"token,omitempty"`
	Client string `json:"client"`
}

// Message is a message in the results of callables. Times are Unix milliseconds.
type Message struct {
	SessionID string `json:"sessionId"`
	MessageID string `json:"messageId"`
	RequestID string `json:"requestId,omitempty"`
	// Role is user, assistant or system, where a surface has roles.
	Role       string `json:"role,omitempty"`
	AuthorID   string `json:"authorId,omitempty"`
	AuthorName string `json:"authorName,omitempty"`
	// Self reports that the bot wrote it, Bot that any program did.
	Self bool `json:"self,omitempty"`
	Bot  bool `json:"bot,omitempty"`
	// Text contains names instead of the platform's mentions.
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

// Surfaces are the surfaces of the program, those with aliases first.
type Surfaces []Reader

// Find resolves a form in which a session may be named; the empty form is the
// caller's own session. A form that names no session is a fault.NotFound that lists
// similar names. From then on, the record of the call names the session.
func (s Surfaces) Find(ctx context.Context, caller toolserver.Caller, form string) (Reader, string, error) {
	found, id, err := s.find(ctx, caller, form)
	if err == nil {
		toolserver.NoteSession(ctx, id)
	}
	return found, id, err
}

func (s Surfaces) find(ctx context.Context, caller toolserver.Caller, form string) (Reader, string, error) {
	if form == "" || form == caller.SessionID {
		if caller.SessionID == "" {
			return nil, "", fault.InvalidField("sessionId", "sessionId is missing: this token has no session of its own.")
		}
		for _, one := range s {
			if one.Serves(caller.Client) {
				return one, caller.SessionID, nil
			}
		}
		return nil, "", fault.New(fault.NotFound, "The session %q is on a surface that callables cannot reach.", caller.SessionID)
	}
	unknown := error(fault.New(fault.NotFound, "There is no session %q.", form))
	for i, one := range s {
		id, err := one.Find(ctx, form)
		switch {
		case err == nil:
			return one, id, nil
		case fault.KindOf(err) != fault.NotFound:
			return nil, "", err
		case i == 0: // it has aliases, and lists similar ones
			unknown = cmp.Or(err, unknown)
		}
	}
	return nil, "", unknown
}
