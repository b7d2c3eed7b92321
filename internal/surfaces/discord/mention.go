package discord

import (
	"context"
	"slices"
	"strings"
	"sync"

	"lilac/internal/core/surface"
)

// mentionsBot reports whether a message mentions the bot: its own content
// contains the bot's literal id and Discord lists the bot as mentioned, or it
// contains the bot's managed role. Forwards, polls, embeds, and code do not
// count, and neither does the ping of a reply, which is only in Discord's list.
// The error says that the role could not be read.
func (r *recorder) mentionsBot(ctx context.Context, m wireMessage, guildID string) (bool, error) {
	self, content := r.status.selfID(), withoutCode(m.Content)
	if self == "" {
		return false, nil
	}
	if strings.Contains(content, "<@"+self+">") || strings.Contains(content, "<@!"+self+">") {
		if slices.ContainsFunc(m.Mentions, func(u wireMention) bool { return u.ID == self }) {
			return true, nil
		}
	}
	if guildID == "" || len(m.MentionRoles) == 0 || !strings.Contains(content, "<@&") {
		return false, nil
	}
	role, err := r.directory.managedRole(ctx, guildID, self)
	return role != "" && slices.Contains(m.MentionRoles, role) && strings.Contains(content, "<@&"+role+">"), err
}

// withoutRole replaces the mentions of the bot's managed role by mentions of the bot: people choose
// the role by mistake, because it has the bot's name.
func (r *recorder) withoutRole(content, guildID string) string {
	role, _ := r.directory.roles.get(guildID)
	if role == "" {
		return content
	}
	return strings.ReplaceAll(content, "<@&"+role+">", "<@"+r.status.selfID()+">")
}

// addsMention reports whether an edited message mentions the bot and did not
// before. An unknown earlier version counts as one without the mention.
func (r *recorder) addsMention(ctx context.Context, in *incoming) bool {
	if !in.updated || !in.facts.MentionsBot {
		return false
	}
	before, err := r.history.cached(ctx, in.m.ChannelID, in.m.ID)
	if err != nil {
		return true // the router checks whether it was handled
	}
	facts, ok := surface.FactsOf(Platform, before.Raw)
	return !ok || !facts.MentionsBot
}

// withoutCode removes fenced and inline code from Discord's Markdown: a run of
// backticks up to the next run of the same length. Runs of three and more are
// fences, which end at any run of three and more. An unclosed run is text.
func withoutCode(content string) string {
	var out strings.Builder
	for {
		start := strings.IndexByte(content, '`')
		if start < 0 {
			out.WriteString(content)
			return out.String()
		}
		out.WriteString(content[:start])
		content = content[start:]
		length := backticks(content)
		if strings.HasSuffix(out.String(), `\`) { // an escaped backtick opens no code
			out.WriteString(content[:1])
			content = content[1:]
			continue
		}
		end := closingRun(content[length:], length)
		if end < 0 {
			out.WriteString(content[:length])
			content = content[length:]
			continue
		}
		content = content[length+end:]
	}
}

// closingRun returns the offset after the run that closes a run of a length, -1
// if there is none.
func closingRun(s string, length int) int {
	for at := 0; ; {
		next := strings.IndexByte(s[at:], '`')
		if next < 0 {
			return -1
		}
		at += next
		n := backticks(s[at:])
		at += n
		if n == length || n >= 3 && length >= 3 {
			return at
		}
	}
}

// backticks counts the backticks at the start of s.
func backticks(s string) int { return len(s) - len(strings.TrimLeft(s, "`")) }

// roleCache remembers the bot's managed role of each server, "" for none. It is
// safe for concurrent use.
type roleCache struct {
	mu    sync.Mutex
	roles map[string]string
}

func (c *roleCache) get(guildID string) (role string, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	role, known = c.roles[guildID]
	return role, known
}

func (c *roleCache) put(guildID, role string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.roles[guildID] = role
}

func (c *roleCache) forget(guildID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.roles, guildID)
}

// managedRole returns the role that Discord created for the bot in a server, ""
// if there is none.
func (d *directory) managedRole(ctx context.Context, guildID, self string) (string, error) {
	if role, known := d.roles.get(guildID); known {
		return role, nil
	}
	var g wireGuild
	if err := d.client.get(ctx, getGuild.with(guildID), &g); err != nil {
		return "", err
	}
	role := g.managedRole(self)
	d.roles.put(guildID, role)
	return role, nil
}

// managedRole returns the role whose tags name the bot ("Permissions", role
// tags structure).
func (g wireGuild) managedRole(self string) string {
	for _, r := range g.Roles {
		if r.Tags.BotID == self {
			return r.ID
		}
	}
	return ""
}
