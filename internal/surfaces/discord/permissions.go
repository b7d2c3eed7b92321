package discord

import (
	"slices"
	"strconv"

	"lilac/internal/core/surface"
)

// The permissions that decide what the bot can see ("Permissions", bitwise
// permission flags).
const (
	permissionAdministrator = 1 << 3
	permissionView          = 1 << 10
	permissionSend          = 1 << 11
	permissionHistory       = 1 << 16
	permissionConnect       = 1 << 20
	permissionThreads       = 1 << 38
)

// visibility says how much of a channel the bot can see and do.
type visibility struct {
	// hidden reports that the bot cannot see the channel; noHistory, that it
	// cannot read earlier messages.
	hidden, noHistory bool
	// muted reports that the bot sees the channel and cannot write in it;
	// threadsMuted, that it cannot write in its threads.
	muted, threadsMuted bool
}

// applyTo stores what the session of a channel keeps of it.
func (v visibility) applyTo(s *surface.Session) {
	s.Hidden, s.Muted, s.ThreadsMuted = v.hidden, v.muted, v.threadsMuted
}

// visibilityOf computes the bot's visibility of a channel. A thread has the
// permissions of its parent. Without information, everything is possible.
func (g wireGuild) visibilityOf(self string, c wireChannel) visibility {
	me := slices.IndexFunc(g.Members, func(m wireMember) bool { return m.User != nil && m.User.ID == self })
	if me < 0 || len(g.Roles) == 0 {
		return visibility{}
	}
	if c.isThread() {
		i := slices.IndexFunc(g.Channels, func(o wireChannel) bool { return o.ID == c.ParentID })
		if i < 0 {
			return visibility{}
		}
		c = g.Channels[i]
	}
	have := effectivePermissions(g, g.Members[me], self, c)
	hidden := isHidden(have, c)
	return visibility{
		hidden: hidden, noHistory: hidden || have&permissionHistory == 0,
		muted: !hidden && have&permissionSend == 0, threadsMuted: !hidden && have&permissionThreads == 0,
	}
}

// isHidden reports whether a channel cannot be seen with the permissions
// ("Permissions", implicit permissions).
func isHidden(have uint64, c wireChannel) bool {
	return have&permissionView == 0 || c.isVoice() && have&permissionConnect == 0
}

// effectivePermissions computes a member's permissions in a channel that is not
// a thread ("Permissions", permission overwrites).
func effectivePermissions(g wireGuild, m wireMember, self string, ch wireChannel) uint64 {
	mine := m.Roles
	var base uint64
	for _, r := range g.Roles {
		if r.ID == g.ID || slices.Contains(mine, r.ID) {
			base |= permissionBits(r.Permissions)
		}
	}
	if g.OwnerID == self || base&permissionAdministrator != 0 {
		return ^uint64(0)
	}
	var everyone, roles, own struct{ allow, deny uint64 }
	for _, o := range ch.Overwrites {
		allow, deny := permissionBits(o.Allow), permissionBits(o.Deny)
		switch {
		case o.ID == g.ID:
			everyone.allow, everyone.deny = allow, deny
		case o.ID == self:
			own.allow, own.deny = allow, deny
		case slices.Contains(mine, o.ID):
			roles.allow, roles.deny = roles.allow|allow, roles.deny|deny
		}
	}
	have := base&^everyone.deny | everyone.allow
	have = have&^roles.deny | roles.allow
	have = have&^own.deny | own.allow
	if have&permissionView == 0 {
		return 0
	}
	return have
}

// permissionBits parses a set of permissions, which Discord sends as a string.
func permissionBits(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
