package discord

import (
	"encoding/json"
	"strconv"
	"time"
)

// What we read of Discord's objects. Of what is not here nothing can be so odd
// that a message is lost because of it.

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
}

// wireMention is a user in the mentions of a message.
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
	ID          string `json:"id"`
	Filename    string `json:"filename"`
	ContentType string `json:"content_type"`
	Size        int64  `json:"size"`
	URL         string `json:"url"`
}

type wireMessage struct {
	ID          string           `json:"id"`
	ChannelID   string           `json:"channel_id"`
	GuildID     string           `json:"guild_id"`
	Author      wireUser         `json:"author"`
	Member      *wireMember      `json:"member"`
	Content     string           `json:"content"`
	Timestamp   string           `json:"timestamp"`
	Edited      string           `json:"edited_timestamp"`
	Type        int              `json:"type"`
	Flags       int              `json:"flags"`
	WebhookID   string           `json:"webhook_id"`
	Mentions    []wireMention    `json:"mentions"`
	Attachments []wireAttachment `json:"attachments"`
	Reference   *wireReference   `json:"message_reference"`
	Referenced  *wireMessage     `json:"referenced_message"`
	Snapshots   []struct {
		Message struct {
			Content     string           `json:"content"`
			Attachments []wireAttachment `json:"attachments"`
			Embeds      []wireEmbed      `json:"embeds"`
		} `json:"message"`
	} `json:"message_snapshots"`
	Stickers []struct {
		Name string `json:"name"`
	} `json:"sticker_items"`
	Embeds    []wireEmbed `json:"embeds"`
	Poll      *wirePoll   `json:"poll"`
	Reactions []struct {
		Count int       `json:"count"`
		Me    bool      `json:"me"`
		Emoji wireEmoji `json:"emoji"`
	} `json:"reactions"`
	// Nonce is a text or a number.
	Nonce json.RawMessage `json:"nonce"`
}

type wireEmoji struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Of the "Message Resource": the types of messages that people write (message
// types), one flag (message flags) and the type of a reply's reference (message
// reference types).
const (
	messageDefault   = 0
	messageReply     = 19
	messageCommand   = 20
	messageMenu      = 23
	flagEphemeral    = 1 << 6
	referenceDefault = 0
)

// The types of channels ("Channels Resource", channel types).
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
	LastMessageID string          `json:"last_message_id"`
	Recipients    []wireUser      `json:"recipients"`
	Overwrites    []wireOverwrite `json:"permission_overwrites"`
	// Metadata is that of a thread.
	Metadata struct {
		ArchivedAt string `json:"archive_timestamp"`
	} `json:"thread_metadata"`
}

func (c wireChannel) thread() bool {
	return c.Type == channelNewsThread || c.Type == channelPublicThread || c.Type == channelPrivateThread
}

func (c wireChannel) direct() bool { return c.Type == channelDM || c.Type == channelGroupDM }

// threaded reports whether it is one that has threads.
func (c wireChannel) threaded() bool {
	return c.Type == channelText || c.Type == channelNews || c.threadsOnly()
}

// threadsOnly reports whether nothing is said in it but in its threads; its
// last message is a thread then ("Threads", forum and media channel fields).
func (c wireChannel) threadsOnly() bool { return c.Type == channelForum || c.Type == channelMedia }

// voice reports whether people meet in it to speak; they can also write.
func (c wireChannel) voice() bool { return c.Type == channelVoice || c.Type == channelStage }

// empty reports whether nothing is said in it at all.
func (c wireChannel) empty() bool { return c.Type == channelCategory || c.Type == channelDirectory }

type wireOverwrite struct {
	ID    string `json:"id"`
	Allow string `json:"allow"`
	Deny  string `json:"deny"`
}

type wireRole struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Permissions string `json:"permissions"`
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
	// JoinedAt is when we came.
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

// name is what a person is called.
func (u wireUser) name(m *wireMember) string {
	switch {
	case m != nil && m.Nick != "":
		return m.Nick
	case u.GlobalName != "":
		return u.GlobalName
	}
	return u.Username
}

// text is the emoji as it is named in a reaction's address.
func (e wireEmoji) text() string {
	if e.ID == "" {
		return e.Name
	}
	return e.Name + ":" + e.ID
}

// nonce is the message's nonce as a text.
func (m wireMessage) nonce() string {
	var s string
	if json.Unmarshal(m.Nonce, &s) == nil {
		return s
	}
	return string(m.Nonce)
}

// millis reads a time stamp; zero when there is none.
func millis(stamp string) int64 {
	t, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return 0
	}
	return t.UnixMilli()
}

// discordEpoch is the first moment of Discord's ids ("API Reference", snowflakes).
const discordEpoch = 1420070400000

// idAt is the smallest id of a moment (Unix milliseconds).
func idAt(ms int64) string {
	return strconv.FormatInt(max(ms-discordEpoch, 0)<<22, 10)
}

// idBefore is the largest id that is smaller than one.
func idBefore(id string) string {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil || n == 0 {
		return id
	}
	return strconv.FormatUint(n-1, 10)
}

// madeAt is the moment of an id, zero when it is none.
func madeAt(id string) int64 {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return 0
	}
	return int64(n>>22) + discordEpoch
}

// laterID reports whether a is the id of something newer than b is.
func laterID(a, b string) bool { return len(a) > len(b) || len(a) == len(b) && a > b }

// snowflake reports whether a text can be an id of Discord.
func snowflake(id string) bool {
	n, err := strconv.ParseUint(id, 10, 64)
	return err == nil && n > 0
}
