package discordtest

import (
	"encoding/json"
	"regexp"
	"slices"
	"time"
)

// Message is the current state of a message, with its history.
type Message struct {
	ID, ChannelID string
	Author        User
	Content       string
	// ReplyTo is the ID of the message that this message replies to, or empty.
	ReplyTo     string
	Nonce       string
	Attachments []Attachment
	Buttons     []Button
	Reactions   []Reaction
	// Pings are the IDs of the users that were notified when the message was created.
	Pings           []string
	Created, Edited time.Time
	// Deleted reports whether the message was deleted. [Observer.Messages] omits it then.
	Deleted bool
	// NoPreviews reports that Discord shows no previews of its links.
	NoPreviews bool
	// History holds the earlier contents, oldest first.
	History []string
	// Edits is the number of edits.
	Edits int
}

// Attachment is a file attached to a message.
type Attachment struct {
	ID, Name, ContentType, URL string
	Size                       int
	// Title is the name without its ending if Name lacks some of its characters.
	Title string
	// Description is the alt text.
	Description string
}

// Button is a button of a message.
type Button struct {
	ID, Label string
	Style     int
	Disabled  bool
}

// Reaction is an emoji on a message, with the IDs of the users who added it.
type Reaction struct {
	Emoji string
	Users []string
}

// message is the server's internal record of a message.
type message struct {
	Message
	kind            int
	flags           int
	components      json.RawMessage
	repliedPing     bool
	mentionEveryone bool
	oldEdits        []time.Time
	// starts is the message of another channel that a message of type 21 stands for.
	starts *message
	rich   rich
}

func (m *message) copied() Message {
	c := m.Message
	c.NoPreviews = m.flags&flagSuppressEmbeds != 0
	c.Attachments, c.Buttons = slices.Clone(c.Attachments), slices.Clone(c.Buttons)
	c.Pings, c.History = slices.Clone(c.Pings), slices.Clone(c.History)
	c.Reactions = slices.Clone(c.Reactions)
	for i := range c.Reactions {
		c.Reactions[i].Users = slices.Clone(c.Reactions[i].Users)
	}
	return c
}

func (c *channel) find(id string) *message {
	i, found := slices.BinarySearchFunc(c.messages, id, func(m *message, id string) int { return compareIDs(m.ID, id) })
	if !found || c.messages[i].Deleted {
		return nil
	}
	return c.messages[i]
}

var roleMention = regexp.MustCompile(`<@&(\d{1,20})>`)

// mentionedRoles returns the IDs of the guild's roles that a text mentions.
func (w *world) mentionedRoles(guildID, content string) []string {
	ids := []string{}
	for _, m := range roleMention.FindAllStringSubmatch(content, -1) {
		if g := w.guilds[guildID]; g != nil && !slices.Contains(ids, m[1]) {
			if _, exists := g.roles[m[1]]; exists {
				ids = append(ids, m[1])
			}
		}
	}
	return ids
}

var userMention = regexp.MustCompile(`<@!?(\d{1,20})>`)

// mentioned returns the users that a text mentions, in order and without duplicates.
func (w *world) mentioned(content string) (users []User) {
	for _, m := range userMention.FindAllStringSubmatch(content, -1) {
		if u, ok := w.users[m[1]]; ok && !slices.Contains(users, u) {
			users = append(users, u)
		}
	}
	return users
}

// Message types (Message Resource, "Message Types").
const (
	messageDefault = 0
	messageReply   = 19
	messageCommand = 20

	messageThreadStarter = 21

	flagSuppressEmbeds = 1 << 2
	flagHasThread      = 1 << 5 // Message Resource, "Message Flags"
)

// wireMessage encodes a message for the API. If content is false, the content fields are
// empty (Gateway, "Message Content Intent"), except in messages of the bot, messages that
// mention it, and direct messages.
func (s *core) wireMessage(c *channel, m *message, content, deep bool) object {
	w := &s.world
	mentions := w.mentioned(m.Content)
	var replied *message
	if m.ReplyTo != "" {
		if replied = c.find(m.ReplyTo); replied != nil && m.repliedPing && !slices.Contains(mentions, replied.Author) {
			mentions = append(mentions, replied.Author)
		}
	}
	content = content || m.Author == w.bot || c.kind == typeDM || slices.Contains(mentions, w.bot)
	o := object{
		"id": m.ID, "channel_id": c.id, "author": m.Author.wire(), "content": "", "timestamp": stamp(m.Created),
		"edited_timestamp": nil, "tts": false, "mention_everyone": m.mentionEveryone, "mention_roles": w.mentionedRoles(c.guild, m.Content),
		"attachments": []object{}, "embeds": []object{}, "components": []object{}, "pinned": false, "type": m.kind, "flags": m.flags,
	}
	named := []object{}
	for _, u := range mentions {
		named = append(named, u.wire())
	}
	o["mentions"] = named
	if !m.Edited.IsZero() {
		o["edited_timestamp"] = stamp(m.Edited)
	}
	if content {
		o["content"] = m.Content
		files := []object{}
		for _, a := range m.Attachments {
			files = append(files, s.wireAttachment(a))
		}
		o["attachments"] = files
		if len(m.components) > 0 {
			o["components"] = withIDs(m.components)
		}
		s.wireRich(o, m)
	}
	if m.rich.Webhook {
		o["webhook_id"] = m.Author.ID
		if m.rich.Proxy {
			o["application_id"] = m.Author.ID
		}
	}
	if len(m.Reactions) > 0 {
		list := []object{}
		for _, r := range m.Reactions {
			list = append(list, object{
				"count": len(r.Users), "count_details": object{"burst": 0, "normal": len(r.Users)}, "burst_colors": []string{},
				"me": slices.Contains(r.Users, w.bot.ID), "me_burst": false, "emoji": wireEmoji(r.Emoji),
			})
		}
		o["reactions"] = list
	}
	if m.ReplyTo != "" {
		ref := object{"type": 0, "channel_id": c.id, "message_id": m.ReplyTo}
		if c.guild != "" {
			ref["guild_id"] = c.guild
		}
		o["message_reference"] = ref
		if deep {
			o["referenced_message"] = nil
			if replied != nil {
				o["referenced_message"] = s.wireMessage(c, replied, content, false)
			}
		}
	}
	if m.starts != nil {
		o["message_reference"] = object{"type": 0, "channel_id": m.starts.ChannelID, "message_id": m.starts.ID, "guild_id": c.guild}
		if deep {
			o["referenced_message"] = s.wireMessage(s.world.in(m.starts.ChannelID), m.starts, content, false)
		}
	}
	return o
}
