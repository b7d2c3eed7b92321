package discordtest

import (
	"slices"
	"strings"
	"unicode"
)

// wireEmoji encodes an emoji for reactions. A custom emoji has the form name:id.
func wireEmoji(emoji string) object {
	if name, id, custom := strings.Cut(emoji, ":"); custom {
		return object{"id": id, "name": name}
	}
	return object{"id": nil, "name": emoji}
}

// emoji parses the emoji in the path. It returns false if the emoji is not valid.
func (c *call) emoji() (string, bool) {
	emoji := strings.TrimSuffix(strings.TrimPrefix(c.path("emoji"), "<:"), ">")
	if name, id, custom := strings.Cut(emoji, ":"); custom {
		_, fine := snowflake(id)
		return emoji, fine && name != ""
	}
	for _, r := range emoji {
		if r < unicode.MaxASCII && !strings.ContainsRune("0123456789#*", r) {
			return "", false
		}
	}
	return emoji, emoji != ""
}

// react implements Message, "Create Reaction". It needs READ_MESSAGE_HISTORY, and also
// ADD_REACTIONS if the message does not have that emoji yet.
func react(c *call) answer {
	ch, m, a, fine := c.needMessage(ReadMessageHistory)
	if !fine {
		return a
	}
	emoji, fine := c.emoji()
	switch {
	case !fine:
		return unknownEmoji
	case ch.archived:
		return threadArchived
	case c.lockedOut(ch):
		return threadLocked
	}
	bot := c.s.world.bot
	first := !slices.ContainsFunc(m.Reactions, func(r Reaction) bool { return r.Emoji == emoji })
	if first && c.s.world.permissions(ch, bot.ID)&AddReactions == 0 {
		return missingPermissions
	}
	c.touched = m
	c.s.reactLocked(ch, m, bot, emoji)
	return done
}

func unreact(c *call) answer {
	ch, m, a, fine := c.needMessage(ReadMessageHistory)
	if !fine {
		return a
	}
	emoji, fine := c.emoji()
	if !fine {
		return unknownEmoji
	}
	c.touched = m
	c.s.unreactLocked(ch, m, c.s.world.bot, emoji)
	return done
}

func listReactions(c *call) answer {
	_, m, a, fine := c.needMessage(ReadMessageHistory)
	if !fine {
		return a
	}
	emoji, fine := c.emoji()
	if !fine {
		return unknownEmoji
	}
	users := []object{}
	for _, r := range m.Reactions {
		for _, id := range r.Users {
			if r.Emoji == emoji {
				users = append(users, c.s.world.users[id].wire())
			}
		}
	}
	return ok(users)
}

func (s *core) reactLocked(ch *channel, m *message, u User, emoji string) {
	i := slices.IndexFunc(m.Reactions, func(r Reaction) bool { return r.Emoji == emoji })
	if i < 0 {
		i = len(m.Reactions)
		m.Reactions = append(m.Reactions, Reaction{Emoji: emoji})
	}
	if slices.Contains(m.Reactions[i].Users, u.ID) {
		return
	}
	m.Reactions[i].Users = append(m.Reactions[i].Users, u.ID)
	s.tellReactionLocked("MESSAGE_REACTION_ADD", ch, m, u, emoji)
}

func (s *core) unreactLocked(ch *channel, m *message, u User, emoji string) {
	for i := range m.Reactions {
		r := &m.Reactions[i]
		if at := slices.Index(r.Users, u.ID); r.Emoji == emoji && at >= 0 {
			r.Users = slices.Delete(r.Users, at, at+1)
			if len(r.Users) == 0 {
				m.Reactions = slices.Delete(m.Reactions, i, i+1)
			}
			s.tellReactionLocked("MESSAGE_REACTION_REMOVE", ch, m, u, emoji)
			return
		}
	}
}

func (s *core) tellReactionLocked(kind string, ch *channel, m *message, u User, emoji string) {
	s.dispatchLocked(kind, ch, intentGuildReactions, intentDirectReactions, func(*session) object {
		o := ch.refer(object{"user_id": u.ID, "message_id": m.ID, "emoji": wireEmoji(emoji), "burst": false, "type": 0})
		if kind == "MESSAGE_REACTION_ADD" {
			o["message_author_id"], o["burst_colors"] = m.Author.ID, []string{}
			if ch.guild != "" {
				if mem := s.world.guilds[ch.guild].members[u.ID]; mem != nil {
					o["member"] = mem.wire()
				}
			}
		}
		return o
	})
}

// typing implements Channel, "Trigger Typing Indicator".
func typing(c *call) answer {
	ch, a, fine := c.need(SendMessages)
	if !fine {
		return a
	}
	c.s.tellTypingLocked(ch, c.s.world.bot)
	return done
}

func (s *core) tellTypingLocked(ch *channel, u User) {
	s.dispatchLocked("TYPING_START", ch, intentGuildTyping, intentDirectTyping, func(*session) object {
		o := ch.refer(object{"user_id": u.ID, "timestamp": s.o.Now().Unix()})
		if ch.guild != "" {
			o["member"] = s.world.guilds[ch.guild].members[u.ID].wire()
		}
		return o
	})
}
