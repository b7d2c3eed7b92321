package discordtest

import (
	"encoding/json"
	"regexp"
	"slices"
	"time"
)

// Message is what a message shows now, and how it came to be.
type Message struct {
	ID, ChannelID string
	Author        User
	Content       string
	// ReplyTo is the id of the message it replies to.
	ReplyTo     string
	Nonce       string
	Attachments []Attachment
	Buttons     []Button
	Reactions   []Reaction
	// Pings are the users whom its creation notified.
	Pings           []string
	Created, Edited time.Time
	// Deleted says that it is gone; [Server.Messages] leaves it out.
	Deleted bool
	// History holds what it showed before each edit, oldest first.
	History []string
	// Edits is how often it was edited.
	Edits int
}

// Attachment is a file on a message.
type Attachment struct {
	ID, Name, ContentType, URL string
	Size                       int
}

// Button is a button under a message.
type Button struct {
	ID, Label string
	Style     int
	Disabled  bool
}

// Reaction is an emoji under a message and who put it there.
type Reaction struct {
	Emoji string
	Users []string
}

// message is the server's own copy of one.
type message struct {
	Message
	kind            int
	flags           int
	components      json.RawMessage
	repliedPing     bool
	mentionEveryone bool
	oldEdits        []time.Time
}

func (m *message) copied() Message {
	c := m.Message
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

var userMention = regexp.MustCompile(`<@!?(\d{1,20})>`)

// mentioned lists the users whom a text names, in order.
func (w *world) mentioned(content string) (users []User) {
	for _, m := range userMention.FindAllStringSubmatch(content, -1) {
		if u, ok := w.users[m[1]]; ok && !slices.Contains(users, u) {
			users = append(users, u)
		}
	}
	return users
}

// The types of messages (Message Resource, "Message Types").
const (
	messageDefault = 0
	messageReply   = 19
	messageCommand = 20
)

// wireMessage is a message as the API shows it. Without content (Gateway,
// "Message Content Intent") the fields that hold it are empty, but for what the
// bot wrote, what mentions it and what is private.
func (s *Server) wireMessage(c *channel, m *message, content, deep bool) object {
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
		"edited_timestamp": nil, "tts": false, "mention_everyone": m.mentionEveryone, "mention_roles": []string{},
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
	return o
}
