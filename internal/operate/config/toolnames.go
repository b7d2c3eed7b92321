package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
)

// ToolNames restricts the tools and callables that requests may use.
type ToolNames struct {
	Allow []string `json:"allow,omitempty" jsonschema:"The only tools and callables that may be used: names (bash, surface.messages.send; a name includes the names below it, so workflow includes workflow.schedule), prefixes (surface.messages.*), or *. Default: all."`
	Deny  []string `json:"deny,omitempty" jsonschema:"Tools and callables that must not be used, even if allow lists them."`
}

func (t ToolNames) empty() bool { return len(t.Allow)+len(t.Deny) == 0 }

func (t ToolNames) grant(from string) grant.Tools {
	return grant.Tools{From: from, Allow: t.Allow, Deny: t.Deny}
}

func (t ToolNames) check(field string) error {
	var found []error
	for key, patterns := range map[string][]string{"allow": t.Allow, "deny": t.Deny} {
		for i, p := range patterns {
			found = append(found, grant.CheckPattern(fmt.Sprintf("%s.%s[%d]", field, key, i), p))
		}
	}
	return errors.Join(found...)
}

// WebhookTools returns what the requests of a webhook may use; zero for the default.
func (c *Config) WebhookTools(name string) grant.Tools {
	return c.Webhooks[name].Tools.grant("the webhook " + name)
}

// SurfaceTools returns what requests of a client may use in a channel or in the channel of
// a thread.
func (c *Config) SurfaceTools(client string, channels ...string) grant.Grant {
	switch client {
	case "discord":
		g := grant.Of(c.Surface.Discord.Tools.grant("surface.discord.tools"))
		for _, id := range channels {
			g = g.And(grant.Of(c.Surface.Discord.Channels[id].Tools.grant("the channel " + id)))
		}
		return g
	case "web":
		return grant.Of(c.Surface.Web.Tools.grant("surface.web.tools"))
	case "terminal":
		return grant.Of(c.Surface.Terminal.Tools.grant("surface.terminal.tools"))
	}
	return nil
}

// ClientOfChannel returns the surface of a channel that the configuration names.
func (c *Config) ClientOfChannel(id string) (client string, ok bool) {
	_, ok = c.Surface.Discord.Channels[id]
	return "discord", ok || id != "" && slices.Contains(c.Surface.Discord.AllowedChannelIDs, id)
}

// KnownTools lists the tools and callables that exist, to find mistyped names. A test
// compares it with the program.
var KnownTools = []string{
	"attachment_add", "attachment_download", "bash", "edit", "get_event_info", "glob", "grep", "read", "task", "write",
	"attachment.add", "attachment.download", "events.publish",
	"surface.messages.delete", "surface.messages.edit", "surface.messages.list", "surface.messages.read", "surface.messages.search", "surface.messages.send",
	"surface.reactions.add", "surface.reactions.list", "surface.reactions.remove", "surface.sessions.list",
	"task.list", "task.output", "task.start", "task.stop",
	"workflow.cancel", "workflow.create", "workflow.get", "workflow.list", "workflow.schedule", "workflow.send_and_wait", "workflow.task.create", "workflow.wait_for_reply",
}

// toolLists returns all settings with names of tools, by key.
func (c *Config) toolLists() map[string]ToolNames {
	out := map[string]ToolNames{
		"surface.discord.tools": c.Surface.Discord.Tools, "surface.web.tools": c.Surface.Web.Tools, "surface.terminal.tools": c.Surface.Terminal.Tools,
	}
	for name, r := range c.Rules {
		out["rules."+name+".tools"] = r.Tools
	}
	for name, w := range c.Webhooks {
		out["webhooks."+name+".tools"] = w.Tools
	}
	for id, channel := range c.Surface.Discord.Channels {
		out["surface.discord.channels."+id+".tools"] = channel.Tools
	}
	return out
}

// mistypedTools warns about patterns that match nothing that exists. They are not mistakes,
// because later versions may have more tools.
func (c *Config) mistypedTools() (found []Warning) {
	lists := c.toolLists()
	for _, key := range slices.Sorted(maps.Keys(lists)) {
		for _, p := range slices.Concat(lists[key].Allow, lists[key].Deny) {
			if slices.ContainsFunc(KnownTools, func(name string) bool { return grant.Match(p, name) }) {
				continue
			}
			at, ok := c.places[key]
			if !ok {
				at = place{1, 1}
			}
			hint := ""
			if meant := fault.Slip(p, KnownTools); meant != "" {
				hint = fmt.Sprintf(", did you mean %q?", meant)
			}
			found = append(found, Warning{File: c.File, Line: at.Line, Column: at.Column, Message: fmt.Sprintf("%s has %q, which is no tool or callable%s", key, p, hint)})
		}
	}
	return found
}
