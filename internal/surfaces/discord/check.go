package discord

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/disgoorg/disgo/rest"

	"lilac/internal/foundation/fault"
)

// Finding is the outcome of one look at the bot.
type Finding struct {
	OK bool
	// What was found, in a sentence.
	What string
	// Do says what to click; empty when there is nothing to do.
	Do string
}

// maxNamed bounds how many channels of one server are named in which something
// is missing; Discord tells of all of them at once.
const maxNamed = 20

// permission is one that the bot needs in a channel ("Permissions", bitwise
// permission flags), by the name that people read.
type permission struct {
	bit  uint64
	name string
}

// needed are the permissions in the order in which people read them. A voice
// channel has no threads, and who may not connect may not read there either
// ("Permissions", implicit permissions).
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

// intentGranted are the flags of an application that may read messages
// ("Application Resource", application flags).
const intentGranted = 1<<18 | 1<<19

// checker looks at the bot from outside; it needs no gateway and no store.
type checker struct {
	api           *api
	applicationID string
	self          string
	guilds        map[string]wireGuild
	members       map[string]wireMember
}

// Check looks at the token, the intents and the permissions in each allowed
// channel, over the REST API. Of the options it uses Config and HTTP.
func Check(ctx context.Context, o Options) []Finding {
	c := &checker{api: newAPI(o.withDefaults()), guilds: map[string]wireGuild{}, members: map[string]wireMember{}}
	var me wireUser
	if err := c.get(ctx, rest.GetCurrentUser, &me); err != nil {
		if fault.KindOf(err) == fault.Unauthenticated {
			return []Finding{{What: "Discord does not know the bot's token", Do: errBadToken.Message}}
		}
		return []Finding{{What: "Discord cannot be asked: " + fault.ToWire(err).Message, Do: "Look at the network, and at surface.discord.apiURL."}}
	}
	c.self = me.ID
	out := []Finding{{OK: true, What: fmt.Sprintf("the token is that of %s", me.name(nil))}, c.intents(ctx)}
	if o.Empty() {
		return append(out, Finding{What: "the bot listens to nobody", Do: "Name channels or servers in surface.discord.allowedChannelIds or allowedGuildIds, or set allowDMs."})
	}
	for _, id := range o.AllowedGuildIDs {
		out = append(out, c.guild(ctx, id)...)
	}
	for _, id := range o.AllowedChannelIDs {
		out = append(out, c.channel(ctx, id))
	}
	return out
}

func (c *checker) get(ctx context.Context, e *rest.Endpoint, into any, params ...any) error {
	return c.api.do(ctx, e.Compile(nil, params...), nil, into)
}

func (c *checker) intents(ctx context.Context) Finding {
	var app struct {
		ID    string `json:"id"`
		Flags uint64 `json:"flags"`
	}
	if err := c.get(ctx, rest.GetCurrentApplication, &app); err != nil {
		return Finding{What: "the bot's application cannot be read: " + fault.ToWire(err).Message}
	}
	c.applicationID = app.ID
	if app.Flags&intentGranted == 0 {
		return Finding{
			What: "the bot may not read what messages say",
			Do:   fmt.Sprintf("Open https://discord.com/developers/applications/%s/bot, and under “Privileged Gateway Intents” switch on “Message Content Intent”, then “Save Changes”.", app.ID),
		}
	}
	return Finding{OK: true, What: "the bot may read what messages say"}
}

// invite is where the bot is invited with all that it needs.
func (c *checker) invite() string {
	var all uint64
	for _, p := range needed {
		all |= p.bit
	}
	return fmt.Sprintf("Open https://discord.com/oauth2/authorize?client_id=%s&scope=bot+applications.commands&permissions=%d and choose the server.", c.applicationID, all)
}

// join reads a server and our membership in it.
func (c *checker) join(ctx context.Context, id string) error {
	if _, ok := c.guilds[id]; ok {
		return nil
	}
	var g wireGuild
	if err := c.get(ctx, rest.GetGuild, &g, id); err != nil {
		return err
	}
	var m wireMember
	if err := c.get(ctx, rest.GetMember, &m, id, c.self); err != nil {
		return err
	}
	c.guilds[id], c.members[id] = g, m
	return nil
}

func (c *checker) guild(ctx context.Context, id string) []Finding {
	var channels []wireChannel
	err := c.join(ctx, id)
	if err == nil {
		err = c.get(ctx, rest.GetGuildChannels, &channels, id)
	}
	if err != nil {
		return []Finding{c.awayServer(ctx, err, id)}
	}
	g, visible, more := c.guilds[id], 0, 0
	var out []Finding
	for _, ch := range channels {
		have := granted(g, c.members[g.ID], c.self, ch)
		// A channel that the bot cannot see is one that it is kept out of.
		if !ch.threaded() && !ch.voice() || hides(have, ch) {
			continue
		}
		visible++
		if f := lacking(have, "", ch, g.Name); f.OK {
			continue
		} else if len(out) == maxNamed {
			more++
		} else {
			out = append(out, f)
		}
	}
	if more > 0 {
		out = append(out, Finding{What: fmt.Sprintf("in %d more channels of %s the bot lacks permissions", more, g.Name), Do: "Do the same there, or give the bot’s role the permissions everywhere: Server Settings, Roles."})
	}
	if visible == 0 {
		return []Finding{{What: fmt.Sprintf("the bot sees no channel of the server %s", g.Name), Do: "In Discord: Server Settings, Roles, the bot's role, Permissions: switch on “View Channels”."}}
	}
	return append(out, Finding{OK: true, What: fmt.Sprintf("the bot is in the server %s and sees its channels", g.Name)})
}

func (c *checker) channel(ctx context.Context, id string) Finding {
	var ch wireChannel
	if err := c.get(ctx, rest.GetChannel, &ch, id); err != nil {
		return c.away(err, "the channel "+id)
	}
	if ch.direct() {
		return Finding{What: fmt.Sprintf("%s is a private conversation", id), Do: "Use surface.discord.allowDMs or allowedUserIds instead of allowedChannelIds."}
	}
	if err := c.join(ctx, ch.GuildID); err != nil {
		return c.away(err, "the server of the channel "+id)
	}
	thread := ""
	if ch.thread() { // it has the permissions of its channel
		thread = "the thread “" + ch.Name + "” of "
		var parent wireChannel
		if err := c.get(ctx, rest.GetChannel, &parent, ch.ParentID); err != nil {
			return c.away(err, "the channel of the thread "+id)
		}
		ch = parent
	}
	g := c.guilds[ch.GuildID]
	return lacking(granted(g, c.members[g.ID], c.self, ch), thread, ch, g.Name)
}

// awayServer is a server that Discord does not show; the commonest mistake is
// the id of a channel.
func (c *checker) awayServer(ctx context.Context, err error, id string) Finding {
	var ch wireChannel
	if kind := fault.KindOf(err); kind != fault.NotFound && kind != fault.Denied {
		return c.away(err, "the server "+id)
	} else if c.get(ctx, rest.GetChannel, &ch, id) == nil {
		return Finding{
			What: fmt.Sprintf("%s is no server, but the channel #%s", id, ch.Name),
			Do:   fmt.Sprintf("Move it from surface.discord.allowedGuildIds to allowedChannelIds, or name its server there, %s.", ch.GuildID),
		}
	}
	return Finding{
		What: fmt.Sprintf("the bot is not in the server %s", id),
		Do:   c.invite() + " If it is there, the id is another one: the menu of the server has “Copy ID”.",
	}
}

// away is what Discord does not show.
func (c *checker) away(err error, what string) Finding {
	switch fault.KindOf(err) {
	case fault.NotFound, fault.Denied:
		return Finding{
			What: fmt.Sprintf("the bot is not in %s, or may not see it", what),
			Do:   c.invite() + " If it is there, let it see the channel: Edit Channel, Permissions, add the bot, “View Channel”.",
		}
	}
	return Finding{What: fmt.Sprintf("%s cannot be read: %s", what, fault.ToWire(err).Message)}
}

// lacking names the permissions that are missing and where to give them: a
// thread has those of its channel.
func lacking(have uint64, thread string, in wireChannel, server string) Finding {
	var missing []string
	all, channel := needed, in.Name
	if in.voice() {
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
