package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
	"lilac/internal/serve/openaiapi"
)

// SourceTools implements [environment.SourceTools].
func (c *Config) SourceTools(origin event.Type, name string) grant.Tools {
	if origin == event.SourceReceived {
		return c.Sources[name].Tools.Tools("the source " + name)
	}
	return c.Webhooks[name].Tools.Tools("the webhook " + name)
}

// SurfaceTools returns what requests of a client may use in a channel or in the channel of
// a thread.
func (c *Config) SurfaceTools(client string, channels ...string) grant.Grant {
	switch client {
	case "discord":
		g := grant.Of(c.Surface.Discord.Tools.Tools("surface.discord.tools"))
		for _, id := range channels {
			g = g.And(grant.Of(c.Surface.Discord.Channels[id].Tools.Tools("the channel " + id)))
		}
		return g
	case "web":
		return grant.Of(c.Surface.Web.Tools.Tools("surface.web.tools"))
	case "terminal", "acp":
		return grant.Of(c.Surface.Terminal.Tools.Tools("surface.terminal.tools"))
	}
	if name, ok := strings.CutPrefix(client, openaiapi.ClientPrefix); ok {
		program, known := c.V1.Tokens[name]
		if !known { // the operator removed the token
			return grant.Of(grant.Tools{From: "v1.tokens", Allow: grant.Reading})
		}
		return grant.Of(program.Tools.Tools("v1.tokens." + name + ".tools"))
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
	"ask", "attachment_add", "attachment_download", "bash", "edit", "get_event_info", "glob", "grep", "read", "task", "write",
	"attachment.add", "attachment.download", "events.publish",
	"memory.forget", "memory.list", "memory.recall", "memory.remember", "memory.search",
	"skills.read",
	"surface.messages.delete", "surface.messages.edit", "surface.messages.list", "surface.messages.read", "surface.messages.search", "surface.messages.send",
	"surface.reactions.add", "surface.reactions.list", "surface.reactions.remove", "surface.sessions.list",
	"task.list", "task.output", "task.start", "task.stop",
	"web.fetch", "web.search",
	"workflow.cancel", "workflow.create", "workflow.get", "workflow.list", "workflow.schedule", "workflow.send_and_wait", "workflow.task.create", "workflow.wait_for_reply",
}

// toolLists returns all settings with names of tools, by key.
func (c *Config) toolLists() map[string]grant.Config {
	out := map[string]grant.Config{
		"surface.discord.tools": c.Surface.Discord.Tools, "surface.web.tools": c.Surface.Web.Tools, "surface.terminal.tools": c.Surface.Terminal.Tools,
		"accounts.member.tools": c.Accounts.Member.Tools,
	}
	for name, program := range c.V1.Tokens {
		out["v1.tokens."+name+".tools"] = program.Tools
	}
	for name, r := range c.Rules {
		out["rules."+name+".tools"] = r.Tools
	}
	for name, w := range c.Webhooks {
		out["webhooks."+name+".tools"] = w.Tools
	}
	for name, s := range c.Sources {
		out["sources."+name+".tools"] = s.Tools
	}
	for name, a := range c.Agents {
		out["agents."+name+".tools"] = a.Tools
	}
	for id, channel := range c.Surface.Discord.Channels {
		out["surface.discord.channels."+id+".tools"] = channel.Tools
	}
	return out
}

// mistypedTools warns about patterns that match nothing that exists. They are not mistakes,
// because later versions may have more tools.
func (c reader) mistypedTools() (found []Warning) {
	lists := c.toolLists()
	known := slices.Concat(KnownTools, mcpNames(c.Config))
	for _, key := range slices.Sorted(maps.Keys(lists)) {
		for _, p := range slices.Concat(lists[key].Allow, lists[key].Deny) {
			if slices.ContainsFunc(known, func(name string) bool { return grant.Match(p, name) || foreign(p, name) }) {
				continue
			}
			at, ok := c.places[key]
			if !ok {
				at = place{1, 1}
			}
			hint := ""
			if meant := fault.Slip(p, known); meant != "" {
				hint = fmt.Sprintf(", did you mean %q?", meant)
			}
			found = append(found, Warning{File: c.File, Line: at.Line, Column: at.Column, Message: fmt.Sprintf("%s has %q, which is no tool or callable%s", key, p, hint)})
		}
	}
	return found
}
