package surface

import (
	"context"
	"time"

	"lilac/internal/foundation/event"
)

// Capabilities say what a surface can do. What it cannot is answered with a
// fault.Denied that says so.
type Capabilities struct {
	Edit, Delete, Reactions, Typing, Files, Replies, Buttons bool
	// MaxText is the longest message in UTF-16 units, MaxFiles the most files
	// on one message, MaxFileBytes the largest of them, MaxMessageBytes all of
	// them together.
	MaxText         int
	MaxFiles        int
	MaxFileBytes    int64
	MaxMessageBytes int64
}

// File is a file on its way out; its bytes are given, or lie in the blob store.
type File struct {
	Name     string `json:"name"`
	MimeType string `json:"mimeType,omitempty"`
	Blob     string `json:"blob,omitempty"`
	Data     []byte `json:"data,omitempty"`
}

// Button is a control under a message; pressing it is told to the adapter's
// owner with its ID.
type Button struct {
	ID    string `json:"id"`
	Label string `json:"label"`
	// Danger paints it as one that ends something.
	Danger bool `json:"danger,omitempty"`
}

// Content is what a message shows. On an edit nil Buttons keep none: the
// content is the whole message.
type Content struct {
	// Text is in the platform's own syntax.
	Text string `json:"text"`
	// PingUsers are the only people whom the text may notify.
	PingUsers []string `json:"pingUsers,omitempty"`
	Buttons   []Button `json:"buttons,omitempty"`
}

// Send is a new message.
type Send struct {
	ChannelID string `json:"channelId"`
	Content
	// ReplyTo is a message of the channel; if it is gone the message is sent
	// without it.
	ReplyTo string `json:"replyTo,omitempty"`
	Files   []File `json:"files,omitempty"`
	// Nonce names the logical act, at most 25 bytes (Discord, "Create Message").
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

// Adapter connects one platform. Its errors are faults: NotFound and Denied
// are final for the channel or message, Unavailable, RateLimited and Timeout
// may pass; after a Timeout the outcome of a send is unknown.
type Adapter interface {
	// Platform is the name that ids and headers use ("discord").
	Platform() string
	// Run connects and takes in what people say until ctx ends.
	Run(ctx context.Context) error
	// Self is who we are there; false before the first connection.
	Self() (User, bool)
	Capabilities() Capabilities
	// Healthy says why it hears nothing, or nil.
	Healthy() error

	// Allowed reports whether the configuration lets us write to the channel;
	// it may ask the platform which guild the channel belongs to.
	Allowed(ctx context.Context, channelID string) (bool, error)
	// Opens is Allowed of a session of which enough is known: it asks nobody.
	Opens(s Session) bool
	// Channel says what a channel is; it may ask the platform. What happened in
	// it is not told.
	Channel(ctx context.Context, channelID string) (Session, error)

	Send(ctx context.Context, s Send) (Message, error)
	// FindNonce looks for a message that an earlier Send made, not before a time.
	FindNonce(ctx context.Context, channelID, nonce string, notBefore time.Time) (Message, bool, error)
	Edit(ctx context.Context, ref event.MessageRef, c Content) error
	Delete(ctx context.Context, ref event.MessageRef) error
	// Read and List ask the platform, not the cache.
	Read(ctx context.Context, ref event.MessageRef) (Message, error)
	List(ctx context.Context, channelID string, o ListOptions) ([]Message, error)
	React(ctx context.Context, ref event.MessageRef, emoji string) error
	Unreact(ctx context.Context, ref event.MessageRef, emoji string) error
	Reactions(ctx context.Context, ref event.MessageRef) ([]Reaction, error)
	// Typing shows for some seconds that an answer is being made.
	Typing(ctx context.Context, channelID string) error
}

// FileSource is an adapter that can fetch the files of its platform's messages.
type FileSource interface {
	// FetchFile returns a file of at most so many bytes, whole or not at all.
	// A fault.NotFound says that the platform does not have it any more.
	FetchFile(ctx context.Context, f Attachment, most int64) (Fetched, error)
}

// Fetched is a file that was fetched.
type Fetched struct {
	Data []byte
	// MimeType is what its host calls it, without parameters; it may be empty.
	MimeType string
}
