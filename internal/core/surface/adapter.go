package surface

import (
	"context"
	"time"

	"lilac/internal/foundation/event"
)

// Capabilities are the features of a platform. A call of a feature that it lacks
// returns a fault.Denied.
type Capabilities struct {
	Edit, Delete, Reactions, Typing, Files, Replies, Buttons bool
	// MaxText is the longest message in UTF-16 units. MaxFiles is the number of files
	// per message, and MaxMessageBytes the size of all of them.
	MaxText         int
	MaxFiles        int
	MaxMessageBytes int64
}

// File is an outgoing file. Its bytes are in Data or in the blob store.
type File struct {
	Name     string `json:"name"`
	MimeType string `json:"mimeType,omitempty"`
	Blob     string `json:"blob,omitempty"`
	Data     []byte `json:"data,omitempty"`
}

// Button is a button below a message. Its ID identifies the action.
type Button struct {
	ID    string `json:"id"`
	Label string `json:"label"`
	// Danger shows it in the color of destructive actions.
	Danger bool `json:"danger,omitempty"`
}

// Content is the whole visible content of a message. An edit with nil Buttons
// removes the buttons.
type Content struct {
	// Text is in the platform's own syntax.
	Text string `json:"text"`
	// PingUsers are the only users that the text may notify.
	PingUsers []string `json:"pingUsers,omitempty"`
	Buttons   []Button `json:"buttons,omitempty"`
}

// Send is a new message.
type Send struct {
	ChannelID string `json:"channelId"`
	Content
	// ReplyTo is a message of the channel. If it was deleted, the message is sent
	// without it.
	ReplyTo string `json:"replyTo,omitempty"`
	Files   []File `json:"files,omitempty"`
	// Nonce identifies the logical message, in at most 25 bytes (Discord, "Create
	// Message").
	Nonce string `json:"nonce"`
}

// ListOptions bound a list of messages. Before and After are message ids.
type ListOptions struct {
	Before, After string
	// Limit is at most 100; zero means 50.
	Limit int
}

// CodeUnknownChannel is the code of a fault.NotFound that concerns the whole
// channel and not one message in it.
const CodeUnknownChannel = "unknown_channel"

// Adapter connects one platform. A core that needs a part of it declares that
// part. Errors are faults: NotFound and Denied are final for the channel or
// message; Unavailable, RateLimited, and Timeout may pass. After a Timeout, the
// outcome of a send is unknown.
type Adapter interface {
	Connection
	Channels
	Writer
	Reader
}

// Connection is the connection to the platform.
type Connection interface {
	// Platform returns the name that ids and headers use ("discord").
	Platform() string
	// Run connects and receives events until ctx ends.
	Run(ctx context.Context) error
	// Self returns our own user. It returns false before the first connection.
	Self() (User, bool)
	Capabilities() Capabilities
	// Healthy returns the reason why no events arrive, or nil.
	Healthy() error
}

// Channels answers questions about channels.
type Channels interface {
	// Allowed reports whether the configuration lets us write to the channel. It may
	// ask the platform for the channel's guild.
	Allowed(ctx context.Context, channelID string) (bool, error)
	// Opens is like Allowed for a known session, and makes no network calls.
	Opens(s Session) bool
	// MaxFileBytes returns the size of the largest file that a channel accepts. It makes no
	// network calls.
	MaxFileBytes(channelID string) int64
	// Channel returns a channel. It may ask the platform.
	Channel(ctx context.Context, channelID string) (Session, error)
}

// Writer writes to the platform.
type Writer interface {
	Send(ctx context.Context, s Send) (Message, error)
	// FindNonce searches for a message that an earlier Send created after notBefore.
	FindNonce(ctx context.Context, channelID, nonce string, notBefore time.Time) (Message, bool, error)
	Edit(ctx context.Context, ref event.MessageRef, c Content) error
	Delete(ctx context.Context, ref event.MessageRef) error
	React(ctx context.Context, ref event.MessageRef, emoji string) error
	Unreact(ctx context.Context, ref event.MessageRef, emoji string) error
	// Tell sends a user a private message. It is for notices about what the user did
	// elsewhere, so the configuration need not allow private conversations. A nonce
	// keeps the message from being sent twice.
	Tell(ctx context.Context, userID, text, nonce string) error
	// Typing shows a typing indicator for some seconds.
	Typing(ctx context.Context, channelID string) error
}

// Reader reads from the platform, not from the cache.
type Reader interface {
	Read(ctx context.Context, ref event.MessageRef) (Message, error)
	List(ctx context.Context, channelID string, o ListOptions) ([]Message, error)
	Reactions(ctx context.Context, ref event.MessageRef) ([]Reaction, error)
}

// FileSource is an adapter that can fetch the files of its platform's messages.
type FileSource interface {
	// FetchFile returns a complete file of at most most bytes. A fault.NotFound means
	// that the platform no longer has it.
	FetchFile(ctx context.Context, f Attachment, most int64) (Fetched, error)
}

// Fetched is a fetched file.
type Fetched struct {
	Data []byte
	// MimeType is the media type that the host reports, without parameters, or "".
	MimeType string
}
