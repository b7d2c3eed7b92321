package discord

import (
	"encoding/json"
	"path"
	"strings"
	"time"
)

// The types in this file hold the fields of Discord's objects that the adapter
// reads. Everything else is ignored.

type wireUser struct {
	ID         string `json:"id"`
	Username   string `json:"username"`
	GlobalName string `json:"global_name"`
	Bot        bool   `json:"bot"`
}

type wireMember struct {
	Nick        string    `json:"nick"`
	User        *wireUser `json:"user"`
	Roles       []string  `json:"roles"`
	Permissions string    `json:"permissions"`
	// TimedOutUntil is the end of the member's timeout, if there is one.
	TimedOutUntil string `json:"communication_disabled_until"`
}

// wireMention is a user whom a message mentions.
type wireMention struct {
	wireUser
	Member *wireMember `json:"member"`
}

type wireReference struct {
	Type      int    `json:"type"`
	MessageID string `json:"message_id"`
	ChannelID string `json:"channel_id"`
}

type wireAttachment struct {
	ID       string `json:"id"`
	Filename string `json:"filename"`
	// Title is the name without its ending if Filename lacks some of its characters.
	Title string `json:"title"`
	// Description describes the file to people who cannot see it ("alt text").
	Description string `json:"description"`
	ContentType string `json:"content_type"`
	Size        int64  `json:"size"`
	URL         string `json:"url"`
	// Duration is that of a voice message, in seconds.
	Duration float64 `json:"duration_secs"`
}

type wireMessage struct {
	wireContent
	ID        string      `json:"id"`
	ChannelID string      `json:"channel_id"`
	GuildID   string      `json:"guild_id"`
	Author    wireUser    `json:"author"`
	Member    *wireMember `json:"member"`
	Timestamp string      `json:"timestamp"`
	Edited    string      `json:"edited_timestamp"`
	Type      int         `json:"type"`
	WebhookID string      `json:"webhook_id"`
	// ApplicationID is the program to which the webhook belongs, "" for one that people created.
	ApplicationID string         `json:"application_id"`
	MentionRoles  []string       `json:"mention_roles"`
	Reference     *wireReference `json:"message_reference"`
	Referenced    *wireMessage   `json:"referenced_message"`
	// Snapshots are the messages that it forwards.
	Snapshots []struct {
		Message wireContent `json:"message"`
	} `json:"message_snapshots"`
	Reactions []struct {
		Count int       `json:"count"`
		Me    bool      `json:"me"`
		Emoji wireEmoji `json:"emoji"`
	} `json:"reactions"`
	// Nonce is a string or a number.
	Nonce json.RawMessage `json:"nonce"`
}

type wireEmoji struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Message types of messages that people write, message flags, and the types of
// a reply's reference ("Message Resource").
const (
	messageDefault = 0
	messageReply   = 19
	messageCommand = 20
	// messageThreadStarter is the first message of a thread that was created from
	// a message; it refers to that.
	messageThreadStarter = 21
	messageMenu          = 23
	flagSuppressEmbeds   = 1 << 2
	flagEphemeral        = 1 << 6
	flagLoading          = 1 << 7
	flagVoice            = 1 << 13
	referenceDefault     = 0
	referenceForward     = 1
)

// Channel types ("Channels Resource").
const (
	channelText          = 0
	channelDM            = 1
	channelVoice         = 2
	channelGroupDM       = 3
	channelCategory      = 4
	channelNews          = 5
	channelNewsThread    = 10
	channelPublicThread  = 11
	channelPrivateThread = 12
	channelStage         = 13
	channelDirectory     = 14
	channelForum         = 15
	channelMedia         = 16
)

type wireChannel struct {
	ID            string          `json:"id"`
	Type          int             `json:"type"`
	GuildID       string          `json:"guild_id"`
	ParentID      string          `json:"parent_id"`
	Name          string          `json:"name"`
	Topic         string          `json:"topic"`
	LastMessageID string          `json:"last_message_id"`
	Recipients    []wireUser      `json:"recipients"`
	Overwrites    []wireOverwrite `json:"permission_overwrites"`
	// Metadata is set for threads.
	Metadata struct {
		ArchivedAt string `json:"archive_timestamp"`
		Locked     bool   `json:"locked"`
	} `json:"thread_metadata"`
}

func (c wireChannel) isThread() bool {
	return c.Type == channelNewsThread || c.Type == channelPublicThread || c.Type == channelPrivateThread
}

func (c wireChannel) isDirect() bool { return c.Type == channelDM || c.Type == channelGroupDM }

// hasThreads reports whether threads can be created in the channel.
func (c wireChannel) hasThreads() bool {
	return c.Type == channelText || c.Type == channelNews || c.threadsOnly()
}

// threadsOnly reports whether messages exist only in the channel's threads. Its
// last message id is then that of a thread ("Threads", forum and media channel
// fields).
func (c wireChannel) threadsOnly() bool { return c.Type == channelForum || c.Type == channelMedia }

// isVoice reports whether the channel is for calls; it has messages too.
func (c wireChannel) isVoice() bool { return c.Type == channelVoice || c.Type == channelStage }

// hasNoMessages reports whether the channel only groups or lists others.
func (c wireChannel) hasNoMessages() bool {
	return c.Type == channelCategory || c.Type == channelDirectory
}

type wireOverwrite struct {
	ID    string `json:"id"`
	Allow string `json:"allow"`
	Deny  string `json:"deny"`
}

type wireRole struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Permissions string `json:"permissions"`
	Tags        struct {
		BotID string `json:"bot_id"`
	} `json:"tags"`
}

type wireGuild struct {
	ID          string        `json:"id"`
	Name        string        `json:"name"`
	OwnerID     string        `json:"owner_id"`
	Roles       []wireRole    `json:"roles"`
	Members     []wireMember  `json:"members"`
	Channels    []wireChannel `json:"channels"`
	Threads     []wireChannel `json:"threads"`
	Unavailable bool          `json:"unavailable"`
	// PremiumTier is the level of the server's boosts.
	PremiumTier int `json:"premium_tier"`
	// JoinedAt is when the bot joined.
	JoinedAt string `json:"joined_at"`
}

type wireReady struct {
	User        wireUser `json:"user"`
	SessionID   string   `json:"session_id"`
	ResumeURL   string   `json:"resume_gateway_url"`
	Application struct {
		ID string `json:"id"`
	} `json:"application"`
}

type wireDeletion struct {
	ID        string   `json:"id"`
	IDs       []string `json:"ids"`
	ChannelID string   `json:"channel_id"`
	GuildID   string   `json:"guild_id"`
}

type wireReaction struct {
	UserID    string    `json:"user_id"`
	ChannelID string    `json:"channel_id"`
	MessageID string    `json:"message_id"`
	GuildID   string    `json:"guild_id"`
	Emoji     wireEmoji `json:"emoji"`
}

// name returns the name of the file as it was uploaded. Discord's file names have only
// ASCII characters.
func (a wireAttachment) name() string {
	if a.Title == "" {
		return a.Filename
	}
	ending := path.Ext(a.Filename)
	return safeFilename(strings.TrimSuffix(a.Title, ending) + ending)
}

// name returns the display name: nickname, global name, or user name.
func (u wireUser) name(m *wireMember) string {
	switch {
	case m != nil && m.Nick != "":
		return m.Nick
	case u.GlobalName != "":
		return u.GlobalName
	}
	return u.Username
}

// text returns the emoji as the reaction routes expect it.
func (e wireEmoji) text() string {
	if e.ID == "" {
		return e.Name
	}
	return e.Name + ":" + e.ID
}

// nonceText returns the message's nonce as a string.
func (m wireMessage) nonceText() string {
	var s string
	if json.Unmarshal(m.Nonce, &s) == nil {
		return s
	}
	return string(m.Nonce)
}

// millis parses a time stamp into Unix milliseconds, 0 if it is invalid.
func millis(stamp string) int64 {
	t, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return 0
	}
	return t.UnixMilli()
}
