package discordtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// object is a JSON object in a response or an event.
type object map[string]any

// User is a Discord account.
type User struct {
	ID, Name string
	Bot      bool
}

func (u User) wire() object {
	return object{
		"id": u.ID, "username": u.Name, "discriminator": "0", "global_name": u.Name, "avatar": nil, "bot": u.Bot,
		"public_flags": 0, "flags": 0, "primary_guild": nil,
	}
}

// Permission is a set of permissions (Permissions, "Bitwise Permission Flags").
type Permission uint64

// Permissions that Lilac's bot needs, and those of moderators.
const (
	Administrator      Permission = 1 << 3
	ManageChannels     Permission = 1 << 4
	AddReactions       Permission = 1 << 6
	ViewChannel        Permission = 1 << 10
	SendMessages       Permission = 1 << 11
	ManageMessages     Permission = 1 << 13
	EmbedLinks         Permission = 1 << 14
	AttachFiles        Permission = 1 << 15
	ReadMessageHistory Permission = 1 << 16
	Connect            Permission = 1 << 20
	ManageThreads      Permission = 1 << 34
	SendInThreads      Permission = 1 << 38
)

// everyonePermissions are the permissions that @everyone has in a new guild.
const everyonePermissions = AddReactions | ViewChannel | SendMessages | EmbedLinks | AttachFiles | ReadMessageHistory | Connect | SendInThreads

// allPermissions is the set of all defined bits: 0–46 and 48–52.
const allPermissions Permission = 1<<53 - 1&^(1<<47)

// Channel types (Channels Resource, "Channel Types").
const (
	typeText          = 0
	typeDM            = 1
	typeVoice         = 2
	typeThread        = 11
	typePrivateThread = 12
	typeForum         = 15
)

type guild struct {
	id, name string
	owner    string
	members  map[string]*member
	roles    map[string]Permission // the guild's own ID is the role ID of @everyone
	titles   map[string]string     // the names of roles that have one
	managed  string                // ID of the bot's managed role, or empty
	tier     int                   // the level of its boosts
}

type member struct {
	user   User
	nick   string
	roles  []string
	joined time.Time
	// timedOut is the end of the member's timeout.
	timedOut time.Time
}

type channel struct {
	id, guild, parent, name, topic string
	kind                           int
	deleted, archived, locked      bool
	archivedAt                     time.Time            // time of the last change of archived
	recipient                      User                 // only for direct messages
	overwrites                     map[string]overwrite // by user ID or role ID
	messages                       []*message           // oldest first
	last                           string
}

// overwrite holds the permissions that a channel allows or denies to a role or user.
type overwrite struct {
	allow, deny Permission
	role        bool
}

func (c *channel) thread() bool { return c.kind == typeThread || c.kind == typePrivateThread }

type world struct {
	bot           User
	applicationID string
	users         map[string]User
	guilds        map[string]*guild
	channels      map[string]*channel
	commands      []object
	creates       []time.Time // command creations in the last 24 hours
	commandWrites int
	interactions  map[string]*interaction // by token
	now           func() time.Time
}

func newWorld(now func() time.Time) world {
	return world{
		users: make(map[string]User), guilds: make(map[string]*guild), channels: make(map[string]*channel),
		interactions: make(map[string]*interaction), now: now,
	}
}

// in returns the channel with an ID and panics if there is none. Deleted channels still
// exist here, so that tests can inspect them.
func (w *world) in(id string) *channel {
	c := w.channels[id]
	if c == nil {
		panic("discordtest: no channel " + id)
	}
	return c
}

func (w *world) who(id string) User {
	u, ok := w.users[id]
	if !ok {
		panic("discordtest: no user " + id)
	}
	return u
}

func (w *world) guildNamed(id string) *guild {
	g := w.guilds[id]
	if g == nil {
		panic("discordtest: no guild " + id)
	}
	return g
}

// permissions computes a user's permissions in a channel (Permissions, "Permission
// Overwrites"). A thread inherits the permissions of its parent ("Inherited
// Permissions").
func (w *world) permissions(c *channel, userID string) Permission {
	if c.kind == typeDM {
		return everyonePermissions
	}
	g := w.guilds[c.guild]
	m := g.members[userID]
	if m == nil {
		return 0
	}
	granted := g.roles[g.id]
	for _, role := range m.roles {
		granted |= g.roles[role]
	}
	if g.owner == userID || granted&Administrator != 0 {
		return allPermissions
	}
	at := c
	if c.thread() {
		at = w.channels[c.parent]
	}
	var roles overwrite
	for _, role := range m.roles {
		roles.allow, roles.deny = roles.allow|at.overwrites[role].allow, roles.deny|at.overwrites[role].deny
	}
	for _, o := range []overwrite{at.overwrites[g.id], roles, at.overwrites[userID]} {
		granted = granted&^o.deny | o.allow
	}
	// "Implicit Permissions": without VIEW_CHANNEL, or without CONNECT in a voice
	// channel, a user has no permissions there.
	if granted&ViewChannel == 0 || at.kind == typeVoice && granted&Connect == 0 {
		return 0
	}
	if w.now().Before(m.timedOut) { // "Permissions for Timed Out Members"
		granted &= ViewChannel | ReadMessageHistory
	}
	return granted
}

func (c *channel) wire() object {
	o := object{"id": c.id, "type": c.kind, "last_message_id": nil, "flags": 0}
	if c.last != "" {
		o["last_message_id"] = c.last
	}
	if c.kind == typeDM {
		o["recipients"] = []object{c.recipient.wire()}
		return o
	}
	overwrites := []object{}
	for _, id := range slices.Sorted(maps.Keys(c.overwrites)) {
		o, kind := c.overwrites[id], 1
		if o.role {
			kind = 0
		}
		overwrites = append(overwrites, object{"id": id, "type": kind, "allow": o.allow.String(), "deny": o.deny.String()})
	}
	o["guild_id"], o["name"], o["permission_overwrites"] = c.guild, c.name, overwrites
	o["position"], o["nsfw"], o["parent_id"], o["topic"] = 0, false, nil, nil
	if c.topic != "" {
		o["topic"] = c.topic
	}
	if c.parent != "" {
		o["parent_id"] = c.parent
	}
	if c.thread() {
		o["owner_id"], o["message_count"], o["member_count"] = c.guild, len(c.messages), 1
		o["total_message_sent"] = len(c.messages)
		o["thread_metadata"] = object{
			"archived": c.archived, "auto_archive_duration": 1440, "locked": c.locked,
			"archive_timestamp": stamp(c.archivedAt), "create_timestamp": "2024-01-01T00:00:00.000000+00:00",
		}
	}
	return o
}

// String formats the set as the API does: the decimal value of its bits.
func (p Permission) String() string { return strconv.FormatUint(uint64(p), 10) }

func (g *guild) wireRoles(bot User) []object {
	roles := []object{}
	for _, id := range slices.Sorted(maps.Keys(g.roles)) {
		name := cmp.Or(g.titles[id], "role-"+id)
		if id == g.id {
			name = "@everyone"
		}
		role := object{
			"id": id, "name": name, "color": 0, "colors": object{"primary_color": 0, "secondary_color": nil, "tertiary_color": nil}, "hoist": false, "position": 0,
			"permissions": g.roles[id].String(), "managed": false, "mentionable": false, "flags": 0,
			"icon": nil, "unicode_emoji": nil,
		}
		if id == g.managed {
			role["managed"], role["tags"] = true, object{"bot_id": bot.ID}
		}
		roles = append(roles, role)
	}
	return roles
}

func (g *guild) wire(bot User) object {
	return object{
		"id": g.id, "name": g.name, "owner_id": g.owner, "roles": g.wireRoles(bot), "emojis": []object{}, "stickers": []object{},
		"features": []string{}, "icon": nil, "verification_level": 0, "default_message_notifications": 0, "explicit_content_filter": 0,
		"afk_timeout": 300, "mfa_level": 0, "system_channel_flags": 0, "premium_tier": g.tier, "preferred_locale": "en-US", "nsfw_level": 0,
		"premium_progress_bar_enabled": false, "description": nil, "home_header": nil, "splash": nil, "discovery_splash": nil, "banner": nil,
		"application_id": nil, "region": "us-west", "afk_channel_id": nil, "system_channel_id": nil, "widget_enabled": false, "widget_channel_id": nil,
		"max_presences": nil, "max_members": 500_000, "max_stage_video_channel_users": 50, "max_video_channel_users": 25, "vanity_url_code": nil,
		"premium_subscription_count": 0, "rules_channel_id": nil, "safety_alerts_channel_id": nil, "public_updates_channel_id": nil, "nsfw": false,
		"incidents_data": nil,
	}
}

func (m *member) wire() object {
	o := m.wirePartial()
	o["user"] = m.user.wire()
	return o
}

// wirePartial encodes a member without its user, as messages contain it.
func (m *member) wirePartial() object {
	o := object{
		"roles": append([]string{}, m.roles...), "joined_at": stamp(m.joined), "deaf": false, "mute": false,
		"flags": 0, "nick": nil, "avatar": nil, "banner": nil, "communication_disabled_until": nil, "pending": false, "premium_since": nil,
	}
	if !m.timedOut.IsZero() {
		o["communication_disabled_until"] = stamp(m.timedOut)
	}
	if m.nick != "" {
		o["nick"] = m.nick
	}
	return o
}

// wireCreate encodes a guild for GUILD_CREATE (Gateway Events, "Guild Create"). Without
// the members intent, it contains only the bot's own member.
func (w *world) wireCreate(g *guild, intents int) object {
	o := g.wire(w.bot)
	members, channels, threads := []object{}, []object{}, []object{}
	for _, id := range slices.Sorted(maps.Keys(g.members)) {
		if id == w.bot.ID || intents&intentMembers != 0 {
			members = append(members, g.members[id].wire())
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(w.channels), compareIDs) {
		c := w.channels[id]
		switch {
		case c.guild != g.id || c.deleted || c.archived: // only active threads are included
		case c.thread():
			threads = append(threads, c.wire())
		default:
			channels = append(channels, c.wire())
		}
	}
	o["joined_at"], o["large"], o["unavailable"], o["member_count"] = stamp(g.members[w.bot.ID].joined), false, false, len(g.members)
	o["members"], o["channels"], o["threads"] = members, channels, threads
	for _, empty := range []string{"voice_states", "presences", "stage_instances", "guild_scheduled_events", "soundboard_sounds"} {
		o[empty] = []object{}
	}
	return o
}

// memberOf returns a member of a guild by user ID.
func (w *world) memberOf(guildID, userID string) (*member, error) {
	g := w.guilds[guildID]
	if g == nil || g.members[userID] == nil {
		return nil, fmt.Errorf("user %s is not in guild %s", userID, guildID)
	}
	return g.members[userID], nil
}
