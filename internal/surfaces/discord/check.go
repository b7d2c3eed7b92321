package discord

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"lilac/internal/foundation/fault"
)

// Finding is the result of one check.
type Finding struct {
	OK bool
	// What describes the finding in a clause.
	What string
	// Do says how to fix it; empty if there is nothing to do.
	Do string
}

// maxNamed bounds how many channels of one server are listed that lack
// permissions.
const maxNamed = 20

// permission is a permission that the bot needs ("Permissions", bitwise
// permission flags), with its name in Discord's settings.
type permission struct {
	bit  uint64
	name string
}

// The needed permissions, in the order of Discord's settings. A voice channel has
// no threads, and reading its messages requires Connect ("Permissions", implicit
// permissions).
var (
	needed = []permission{
		{permissionView, "View Channels"},
		{1 << 11, "Send Messages"},
		{permissionThreads, "Send Messages in Threads"},
		{1 << 15, "Attach Files"},
		{permissionHistory, "Read Message History"},
		{1 << 6, "Add Reactions"},
	}
	neededInVoice = append([]permission{{permissionConnect, "Connect"}}, slices.DeleteFunc(slices.Clone(needed), func(p permission) bool { return p.bit == permissionThreads })...)
)

// messageContentFlags are set for applications that may read messages
// ("Application Resource", application flags).
const messageContentFlags = 1<<18 | 1<<19

// checker checks the bot over the REST API; it needs no gateway and no store.
type checker struct {
	client        *client
	applicationID string
	self          string
	guilds        map[string]wireGuild
	members       map[string]wireMember
}

// Check checks the token, the intents, and the permissions in each allowed
// channel. It uses only Config and HTTP of the options.
func Check(ctx context.Context, o Options) []Finding {
	c := &checker{client: newClient(o.withDefaults()), guilds: map[string]wireGuild{}, members: map[string]wireMember{}}
	var me wireUser
	if err := c.client.get(ctx, getCurrentUser.with(), &me); err != nil {
		if fault.KindOf(err) == fault.Unauthenticated {
			return []Finding{{What: "Discord rejected the bot's token", Do: errBadToken.Message}}
		}
		return []Finding{{What: "Discord cannot be reached: " + fault.ToWire(err).Message, Do: "Check the network and surface.discord.apiURL."}}
	}
	c.self = me.ID
	out := []Finding{{OK: true, What: fmt.Sprintf("the token belongs to %s", me.name(nil))}, c.intents(ctx)}
	if o.Empty() {
		return append(out, Finding{What: "the bot listens to nobody", Do: "Set surface.discord.allowedChannelIds or allowedGuildIds, or turn on allowDMs."})
	}
	for _, id := range o.AllowedGuildIDs {
		out = append(out, c.guild(ctx, id)...)
	}
	for _, id := range o.AllowedChannelIDs {
		out = append(out, c.channel(ctx, id))
	}
	return out
}

func (c *checker) intents(ctx context.Context) Finding {
	var app struct {
		ID    string `json:"id"`
		Flags uint64 `json:"flags"`
	}
	if err := c.client.get(ctx, getCurrentApplication.with(), &app); err != nil {
		return Finding{What: "the bot's application cannot be read: " + fault.ToWire(err).Message}
	}
	c.applicationID = app.ID
	if app.Flags&messageContentFlags == 0 {
		return Finding{
			What: "the bot cannot read the content of messages",
			Do:   fmt.Sprintf("Open https://discord.com/developers/applications/%s/bot, turn on “Message Content Intent” under “Privileged Gateway Intents”, then select “Save Changes”.", app.ID),
		}
	}
	return Finding{OK: true, What: "the bot can read the content of messages"}
}

// invite says how to invite the bot with all needed permissions.
func (c *checker) invite() string {
	return "Open " + c.inviteURL() + " and select the server."
}

// inviteURL returns the address that invites the bot with all needed permissions.
func (c *checker) inviteURL() string {
	var all uint64
	for _, p := range needed {
		all |= p.bit
	}
	return fmt.Sprintf("https://discord.com/oauth2/authorize?client_id=%s&scope=bot+applications.commands&permissions=%d", c.applicationID, all)
}

// loadGuild reads a server and the bot's membership in it.
func (c *checker) loadGuild(ctx context.Context, id string) error {
	if _, ok := c.guilds[id]; ok {
		return nil
	}
	var g wireGuild
	if err := c.client.get(ctx, getGuild.with(id), &g); err != nil {
		return err
	}
	if len(g.Roles) == 0 { // other servers of the protocol list them only on request
		if err := c.client.get(ctx, getGuildRoles.with(id), &g.Roles); err != nil {
			return err
		}
	}
	var m wireMember
	if err := c.client.get(ctx, getGuildMember.with(id, c.self), &m); err != nil {
		return err
	}
	c.guilds[id], c.members[id] = g, m
	return nil
}

func (c *checker) guild(ctx context.Context, id string) []Finding {
	var channels []wireChannel
	err := c.loadGuild(ctx, id)
	if err == nil {
		err = c.client.get(ctx, getGuildChannels.with(id), &channels)
	}
	if err != nil {
		return []Finding{c.unknownGuild(ctx, err, id)}
	}
	g, visible, more := c.guilds[id], 0, 0
	var out []Finding
	if f := c.timeout(g); f.What != "" {
		out = append(out, f)
	}
	for _, ch := range channels {
		have := effectivePermissions(g, c.members[g.ID], c.self, ch)
		// Hidden channels are hidden on purpose.
		if !ch.hasThreads() && !ch.isVoice() || isHidden(have, ch) {
			continue
		}
		visible++
		if f := checkPermissions(have, "", ch, g.Name); f.OK {
			continue
		} else if len(out) == maxNamed {
			more++
		} else {
			out = append(out, f)
		}
	}
	if more > 0 {
		out = append(out, Finding{What: fmt.Sprintf("the bot lacks permissions in %d more channels of %s", more, g.Name), Do: "Do the same there, or grant the permissions to the bot’s role: Server Settings, Roles."})
	}
	if visible == 0 {
		return []Finding{{What: fmt.Sprintf("the bot sees no channel of the server %s", g.Name), Do: "In Discord: Server Settings, Roles, the bot's role, Permissions: turn on “View Channels”."}}
	}
	return append(out, Finding{OK: true, What: fmt.Sprintf("the bot is in the server %s and sees its channels", g.Name)})
}

func (c *checker) channel(ctx context.Context, id string) Finding {
	var ch wireChannel
	if err := c.client.get(ctx, getChannel.with(id), &ch); err != nil {
		return c.inaccessible(err, "the channel "+id)
	}
	if ch.isDirect() {
		return Finding{What: fmt.Sprintf("%s is a private conversation", id), Do: "Use surface.discord.allowDMs or allowedUserIds instead of allowedChannelIds."}
	}
	if err := c.loadGuild(ctx, ch.GuildID); err != nil {
		return c.inaccessible(err, "the server of the channel "+id)
	}
	if f := c.timeout(c.guilds[ch.GuildID]); f.What != "" {
		return f
	}
	thread := ""
	if ch.isThread() { // it has the permissions of its channel
		thread = "the thread “" + ch.Name + "” of "
		var parent wireChannel
		if err := c.client.get(ctx, getChannel.with(ch.ParentID), &parent); err != nil {
			return c.inaccessible(err, "the channel of the thread "+id)
		}
		ch = parent
	}
	g := c.guilds[ch.GuildID]
	return checkPermissions(effectivePermissions(g, c.members[g.ID], c.self, ch), thread, ch, g.Name)
}

// timeout reports that the bot is timed out in a server, which takes almost all
// permissions, except those of an administrator ("Permissions", permissions for
// timed out members).
func (c *checker) timeout(g wireGuild) (f Finding) {
	until := millis(c.members[g.ID].TimedOutUntil)
	if until <= time.Now().UnixMilli() || effectivePermissions(g, c.members[g.ID], c.self, wireChannel{})&permissionAdministrator != 0 {
		return f
	}
	return Finding{
		What: fmt.Sprintf("somebody has timed the bot out in the server %s until %s, so it cannot write there", g.Name, time.UnixMilli(until).UTC().Format(time.RFC3339)),
		Do:   "In Discord: right-click the bot in the list of members, Remove Timeout.",
	}
}

// unknownGuild explains a server that the bot cannot read. The most common
// mistake is the id of a channel.
func (c *checker) unknownGuild(ctx context.Context, err error, id string) Finding {
	var ch wireChannel
	if kind := fault.KindOf(err); kind != fault.NotFound && kind != fault.Denied {
		return c.inaccessible(err, "the server "+id)
	} else if c.client.get(ctx, getChannel.with(id), &ch) == nil {
		return Finding{
			What: fmt.Sprintf("%s is not a server but the channel #%s", id, ch.Name),
			Do:   fmt.Sprintf("Move it from surface.discord.allowedGuildIds to allowedChannelIds, or replace it with its server, %s.", ch.GuildID),
		}
	}
	return Finding{
		What: fmt.Sprintf("the bot is not in the server %s", id),
		Do:   c.invite() + " If the bot is in the server, the id is wrong: copy it with “Copy Server ID” in the server's menu.",
	}
}

// inaccessible explains something that the bot cannot read.
func (c *checker) inaccessible(err error, what string) Finding {
	switch fault.KindOf(err) {
	case fault.NotFound, fault.Denied:
		return Finding{
			What: fmt.Sprintf("the bot is not in %s or cannot see it", what),
			Do:   c.invite() + " If the bot is in the server, let it see the channel: Edit Channel, Permissions, add the bot, “View Channel”.",
		}
	}
	return Finding{What: fmt.Sprintf("%s cannot be read: %s", what, fault.ToWire(err).Message)}
}

// checkPermissions lists the missing permissions and where to grant them; a
// thread has the permissions of its channel.
func checkPermissions(have uint64, thread string, in wireChannel, server string) Finding {
	var missing []string
	all, channel := needed, in.Name
	if in.isVoice() {
		all = neededInVoice
	}
	for _, p := range all {
		if have&p.bit == 0 {
			missing = append(missing, "“"+p.name+"”")
		}
	}
	if len(missing) == 0 {
		return Finding{OK: true, What: fmt.Sprintf("the bot has all permissions in %s#%s of %s", thread, channel, server)}
	}
	list := strings.Join(missing, ", ")
	return Finding{
		What: fmt.Sprintf("in %s#%s of %s the bot lacks %s", thread, channel, server, list),
		Do:   fmt.Sprintf("In Discord: right-click #%s, Edit Channel, Permissions, Advanced, add the bot's role, and allow %s.", channel, list),
	}
}
