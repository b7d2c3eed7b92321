package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"lilac/internal/agent/sandbox"
	"lilac/internal/core/account"
	"lilac/internal/core/pairing"
	"lilac/internal/core/webhook"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
	"lilac/internal/foundation/policy"
	"lilac/internal/foundation/text"
	"lilac/internal/operate/client"
	"lilac/internal/operate/config"
	"lilac/internal/serve/openaiapi"
	"lilac/internal/surfaces/discord"
)

// Security reports what is open to whom, according to the configuration and, for the
// tokens of callables, the running server.
func Security(ctx context.Context, p Patient) []Finding {
	return slices.Concat(
		p.openServer(ctx), []Finding{openAccounts(ctx, p.Config, p.Server)}, p.openDiscord(ctx), []Finding{p.rights()}, p.openWebhooks(),
		p.openTools(), openPolicy(p.Config), []Finding{p.openCommands(), p.openHosts()},
	)
}

// openServer reports who can use the API, the page, and the tool server.
func (p Patient) openServer(ctx context.Context) []Finding {
	c := p.Config
	api := Finding{"api and page", OK, fmt.Sprintf("%s, from this machine only; everything, to holders of the operator's token or of a login link", c.Addr), ""}
	if host, _, err := net.SplitHostPort(c.Addr); err != nil || !config.Loopback(host) {
		api.Status, api.Message = Warn, fmt.Sprintf("%s, from other machines; everything, to holders of LILAC_TOKEN or of a login link", c.Addr)
		api.Advice = "Lilac speaks plain HTTP. Put a proxy with TLS in front of it, and list only that proxy's name in allowedHosts."
	}
	if len(c.AllowedHosts) > 0 {
		api.Message += "; browsers may also use the names " + strings.Join(c.AllowedHosts, ", ")
	}
	out := []Finding{api}
	if c.MetricsToken.Set() {
		out = append(out, Finding{"metrics", OK, "/metrics, to holders of LILAC_METRICS_TOKEN", ""})
	}
	return append(out, p.openCallables(ctx))
}

// openAccounts reports who can sign in besides the operator.
func openAccounts(ctx context.Context, c *config.Config, server *client.Client) Finding {
	const check = "accounts"
	var how []string
	advice := ""
	if o := c.Accounts.OIDC; o.On() {
		how = append(how, fmt.Sprintf("people of %s in %s sign in as %s", o.Issuer, strings.Join(slices.Concat(
			counted(len(o.Allow.Emails), "listed address"), counted(len(o.Allow.Domains), "domain"), counted(len(o.Allow.Groups)+len(o.Operators), "group")), " or "), cmp.Or(o.Role, grant.Member)))
		if o.Role == grant.Operator {
			advice = "Everybody whom accounts.oidc.allow lists becomes an operator. Set accounts.oidc.role to member, and name operators with: lilac accounts role"
		}
	}
	if len(c.Accounts.Member.Tools.Allow)+len(c.Accounts.Member.Tools.Deny) > 0 {
		how = append(how, "members have restricted tools (accounts.member.tools)")
	}
	if server != nil {
		found, err := client.Accounts{Client: server}.List(ctx)
		if err != nil {
			return Finding{check, Warn, "cannot list the accounts: " + fault.Plain(err), "Try \"lilac accounts list\"."}
		}
		how = append(how, peopleOf(found)...)
	}
	f := Finding{check, OK, "only the operator can sign in", ""}
	if server == nil {
		f.Message += ", unless there are accounts (\"lilac accounts list\" lists them while the server runs)"
	}
	if len(how) > 0 {
		f.Message = strings.Join(how, "; ")
	}
	if advice != "" {
		f.Status, f.Advice = Warn, advice
	}
	return f
}

// peopleOf says who has an account or an invite.
func peopleOf(found client.AccountList) (out []string) {
	var operators []string
	members := 0
	for _, one := range found.People {
		switch {
		case one.Disabled:
		case one.Role == account.Operator:
			operators = append(operators, one.ID)
		default:
			members++
		}
	}
	if len(operators) > 0 {
		out = append(out, "operators: "+strings.Join(operators, ", "))
	}
	return append(append(out, counted(members, "member")...), counted(len(found.Invites), "open invite")...)
}

// openCallables reports who can use callables.
func (p Patient) openCallables(ctx context.Context) Finding {
	const check = "callables"
	where := "the socket, to this user"
	if p.Config.Tools.Addr != "" {
		where += ", and " + p.Config.Tools.Addr
	}
	message := where + "; to running commands, as far as their requests may, and to holders of an operator's token"
	if p.Server == nil {
		return Finding{check, OK, message + " (\"lilac tools token list\" lists those while the server runs)", ""}
	}
	tokens, err := p.Server.ToolTokens(ctx)
	if err != nil {
		return Finding{check, Warn, "cannot list the tokens: " + fault.Plain(err), "Try \"lilac tools token list\"."}
	}
	var names, all []string
	for _, t := range tokens {
		names = append(names, fmt.Sprintf("%s (%s)", t.Name, strings.Join(t.Callables, ", ")))
		if t.ExpiresAt == 0 && slices.Contains(t.Callables, "*") {
			all = append(all, t.Name)
		}
	}
	if len(names) == 0 {
		return Finding{check, OK, message + ": there is none", ""}
	}
	f := Finding{check, OK, message + ": " + strings.Join(names, "; "), ""}
	if len(all) > 0 {
		f.Status, f.Advice = Warn, fmt.Sprintf("The tokens %s allow everything and never expire. Replace them: lilac tools token create NAME --allow … --expires 90d", strings.Join(all, ", "))
	}
	return f
}

// openDiscord reports who can talk to the agent on Discord, and what they can make it do.
func (p Patient) openDiscord(ctx context.Context) []Finding {
	d := p.Config.Surface.Discord
	if !d.Token.Set() && !d.Meant() {
		return []Finding{{"discord", OK, "off", ""}}
	}
	talk := "nobody: no channel is allowed"
	if len(d.AllowedChannelIDs)+len(d.AllowedGuildIDs) > 0 {
		talk = fmt.Sprintf("everybody who can write in %s", strings.Join(slices.Concat(
			counted(len(d.AllowedChannelIDs), "allowed channel"), counted(len(d.AllowedGuildIDs), "allowed server")), " or "))
	}
	out := []Finding{
		{"discord: talk", OK, talk + selected(d.Access.Talk), ""},
		{"discord: act", OK, "the agent acts for everybody who may talk to it" + selected(d.Access.Act), ""},
		{"discord: stop", OK, stoppers(d.Access.Stop), ""},
	}
	switch {
	case d.AllowDMs:
		out = append(out, Finding{
			"discord: private", Warn, "everybody who shares a server with the bot may write to it",
			"List people in surface.discord.allowedUserIds instead of setting allowDMs.",
		})
	case len(d.AllowedUserIDs) > 0:
		out = append(out, Finding{"discord: private", OK, strings.Join(counted(len(d.AllowedUserIDs), "listed person"), ""), ""})
	default:
		out = append(out, Finding{"discord: private", OK, "nobody", ""})
	}
	if d.AllowDMs {
		return out
	}
	return append(out, openPairing(ctx, p.Config, p.Server))
}

// stoppers says who may stop answers.
func stoppers(p discord.PeopleSettings) string {
	who := "members who may manage messages"
	if len(p.Allow) > 0 {
		who = strings.Join(p.Allow, ", ")
	}
	text := "the person who asked, and " + who
	if len(p.Deny) > 0 {
		text += ", except " + strings.Join(p.Deny, ", ")
	}
	return text
}

// openPairing reports which strangers the operator has approved.
func openPairing(ctx context.Context, c *config.Config, server *client.Client) Finding {
	const check = "discord: pairing"
	message := "strangers get a code for the operator to approve"
	if c.Surface.Discord.Pairing != discord.PairingCode {
		message = "strangers get no answer"
	}
	if server == nil {
		return Finding{check, OK, message + " (\"lilac pairing list\" lists the approved ones while the server runs)", ""}
	}
	found, err := client.Pairings{Client: server}.List(ctx)
	if err != nil {
		return Finding{check, Warn, message + "; cannot list the approved ones: " + fault.Plain(err), "Try \"lilac pairing list\"."}
	}
	var approved []string
	waiting := 0
	for _, one := range found {
		switch one.State {
		case pairing.Approved:
			approved = append(approved, fmt.Sprintf("%s (%s)", text.SingleLine(one.Name), one.UserID))
		case pairing.Pending:
			waiting++
		}
	}
	if len(approved) > 0 {
		message += "; approved: " + strings.Join(approved, ", ")
	}
	if waiting > 0 {
		message += fmt.Sprintf("; %d wait (lilac pairing list)", waiting)
	}
	return Finding{check, OK, message, ""}
}

// openPolicy reports which calls wait for an approval, and which are denied.
func openPolicy(c *config.Config) []Finding {
	var out []Finding
	for i, r := range c.Policy {
		any := func(list []string, all string) string {
			if len(list) == 0 {
				return all
			}
			return strings.Join(list, ", ")
		}
		f := Finding{fmt.Sprintf("policy %d", i+1), OK, fmt.Sprintf("%s: %s, for %s, %s", r.Do, any(r.Tool, "everything"), any(r.Who, "everybody"), any(r.Where, "everywhere")), ""}
		if r.Do == string(policy.Ask) {
			f.Message += "; the operator may approve"
			if approvers := any(r.Approve, any(r.Who, "")); approvers != "" {
				f.Message += ", and " + approvers
			}
		}
		out = append(out, f)
	}
	return out
}

// selected says whom a selection of people includes, or returns "" for everybody.
func selected(p discord.PeopleSettings) (text string) {
	if len(p.Allow) > 0 {
		text += ", if they are " + strings.Join(p.Allow, ", ")
	}
	if len(p.Deny) > 0 {
		text += ", except " + strings.Join(p.Deny, ", ")
	}
	return text
}

// counted returns "3 allowed channels", or nothing for zero.
func counted(n int, what string) []string {
	switch n {
	case 0:
		return nil
	case 1:
		return []string{"1 " + what}
	}
	return []string{fmt.Sprintf("%d %ss", n, what)}
}

// openWebhooks reports who can deliver events.
func (p Patient) openWebhooks() (out []Finding) {
	for _, name := range slices.Sorted(maps.Keys(p.Config.Webhooks)) {
		f := Finding{"webhook " + name, OK, "/webhooks/" + name + ", to holders of its secret", ""}
		if w := p.Config.Webhooks[name]; webhook.Form(w.Form).Replayable() && !w.BodyOnce {
			f.Message += "; who can read a delivery can repeat it"
			f.Advice = "If deliveries pass through others' hands, set bodyOnce: true."
		}
		out = append(out, f)
	}
	return out
}

// openTools reports what requests of people may use, place by place, and what named agents may.
func (p Patient) openTools() (out []Finding) {
	c := p.Config
	add := func(name string, g grant.Grant, others bool) {
		may := g.Filter(acting())
		f := Finding{"tools: " + name, OK, "reading, " + strings.Join(may, ", "), ""}
		switch len(may) {
		case len(acting()):
			f.Message = "everything"
		case 0:
			f.Message = "only reading"
		}
		if others && slices.Contains(may, "bash") {
			f.Message += "; people there can run commands in the sandbox by asking"
		}
		out = append(out, f)
	}
	// What may be used in a place where an agent answers is what both allow.
	at := func(client string, channels ...string) grant.Grant {
		g := c.SurfaceTools(client, channels...)
		if agent := c.Channel(client, channels...).Agent; agent != "" {
			g = g.And(grant.Of(c.Agents.Terms(agent).Tools))
		}
		return g
	}
	add("page", at("web"), false)
	add("terminal", at("terminal"), false)
	if d := c.Surface.Discord; d.Token.Set() || d.Meant() {
		add("discord", at("discord"), true)
		for _, id := range slices.Sorted(maps.Keys(d.Channels)) {
			if t := d.Channels[id].Tools; len(t.Allow)+len(t.Deny) > 0 || c.Channel("discord", id).Agent != "" {
				add("channel "+id, at("discord", id), true)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.V1.Tokens)) {
		add("v1 "+name, at(openaiapi.ClientPrefix+name), false)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		add("agent "+name, grant.Of(c.Agents.Terms(name).Tools), false)
	}
	return out
}

// openCommands reports what the agent's commands can reach on this machine.
func (p Patient) openCommands() Finding {
	s := p.Config.Sandbox
	if s.Mode == sandbox.ModeOff {
		return Finding{"commands", Warn, "no sandbox: they have all rights of this user, including Lilac's secrets", "Set sandbox: {mode: auto}."}
	}
	message := "in a sandbox: they write the workspace of their conversation"
	if p.Config.Workspaces.Shared {
		message = "in a sandbox: they write the workspace that all conversations share"
	} else if names := sharing(p.Config); len(names) > 0 {
		message += ", and the shared one in " + strings.Join(names, ", ")
	}
	if len(s.Writable) > 0 {
		message += " and " + strings.Join(s.Writable, ", ")
	}
	if len(s.ReadOnly) > 0 {
		message += "; they read " + strings.Join(s.ReadOnly, ", ")
	}
	return Finding{"commands", OK, message, ""}
}

// sharing returns the channels and rules that share the workspace.
func sharing(c *config.Config) (out []string) {
	says := func(shared *bool) bool { return shared != nil && *shared }
	for _, name := range slices.Sorted(maps.Keys(c.Channels)) {
		if says(c.Channels[name].Workspace.Shared) {
			out = append(out, "the channel "+name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Rules)) {
		if says(c.Rules[name].Do.Agent.Workspace.Shared) {
			out = append(out, "the rule "+name)
		}
	}
	return out
}

// openHosts reports which hosts commands can reach.
func (p Patient) openHosts() Finding {
	hosts := p.Config.Sandbox.Network.Hosts
	if p.Config.Sandbox.Mode == sandbox.ModeOff {
		return Finding{"network", Warn, "no sandbox: commands reach every host", ""}
	}
	if len(hosts) == 0 {
		return Finding{"network", OK, "commands reach no host", ""}
	}
	var names, internal []string
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		note := name
		if len(hosts[name].Headers) > 0 {
			note += " (with credentials)"
		}
		if names = append(names, note); hosts[name].Internal {
			internal = append(internal, name)
		}
	}
	f := Finding{"network", OK, "commands, and so everybody who may make the agent run them, reach " + strings.Join(names, ", "), ""}
	if len(internal) > 0 {
		f.Status, f.Advice = Warn, "These may be in your private network: "+strings.Join(internal, ", ")+". Allow only what needs no further protection there."
	}
	return f
}
