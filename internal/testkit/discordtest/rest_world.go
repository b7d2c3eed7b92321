package discordtest

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

func getGateway(c *call) answer { return ok(object{"url": c.s.GatewayURL}) }

// getGatewayBot implements Gateway, "Get Gateway Bot".
func getGatewayBot(c *call) answer {
	today := 0
	now := c.s.o.Now()
	for _, id := range c.s.gateway.identifies {
		if now.Sub(id.At) < 24*time.Hour {
			today++
		}
	}
	return ok(object{
		"url": c.s.GatewayURL, "shards": c.s.world.recommendedShards(c.s.o.GuildsPerShard),
		"session_start_limit": object{
			"total": c.s.o.IdentifiesPerDay, "remaining": max(0, c.s.o.IdentifiesPerDay-today), "reset_after": 24 * 60 * 60 * 1000, "max_concurrency": 1,
		},
	})
}

func getSelf(c *call) answer {
	self := c.s.world.bot.wire()
	self["mfa_enabled"], self["locale"] = false, "en-US"
	return ok(self)
}

func getUser(c *call) answer {
	if u, found := c.s.world.users[c.path("user")]; found {
		return ok(u.wire())
	}
	return unknownUser
}

func listOwnGuilds(c *call) answer {
	list := []object{}
	for _, id := range slices.SortedFunc(maps.Keys(c.s.world.guilds), compareIDs) {
		if g := c.s.world.guilds[id]; g.members[c.s.world.bot.ID] != nil {
			list = append(list, object{"id": g.id, "name": g.name, "icon": nil, "banner": nil, "owner": false, "permissions": g.roles[g.id].String(), "features": []string{}})
		}
	}
	return ok(list)
}

func getApplication(c *call) answer {
	return ok(object{
		"id": c.s.world.applicationID, "name": c.s.world.bot.Name, "description": "", "bot_public": true, "bot_require_code_grant": false,
		"verify_key": "", "flags": c.s.applicationFlags(), "bot": c.s.world.bot.wire(), "icon": nil, "type": nil,
		"flags_new": strconv.Itoa(c.s.applicationFlags()), "redirect_uris": []string{}, "interactions_endpoint_url": nil,
		"role_connections_verification_url": nil, "owner": c.s.world.bot.wire(), "approximate_guild_count": len(c.s.world.guilds),
		"approximate_user_install_count": 0, "approximate_user_authorization_count": 0, "explicit_content_filter": 0, "team": nil,
		"eligible_oauth2_scopes": []string{},
	})
}

// openDM implements User, "Create DM".
func openDM(c *call) answer {
	var in struct {
		Recipient string `json:"recipient_id"`
	}
	if json.Unmarshal(c.body, &in) != nil {
		return bodyNotJSON
	}
	u, found := c.s.world.users[in.Recipient]
	if !found || u.Bot {
		return refusal(http.StatusBadRequest, 50033, "Invalid Recipient(s)")
	}
	return ok(c.s.directLocked(u).wire())
}

// guild finds the guild of a call. The bot can access only guilds that it is a member of.
func (c *call) guild() (*guild, bool) {
	g := c.s.world.guilds[c.path("guild")]
	return g, g != nil && g.members[c.s.world.bot.ID] != nil
}

func getGuild(c *call) answer {
	g, found := c.guild()
	if !found {
		return unknownGuild
	}
	return ok(g.wire(c.s.world.bot))
}

func listRoles(c *call) answer {
	g, found := c.guild()
	if !found {
		return unknownGuild
	}
	return ok(g.wireRoles(c.s.world.bot))
}

// listChannels implements Guild, "Get Guild Channels", which excludes threads.
func listChannels(c *call) answer {
	g, found := c.guild()
	if !found {
		return unknownGuild
	}
	return ok(c.s.world.channelsOf(g, typeText, typeVoice, typeForum))
}

// listArchived implements Channels Resource, "List Public Archived Threads". The most
// recently archived thread comes first.
func listArchived(c *call) answer {
	return c.archived(typeThread, func(x, y *channel) int { return y.archivedAt.Compare(x.archivedAt) }, func(ch *channel, before string) bool {
		at, err := time.Parse(time.RFC3339Nano, before)
		return err == nil && ch.archivedAt.Before(at)
	})
}

// listJoinedArchived implements "List Joined Private Archived Threads". The thread with
// the largest ID comes first.
func listJoinedArchived(c *call) answer {
	return c.archived(typePrivateThread, func(x, y *channel) int { return compareIDs(y.id, x.id) }, func(ch *channel, before string) bool {
		return older(ch.id, before)
	})
}

func (c *call) archived(kind int, order func(x, y *channel) int, isBefore func(*channel, string) bool) answer {
	parent, a, fine := c.need(ReadMessageHistory)
	if !fine {
		return a
	}
	limit, before := 50, c.query().Get("before")
	if text := c.query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 100 { // not documented; these are the bounds of other lists
			return invalid("limit", "NUMBER_TYPE_MAX", "int value should be between 1 and 100.")
		}
		limit = n
	}
	var list []*channel
	for _, ch := range c.s.world.channels {
		if ch.parent == parent.id && ch.kind == kind && ch.archived && !ch.deleted && (before == "" || isBefore(ch, before)) {
			list = append(list, ch)
		}
	}
	slices.SortFunc(list, order)
	more := len(list) > limit
	threads := []object{}
	for _, ch := range list[:min(limit, len(list))] {
		threads = append(threads, ch.wire())
	}
	return ok(object{"threads": threads, "members": []object{}, "has_more": more})
}

func listThreads(c *call) answer {
	g, found := c.guild()
	if !found {
		return unknownGuild
	}
	return ok(object{"threads": c.s.world.channelsOf(g, typeThread, typePrivateThread), "members": []object{}})
}

// channelsOf returns the channels of a guild that are neither deleted nor archived.
func (w *world) channelsOf(g *guild, kinds ...int) []object {
	list := []object{}
	for _, id := range slices.SortedFunc(maps.Keys(w.channels), compareIDs) {
		if ch := w.channels[id]; ch.guild == g.id && slices.Contains(kinds, ch.kind) && !ch.deleted && !ch.archived {
			list = append(list, ch.wire())
		}
	}
	return list
}

// listMembers implements Guild, "List Guild Members", which requires the members intent.
func listMembers(c *call) answer {
	g, found := c.guild()
	switch {
	case !found:
		return unknownGuild
	case c.s.o.WithoutMembers:
		return missingAccess
	}
	limit := 1
	if n, err := strconv.Atoi(c.query().Get("limit")); err == nil && n >= 1 && n <= 1000 {
		limit = n
	}
	list := []object{}
	for _, id := range slices.SortedFunc(maps.Keys(g.members), compareIDs) {
		if len(list) < limit && (c.query().Get("after") == "" || older(c.query().Get("after"), id)) {
			list = append(list, g.members[id].wire())
		}
	}
	return ok(list)
}

func getMember(c *call) answer {
	g, found := c.guild()
	if !found {
		return unknownGuild
	}
	id := c.path("id")
	if id == "@me" {
		return invalid("user_id", "NUMBER_TYPE_COERCE", "Value \"@me\" is not snowflake.")
	}
	m := g.members[id]
	if m == nil {
		return unknownMember
	}
	return ok(m.wire())
}

func getChannel(c *call) answer {
	ch, a, fine := c.need(0)
	if !fine {
		return a
	}
	return ok(ch.wire())
}
