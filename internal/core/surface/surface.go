package surface

import (
	"encoding/json"

	"lilac/internal/foundation/event"
)

// Message is a cached message.
type Message struct {
	Platform  string `json:"platform"`
	ChannelID string `json:"channelId"`
	ID        string `json:"id"`
	AuthorID  string `json:"authorId"`
	// AuthorName is the name of the author in that channel at that time.
	AuthorName string `json:"authorName,omitempty"`
	// AuthorRoles are the ids of the author's roles there when the message was written;
	// nil if they are not known.
	AuthorRoles []string `json:"authorRoles,omitzero"`
	// AuthorBot reports that a program wrote it, FromSelf that we did.
	AuthorBot bool `json:"authorBot,omitempty"`
	FromSelf  bool `json:"fromSelf,omitempty"`
	// Text is in the platform's own syntax.
	Text string `json:"text"`
	// ReplyTo is the id of the message that it replies to in the same channel.
	ReplyTo     string       `json:"replyTo,omitempty"`
	Attachments []Attachment `json:"attachments,omitempty"`
	// Reactions are those that are known, as people see them.
	Reactions []Reaction `json:"reactions,omitempty"`
	// Mentions are the users that the text mentions.
	Mentions []User `json:"mentions,omitempty"`
	// RequestID is the request whose answer it shows, for a message of ours.
	RequestID string `json:"requestId,omitempty"`
	// CreatedAt, EditedAt, and DeletedAt are Unix milliseconds. EditedAt and DeletedAt
	// are zero if it was not edited or deleted.
	CreatedAt int64 `json:"createdAt"`
	EditedAt  int64 `json:"editedAt,omitempty"`
	DeletedAt int64 `json:"deletedAt,omitempty"`
	// Raw has the [Facts], in the form of [Facts.Raw].
	Raw json.RawMessage `json:"raw,omitempty"`
}

// Author returns the author of the message.
func (m Message) Author() User {
	return User{ID: m.AuthorID, Name: m.AuthorName, Bot: m.AuthorBot, Roles: m.AuthorRoles}
}

// Ref returns a reference to the message.
func (m Message) Ref() event.MessageRef {
	return event.MessageRef{Platform: m.Platform, ChannelID: m.ChannelID, MessageID: m.ID}
}

// Attachment is a file of a message.
type Attachment struct {
	ID       string `json:"id,omitempty"`
	URL      string `json:"url"`
	Filename string `json:"filename,omitempty"`
	MimeType string `json:"mimeType,omitempty"`
	// Size is the size in bytes that the platform reports.
	Size int64 `json:"size,omitempty"`
	// Blob refers to the bytes in the blob store, if they were downloaded with the
	// event; signed URLs expire.
	Blob string `json:"blob,omitempty"`
}

// ChannelKind is the kind of a channel.
type ChannelKind string

// The kinds of channels.
const (
	Channel ChannelKind = "channel"
	Thread  ChannelKind = "thread"
	Direct  ChannelKind = "dm"
)

// Session is a channel, thread or private conversation: one conversation with
// the agent. Its id is the channel's.
type Session struct {
	Platform        string      `json:"platform"`
	ChannelID       string      `json:"channelId"`
	GuildID         string      `json:"guildId,omitempty"`
	ParentChannelID string      `json:"parentChannelId,omitempty"`
	Kind            ChannelKind `json:"kind"`
	Title           string      `json:"title,omitempty"`
	// Topic describes a channel, in the words of its moderators.
	Topic string `json:"topic,omitempty"`
	// Hidden reports that the platform does not show it to us, Locked that its moderators want no
	// more messages in the thread.
	Hidden bool `json:"hidden,omitempty"`
	Locked bool `json:"locked,omitempty"`
	// Muted reports that we may not write in the channel, ThreadsMuted that we may not write in
	// its threads.
	Muted        bool `json:"muted,omitempty"`
	ThreadsMuted bool `json:"threadsMuted,omitempty"`
	// LastMessageID is the newest message that the platform has reported,
	// ReadMessageID the newest that was received.
	LastMessageID string `json:"lastMessageId,omitempty"`
	ReadMessageID string `json:"readMessageId,omitempty"`
	UpdatedAt     int64  `json:"updatedAt"`
}

// User is a person or a program on a platform. [Directory] also holds roles as users whose name
// begins with @, which no other user has.
type User struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Bot  bool   `json:"bot,omitempty"`
	// Roles are the ids of the person's roles where they acted; nil if they are not known.
	Roles []string `json:"roles,omitzero"`
}

// Reaction is an emoji on a message and its number of users.
type Reaction struct {
	Emoji string `json:"emoji"`
	Count int    `json:"count"`
	Mine  bool   `json:"mine,omitempty"`
}
