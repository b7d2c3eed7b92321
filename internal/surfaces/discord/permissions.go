package discord

import "slices"

// The permissions that decide what we see ("Permissions", bitwise permission
// flags).
const (
	permissionAdministrator = 1 << 3
	permissionView          = 1 << 10
	permissionHistory       = 1 << 16
	permissionConnect       = 1 << 20
	permissionThreads       = 1 << 38
)

// sight says what of a channel we may see.
type sight struct {
	// hidden says that we see nothing of it, unread that we cannot read what was
	// said in it before.
	hidden, unread bool
}

// sightOf is what a server says of us and a channel in it. A thread has the
// permissions of its channel. Where it says nothing, we may.
func (g wireGuild) sightOf(self string, c wireChannel) sight {
	me := slices.IndexFunc(g.Members, func(m wireMember) bool { return m.User != nil && m.User.ID == self })
	if me < 0 || len(g.Roles) == 0 {
		return sight{}
	}
	if c.thread() {
		i := slices.IndexFunc(g.Channels, func(o wireChannel) bool { return o.ID == c.ParentID })
		if i < 0 {
			return sight{}
		}
		c = g.Channels[i]
	}
	have := granted(g, g.Members[me], self, c)
	hidden := hides(have, c)
	return sight{hidden: hidden, unread: hidden || have&permissionHistory == 0}
}

// hides reports whether nothing of a channel is seen with these permissions
// ("Permissions", implicit permissions).
func hides(have uint64, c wireChannel) bool {
	return have&permissionView == 0 || c.voice() && have&permissionConnect == 0
}

// granted computes what a member may do in a channel that is no thread
// ("Permissions", permission overwrites).
func granted(g wireGuild, m wireMember, self string, ch wireChannel) uint64 {
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
