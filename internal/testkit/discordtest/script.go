package discordtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// user creates an account. The caller holds s.mu, except before the server accepts
// requests.
func (s *core) user(name string, bot bool) User {
	u := User{ID: s.mintLocked(), Name: name, Bot: bot}
	s.world.users[u.ID] = u
	return u
}

// Self returns the bot's own account. Its application has the same ID.
func (s World) Self() User { return s.world.bot }

// Mention returns the text that mentions the user.
func (u User) Mention() string { return "<@" + u.ID + ">" }

// User creates an account.
func (s World) User(name string) User {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.user(name, false)
}

// Guild creates a guild with the bot and the given members. The first member owns it.
func (s World) Guild(name string, members ...User) (guildID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := &guild{id: s.mintLocked(), name: name, members: make(map[string]*member), roles: make(map[string]Permission), titles: make(map[string]string)}
	g.roles[g.id] = everyonePermissions
	for _, u := range append([]User{s.world.bot}, members...) {
		g.members[u.ID] = &member{user: u, joined: time.Now()}
	}
	g.owner = g.id // no user owns the guild
	if len(members) > 0 {
		g.owner = members[0].ID
	}
	s.world.guilds[g.id] = g
	s.dispatchLocked("GUILD_CREATE", nil, intentGuilds, intentGuilds, func(ss *session) object { return s.world.wireCreate(g, ss.intents) })
	return g.id
}

// Join adds a user to a guild, with a nickname unless nick is empty. If the bot itself
// joins, it receives GUILD_CREATE.
func (s World) Join(guildID string, u User, nick string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, g := &member{user: u, nick: nick, joined: time.Now()}, s.world.guildNamed(guildID)
	g.members[u.ID] = m
	if u == s.world.bot {
		s.dispatchLocked("GUILD_CREATE", nil, intentGuilds, intentGuilds, func(ss *session) object { return s.world.wireCreate(g, ss.intents) })
		return
	}
	s.dispatchLocked("GUILD_MEMBER_ADD", nil, intentMembers, intentMembers, func(*session) object {
		o := m.wire()
		o["guild_id"] = guildID
		return o
	})
}

// Rename changes a member's nickname.
func (s World) Rename(guildID, userID, nick string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.world.memberOf(guildID, userID)
	if err != nil {
		panic("discordtest: " + err.Error())
	}
	m.nick = nick
	s.dispatchLocked("GUILD_MEMBER_UPDATE", nil, intentMembers, intentMembers, func(*session) object {
		o := m.wire()
		o["guild_id"] = guildID
		return o
	})
}

// TimeOut takes a member's permissions away until a time.
func (s World) TimeOut(guildID, userID string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.world.memberOf(guildID, userID)
	if err != nil {
		panic("discordtest: " + err.Error())
	}
	m.timedOut = until
}

// Role creates a role with permissions and assigns it to members.
func (s World) Role(guildID string, p Permission, userIDs ...string) (roleID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.world.guildNamed(guildID)
	id := s.mintLocked()
	g.roles[id] = p
	for _, u := range userIDs {
		g.members[u].roles = append(g.members[u].roles, id)
	}
	s.dispatchLocked("GUILD_ROLE_CREATE", nil, intentGuilds, intentGuilds, func(*session) object {
		return object{"guild_id": g.id, "role": object{"id": id, "permissions": p.String()}}
	})
	return id
}

// NameRole gives a role a name.
func (s World) NameRole(guildID, roleID, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.world.guildNamed(guildID)
	g.titles[roleID] = name
	s.dispatchLocked("GUILD_ROLE_UPDATE", nil, intentGuilds, intentGuilds, func(*session) object {
		return object{"guild_id": g.id, "role": object{"id": roleID, "name": name, "permissions": g.roles[roleID].String()}}
	})
}

// Boost sets the level of a guild's boosts.
func (s World) Boost(guildID string, tier int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.world.guildNamed(guildID)
	g.tier = tier
	s.dispatchLocked("GUILD_UPDATE", nil, intentGuilds, intentGuilds, func(*session) object { return g.wire(s.world.bot) })
}

// ManagedRole creates the role that Discord manages for the bot in a guild.
func (s World) ManagedRole(guildID string) (roleID string) {
	id := s.Role(guildID, 0, s.Self().ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.world.guildNamed(guildID).managed = id
	return id
}

// AllowMessageContent enables the message content intent, as in the developer portal.
func (s World) AllowMessageContent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.o.WithoutMessageContent = false
}

// Channel creates a text channel.
func (s World) Channel(guildID, name string) (channelID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.world.guildNamed(guildID)
	return s.openLocked(&channel{guild: g.id, name: name, kind: typeText}, "CHANNEL_CREATE")
}

// Voice creates a voice channel, which also accepts text messages.
func (s World) Voice(guildID, name string) (channelID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.world.guildNamed(guildID)
	return s.openLocked(&channel{guild: g.id, name: name, kind: typeVoice}, "CHANNEL_CREATE")
}

// Forum creates a forum channel, which contains only threads.
func (s World) Forum(guildID, name string) (channelID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.world.guildNamed(guildID)
	return s.openLocked(&channel{guild: g.id, name: name, kind: typeForum}, "CHANNEL_CREATE")
}

// Thread creates a public thread in a channel.
func (s World) Thread(parentID, name string) (channelID string) {
	return s.thread(parentID, name, typeThread)
}

// PrivateThread creates a private thread in a channel. The bot is a member of it.
func (s World) PrivateThread(parentID, name string) (channelID string) {
	return s.thread(parentID, name, typePrivateThread)
}

func (s World) thread(parentID, name string, kind int) (channelID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	parent := s.world.in(parentID)
	return s.openLocked(&channel{guild: parent.guild, parent: parent.id, name: name, kind: kind}, "THREAD_CREATE")
}

// Post creates a thread in a forum together with its first message. Both have the same ID
// (Threads, "Creating Threads in Forum and Media Channels").
func (s World) Post(forumID string, u User, title, text string) (channelID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	forum := s.world.in(forumID)
	id := s.openLocked(&channel{guild: forum.guild, parent: forum.id, name: title, kind: typeThread}, "THREAD_CREATE")
	forum.last = id
	s.addLocked(s.world.in(id), &message{Message: Message{ID: id, ChannelID: id, Author: u, Content: text, Created: s.o.Now()}})
	return id
}

// ThreadFrom creates a thread from a message. The thread has the message's ID, and begins
// with a message of type 21 that refers to that message (Threads, "Public Threads" and
// Message Resource, "Message Types").
func (s World) ThreadFrom(channelID, messageID, name string) (threadID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	parent := s.world.in(channelID)
	m := parent.mustFind(messageID)
	id := s.openLocked(&channel{id: messageID, guild: parent.guild, parent: parent.id, name: name, kind: typeThread}, "THREAD_CREATE")
	m.flags |= flagHasThread
	s.tellEditLocked(parent, m)
	s.addLocked(s.world.in(id), &message{
		Message: Message{ID: s.mintLocked(), ChannelID: id, Author: m.Author, Created: s.o.Now()}, kind: messageThreadStarter, starts: m,
	})
	return id
}

func (s *core) openLocked(c *channel, event string) string {
	c.id, c.overwrites, c.archivedAt = cmp.Or(c.id, s.mintLocked()), make(map[string]overwrite), s.o.Now()
	s.world.channels[c.id] = c
	s.dispatchLocked(event, c, intentGuilds, intentGuilds, func(*session) object {
		o := c.wire()
		if event == "THREAD_CREATE" {
			o["newly_created"] = true
		}
		return o
	})
	return c.id
}

// DM returns the bot's direct message channel with a user and creates it if necessary.
func (s World) DM(u User) (channelID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.directLocked(u).id
}

func (s *core) directLocked(u User) *channel {
	for _, c := range s.world.channels {
		if c.kind == typeDM && c.recipient == u {
			return c
		}
	}
	c := &channel{id: s.mintLocked(), kind: typeDM, recipient: u}
	s.world.channels[c.id] = c
	return c
}

// RenameChannel changes the name of a channel or thread.
func (s World) RenameChannel(channelID, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.world.in(channelID)
	c.name = name
	s.dispatchLocked(c.event("UPDATE"), c, intentGuilds, intentGuilds, func(*session) object { return c.wire() })
}

// Archive archives a thread. A new message unarchives it (Channels Resource, "Thread
// Metadata Object", and Threads, "Active & Archived Threads").
func (s World) Archive(threadID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.archiveLocked(s.world.in(threadID), true)
}

// Lock locks a thread or unlocks it. Only members with MANAGE_THREADS may write in a locked
// thread; Discord refuses others with the error of an archived one.
func (s World) Lock(threadID string, locked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.world.in(threadID)
	c.locked = locked
	s.dispatchLocked("THREAD_UPDATE", c, intentGuilds, intentGuilds, func(*session) object { return c.wire() })
}

func (s *core) archiveLocked(c *channel, archived bool) {
	c.archived, c.archivedAt = archived, s.o.Now()
	s.dispatchLocked("THREAD_UPDATE", c, intentGuilds, intentGuilds, func(*session) object { return c.wire() })
}

// DeleteChannel deletes a thread, or a channel with its threads.
func (s World) DeleteChannel(channelID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.world.in(channelID)
	s.dispatchLocked(c.event("DELETE"), c, intentGuilds, intentGuilds, func(*session) object { return c.wire() })
	c.deleted = true
	for _, t := range s.world.channels { // "Threads": deleting a channel deletes its threads, without an event for each
		t.deleted = t.deleted || t.parent == c.id
	}
}

func (c *channel) event(what string) string {
	if c.thread() {
		return "THREAD_" + what
	}
	return "CHANNEL_" + what
}

// SetTopic changes the topic of a channel, or the guidelines of a forum.
func (s World) SetTopic(channelID, topic string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.world.in(channelID)
	c.topic = topic
	s.dispatchLocked("CHANNEL_UPDATE", c, intentGuilds, intentGuilds, func(*session) object { return c.wire() })
}

// Deny denies permissions in a channel to a user or a role; the guild's ID stands for
// @everyone. [World.Allow] grants permissions there, and [World.Permit] removes both
// overwrites.
func (s World) Deny(channelID, whoseID string, p Permission) {
	s.overwrite(channelID, whoseID, func(o *overwrite) { o.allow, o.deny = o.allow&^p, o.deny|p })
}

// Allow grants permissions in a channel; see [World.Deny].
func (s World) Allow(channelID, whoseID string, p Permission) {
	s.overwrite(channelID, whoseID, func(o *overwrite) { o.allow, o.deny = o.allow|p, o.deny&^p })
}

// Permit removes denied and granted permissions in a channel; see [World.Deny].
func (s World) Permit(channelID, whoseID string, p Permission) {
	s.overwrite(channelID, whoseID, func(o *overwrite) { o.allow, o.deny = o.allow&^p, o.deny&^p })
}

func (s World) overwrite(channelID, whoseID string, change func(*overwrite)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.world.in(channelID)
	o := c.overwrites[whoseID]
	change(&o)
	_, o.role = s.world.guilds[c.guild].roles[whoseID]
	c.overwrites[whoseID] = o
	s.dispatchLocked("CHANNEL_UPDATE", c, intentGuilds, intentGuilds, func(*session) object { return c.wire() })
}

// File is a file that a user attaches to a message.
type File struct {
	Name, ContentType string
	// Description is the alt text.
	Description string
	Data        []byte
}

// SayOptions are optional properties of a message.
type SayOptions struct {
	// ReplyTo is the ID of a message in the same channel. The reply pings its author
	// unless NoPing is set.
	ReplyTo string
	NoPing  bool
	Files   []File
	Rich
}

// Say posts a message by a user into a channel. To mention the bot, put [User.Mention]
// into the text.
func (s Script) Say(channelID string, u User, text string, o SayOptions) (messageID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.world.in(channelID)
	if c.kind != typeDM && !o.Webhook && s.world.guilds[c.guild].members[u.ID] == nil {
		panic(fmt.Sprintf("discordtest: %s is not in the guild of channel %s", u.Name, channelID))
	}
	m := &message{Message: Message{ID: s.mintLocked(), ChannelID: c.id, Author: u, Content: text, ReplyTo: o.ReplyTo, Created: s.o.Now()}}
	if o.ReplyTo != "" {
		m.kind, m.repliedPing = messageReply, !o.NoPing
	}
	for _, f := range o.Files {
		m.Attachments = append(m.Attachments, f.uploadLocked(s.core, c.id))
	}
	m.rich = s.enrichLocked(m, o.Rich)
	s.addLocked(c, m)
	return m.ID
}

// Edit changes the text of a message on behalf of its author.
func (s Script) Edit(channelID, messageID, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.world.in(channelID)
	m := c.mustFind(messageID)
	m.History = append(slices.Clip(m.History), m.Content)
	m.Content, m.Edited, m.Edits = text, s.o.Now(), m.Edits+1
	s.tellEditLocked(c, m)
}

// EditPart is like Edit, but the event has only what identifies the message and what changed, as
// those of Discord may.
func (s Script) EditPart(channelID, messageID, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.world.in(channelID)
	m := c.mustFind(messageID)
	m.History = append(slices.Clip(m.History), m.Content)
	m.Content, m.Edited, m.Edits = text, s.o.Now(), m.Edits+1
	s.dispatchLocked("MESSAGE_UPDATE", c, intentGuildMessages, intentDirectMessages, func(ss *session) object {
		whole, part := s.wireEvent(c, m, ss, false), object{}
		for _, key := range []string{"id", "channel_id", "guild_id", "content", "edited_timestamp"} {
			if v, ok := whole[key]; ok {
				part[key] = v
			}
		}
		return part
	})
}

// Delete deletes one message, or several with a bulk delete as moderators do.
func (s Script) Delete(channelID string, messageIDs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.world.in(channelID)
	if len(messageIDs) == 1 {
		s.deleteLocked(c, c.mustFind(messageIDs[0]))
		return
	}
	s.bulkDeleteLocked(c, messageIDs)
}

// React adds a user's reaction to a message.
func (s Script) React(channelID, messageID string, u User, emoji string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.world.in(channelID)
	s.reactLocked(c, c.mustFind(messageID), u, emoji)
}

// Unreact removes a user's reaction.
func (s Script) Unreact(channelID, messageID string, u User, emoji string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.world.in(channelID)
	s.unreactLocked(c, c.mustFind(messageID), u, emoji)
}

// ClearReactions removes all reactions with an emoji, or all reactions if emoji is empty.
func (s Script) ClearReactions(channelID, messageID, emoji string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.world.in(channelID)
	m := c.mustFind(messageID)
	m.Reactions = slices.DeleteFunc(m.Reactions, func(r Reaction) bool { return emoji == "" || r.Emoji == emoji })
	kind := "MESSAGE_REACTION_REMOVE_ALL"
	if emoji != "" {
		kind = "MESSAGE_REACTION_REMOVE_EMOJI"
	}
	s.dispatchLocked(kind, c, intentGuildReactions, intentDirectReactions, func(*session) object {
		o := c.refer(object{"message_id": m.ID})
		if emoji != "" {
			o["emoji"] = wireEmoji(emoji)
		}
		return o
	})
}

// Type sends a typing indicator for a user.
func (s Script) Type(channelID string, u User) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tellTypingLocked(s.world.in(channelID), u)
}

// Tell sends an arbitrary event to every session, unmodified. Tests use it for events
// that the fake cannot produce and for malformed ones. Data must be valid JSON.
func (s Script) Tell(kind string, data json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ss := range s.sessionsLocked() {
		ss.appendRaw(kind, data)
	}
	s.notifyLocked()
}

// Leave removes a member from a guild. If the bot itself leaves, it receives
// GUILD_DELETE.
func (s World) Leave(guildID string, u User) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.world.guildNamed(guildID).members, u.ID)
	if u == s.world.bot {
		s.dispatchLocked("GUILD_DELETE", nil, intentGuilds, intentGuilds, func(*session) object { return object{"id": guildID} })
		return
	}
	s.dispatchLocked("GUILD_MEMBER_REMOVE", nil, intentMembers, intentMembers, func(*session) object {
		return object{"guild_id": guildID, "user": u.wire()}
	})
}

func (c *channel) mustFind(id string) *message {
	m := c.find(id)
	if m == nil {
		panic("discordtest: no message " + id)
	}
	return m
}
