package discordtest

import (
	"fmt"
	"slices"
)

// user makes an account; the server itself calls it before it serves.
func (s *Server) user(name string, bot bool) User {
	u := User{ID: s.mintLocked(), Name: name, Bot: bot}
	s.world.users[u.ID] = u
	return u
}

// Self is the bot's own account; its application has the same id.
func (s *Server) Self() User { return s.world.bot }

// Mention is how a text names a user.
func (u User) Mention() string { return "<@" + u.ID + ">" }

// User makes an account.
func (s *Server) User(name string) User {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.user(name, false)
}

// Guild makes a guild with the bot and these members; the first of them owns it.
func (s *Server) Guild(name string, members ...User) (guildID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := &guild{id: s.mintLocked(), name: name, members: make(map[string]*member), roles: make(map[string]Permission)}
	g.roles[g.id] = everyonePermissions
	for _, u := range append([]User{s.world.bot}, members...) {
		g.members[u.ID] = &member{user: u}
	}
	g.owner = g.id // nobody's
	if len(members) > 0 {
		g.owner = members[0].ID
	}
	s.world.guilds[g.id] = g
	s.dispatchLocked("GUILD_CREATE", nil, intentGuilds, intentGuilds, func(ss *session) object { return s.world.wireCreate(g, ss.intents) })
	return g.id
}

// Join brings a user into a guild, under a nickname unless it is empty.
func (s *Server) Join(guildID string, u User, nick string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &member{user: u, nick: nick}
	s.world.guildNamed(guildID).members[u.ID] = m
	s.dispatchLocked("GUILD_MEMBER_ADD", nil, intentMembers, intentMembers, func(*session) object {
		o := m.wire()
		o["guild_id"] = guildID
		return o
	})
}

// Rename gives a member another nickname.
func (s *Server) Rename(guildID, userID, nick string) {
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

// Role makes a role with permissions and gives it to members.
func (s *Server) Role(guildID string, p Permission, userIDs ...string) (roleID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.world.guildNamed(guildID)
	id := s.mintLocked()
	g.roles[id] = p
	for _, u := range userIDs {
		g.members[u].roles = append(g.members[u].roles, id)
	}
	return id
}

// Channel makes a text channel.
func (s *Server) Channel(guildID, name string) (channelID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.world.guildNamed(guildID)
	return s.openLocked(&channel{guild: g.id, name: name, kind: typeText}, "CHANNEL_CREATE")
}

// Thread makes a public thread in a channel.
func (s *Server) Thread(parentID, name string) (channelID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	parent := s.world.in(parentID)
	return s.openLocked(&channel{guild: parent.guild, parent: parent.id, name: name, kind: typeThread}, "THREAD_CREATE")
}

func (s *Server) openLocked(c *channel, event string) string {
	c.id, c.denied, c.roles = s.mintLocked(), make(map[string]Permission), make(map[string]bool)
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

// DM is the private conversation with a user.
func (s *Server) DM(u User) (channelID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.directLocked(u).id
}

func (s *Server) directLocked(u User) *channel {
	for _, c := range s.world.channels {
		if c.kind == typeDM && c.recipient == u {
			return c
		}
	}
	c := &channel{id: s.mintLocked(), kind: typeDM, recipient: u}
	s.world.channels[c.id] = c
	return c
}

// RenameChannel gives a channel or thread another name.
func (s *Server) RenameChannel(channelID, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.world.in(channelID)
	c.name = name
	s.dispatchLocked(c.event("UPDATE"), c, intentGuilds, intentGuilds, func(*session) object { return c.wire() })
}

// DeleteChannel removes a channel or thread.
func (s *Server) DeleteChannel(channelID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.world.in(channelID)
	s.dispatchLocked(c.event("DELETE"), c, intentGuilds, intentGuilds, func(*session) object { return c.wire() })
	c.deleted = true
}

func (c *channel) event(what string) string {
	if c.kind == typeThread {
		return "THREAD_" + what
	}
	return "CHANNEL_" + what
}

// Deny takes permissions in a channel away from a user or a role (everybody's
// has the guild's id); Permit gives them back.
func (s *Server) Deny(channelID, whoseID string, p Permission) {
	s.overwrite(channelID, whoseID, func(old Permission) Permission { return old | p })
}

// Permit takes back a Deny.
func (s *Server) Permit(channelID, whoseID string, p Permission) {
	s.overwrite(channelID, whoseID, func(old Permission) Permission { return old &^ p })
}

func (s *Server) overwrite(channelID, whoseID string, change func(Permission) Permission) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.world.in(channelID)
	c.denied[whoseID] = change(c.denied[whoseID])
	_, c.roles[whoseID] = s.world.guilds[c.guild].roles[whoseID]
	s.dispatchLocked("CHANNEL_UPDATE", c, intentGuilds, intentGuilds, func(*session) object { return c.wire() })
}

// File is a file that a person attaches.
type File struct {
	Name, ContentType string
	Data              []byte
}

// SayOptions say more of a message than its text.
type SayOptions struct {
	// ReplyTo is a message of the channel; its author is pinged unless NoPing.
	ReplyTo string
	NoPing  bool
	Files   []File
}

// Say has somebody write into a channel. Mention the bot with
// [User.Mention] in the text.
func (s *Server) Say(channelID string, u User, text string, o SayOptions) (messageID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.world.in(channelID)
	if c.kind != typeDM && s.world.guilds[c.guild].members[u.ID] == nil {
		panic(fmt.Sprintf("discordtest: %s is not in the guild of channel %s", u.Name, channelID))
	}
	m := &message{Message: Message{ID: s.mintLocked(), ChannelID: c.id, Author: u, Content: text, ReplyTo: o.ReplyTo, Created: s.o.Now()}}
	if o.ReplyTo != "" {
		m.kind, m.repliedPing = messageReply, !o.NoPing
	}
	for _, f := range o.Files {
		m.Attachments = append(m.Attachments, s.storeLocked(c.id, f.Name, f.ContentType, f.Data))
	}
	s.addLocked(c, m)
	return m.ID
}

// Edit has the author change a message.
func (s *Server) Edit(channelID, messageID, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.world.in(channelID)
	m := c.mustFind(messageID)
	m.History = append(slices.Clip(m.History), m.Content)
	m.Content, m.Edited, m.Edits = text, s.o.Now(), m.Edits+1
	s.tellEditLocked(c, m)
}

// Delete removes messages: one, or several at once as moderators do.
func (s *Server) Delete(channelID string, messageIDs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.world.in(channelID)
	if len(messageIDs) == 1 {
		s.deleteLocked(c, c.mustFind(messageIDs[0]))
		return
	}
	s.bulkDeleteLocked(c, messageIDs)
}

// React puts a user's emoji under a message; Unreact takes it away.
func (s *Server) React(channelID, messageID string, u User, emoji string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.world.in(channelID)
	s.reactLocked(c, c.mustFind(messageID), u, emoji)
}

// Unreact takes back a React.
func (s *Server) Unreact(channelID, messageID string, u User, emoji string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.world.in(channelID)
	s.unreactLocked(c, c.mustFind(messageID), u, emoji)
}

// Type shows that somebody types.
func (s *Server) Type(channelID string, u User) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tellTypingLocked(s.world.in(channelID), u)
}

// Leave takes a member out of a guild; the bot itself hears of it as the end of
// the guild.
func (s *Server) Leave(guildID string, u User) {
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
