package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lilac/internal/agent/mcpclient"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
	"lilac/internal/foundation/lazyregexp"
)

// checkMCP validates the MCP servers.
func (c checker) checkMCP() error {
	var found []error
	if len(c.MCPServers) > mcpclient.MaxServers {
		found = append(found, fault.InvalidField("mcpServers", "There are more than %d MCP servers.", mcpclient.MaxServers))
	}
	used := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(c.MCPServers)) {
		field, name := "mcpServers."+key, mcpclient.Name(key)
		switch other, taken := used[name]; {
		case name == "" || len(name) > 64:
			found = append(found, fault.InvalidField(field, "%q is not a name for an MCP server: use 1 to 64 letters, digits, _ and -.", key))
		case taken:
			found = append(found, fault.InvalidField(field, "The MCP servers %q and %q would both be called mcp.%s, so neither starts. Rename one of them.", other, key, name))
		}
		used[name] = key
		found = append(found, c.MCPServers[key].Check(field))
		for i, rule := range c.MCPServers[key].Rules {
			if _, ok := c.Rules[rule]; !ok {
				found = append(found, fault.InvalidField(fmt.Sprintf("%s.rules[%d]", field, i), "There is no rule %q.%s", rule, fault.DidYouMean(rule, slices.Collect(maps.Keys(c.Rules)))))
			}
		}
	}
	if len(c.MCP.Pin) > maxPinned {
		found = append(found, fault.InvalidField("mcp.pin", "There are more than %d pinned tools. Every model call contains them.", maxPinned))
	}
	for i, id := range c.MCP.Pin {
		field := fmt.Sprintf("mcp.pin[%d]", i)
		switch server, tool, ok := SplitMCP(id); {
		case !ok:
			found = append(found, fault.InvalidField(field, "%q is not a tool of an MCP server that can be pinned: use mcp.SERVER.TOOL, with a tool whose name has only letters, digits, _ and -, and at most 64 characters with its server.", id))
		case !slices.Contains(MCPNames(c.MCPServers), server) && !c.unreadable("mcpServers"):
			found = append(found, fault.InvalidField(field, "There is no MCP server %q for the tool %s.%s", server, tool, fault.DidYouMean(server, MCPNames(c.MCPServers))))
		}
	}
	return errors.Join(found...)
}

// breakMCP makes warnings of the mistakes in the entries of single MCP servers and pinned tools: everything else works
// without them. It marks these servers, or leaves them out if their names can't be used.
func (c reader) breakMCP(mistakes []mistake) (others []mistake, warnings []Warning) {
	for _, m := range mistakes {
		if strings.HasPrefix(m.key, "mcp.pin[") {
			warnings = append(warnings, Warning{Message: fmt.Sprintf("%s Nothing is pinned for it.", m.err)})
			continue
		}
		key, inside := strings.CutPrefix(m.key, "mcpServers.")
		if !inside {
			others = append(others, m)
			continue
		}
		within := ""
		for known := range c.MCPServers { // their names may have dots
			if touches(known, key) && len(known) <= len(key) && len(known) > len(within) {
				within = known
			}
		}
		key = cmp.Or(within, key)
		if _, read := c.MCPServers[key]; !read {
			c.MCPServers[key] = mcpclient.ServerConfig{}
		}
		name := mcpclient.Name(key)
		for other, entry := range c.MCPServers { // rights that are given to a name must not go to another server
			if mcpclient.Name(other) == name {
				entry.Broken = true
				c.MCPServers[other] = entry
			}
		}
		if keys := slices.Collect(maps.Keys(c.MCPServers)); name == "" || slices.ContainsFunc(keys, func(other string) bool { return other < key && mcpclient.Name(other) == name }) {
			delete(c.MCPServers, key)
		}
		warnings = append(warnings, Warning{Message: fmt.Sprintf("%s The MCP server %s does not start; if it runs, it keeps its settings from before.", m.err, key)})
	}
	return others, warnings
}

// keepServers returns the servers of a new configuration. Those that work keep their old entry, with all that it allows and
// forbids, while the new one has a mistake.
func keepServers(old, next map[string]mcpclient.ServerConfig) map[string]mcpclient.ServerConfig {
	out := maps.Clone(next)
	for key, entry := range next {
		if before, known := old[key]; known && entry.Broken && !before.Disabled {
			out[key] = before
		}
	}
	return out
}

// MCPGrant returns which MCP servers a request may not use, because they are for other
// channels and rules. rules are those whose events the request handles, and channels the ids
// of its channel and of the channel of its thread.
func MCPGrant(c *Config, client string, rules []string, channels ...string) grant.Grant {
	t := grant.Tools{From: "mcpServers"}
	for _, key := range slices.Sorted(maps.Keys(c.MCPServers)) {
		s := c.MCPServers[key]
		if len(s.Channels)+len(s.Rules) == 0 {
			continue
		}
		here := slices.ContainsFunc(s.Channels, func(name string) bool {
			id, named := c.Entity.Sessions.Discord[name]
			return name == client || slices.Contains(channels, name) || named && slices.Contains(channels, id)
		})
		handled := len(rules) > 0 && !slices.ContainsFunc(rules, func(rule string) bool { return !slices.Contains(s.Rules, rule) })
		if !here && !handled {
			t.Deny = append(t.Deny, "mcp."+mcpclient.Name(key))
		}
	}
	if len(t.Deny) == 0 {
		return nil
	}
	return grant.Of(t)
}

// maxPinned bounds the pinned tools: they are part of every model call.
const maxPinned = 32

var pinnedForm = lazyregexp.New(`^mcp\.([a-z0-9_-]+)\.([A-Za-z0-9_-]+)$`)

// SplitMCP splits the callable of a tool that can be pinned into its server and tool.
func SplitMCP(id string) (server, tool string, ok bool) {
	m := pinnedForm().FindStringSubmatch(id)
	// The APIs of models allow names of 64 characters.
	if m == nil || strings.Contains(m[1], "__") || len(grant.PinnedName(m[1], m[2])) > 64 {
		return "", "", false
	}
	return m[1], m[2], true
}

// MCPNames returns the names of MCP servers, as callables have them, sorted by their keys.
func MCPNames(servers map[string]mcpclient.ServerConfig) (out []string) {
	for _, key := range slices.Sorted(maps.Keys(servers)) {
		out = append(out, mcpclient.Name(key))
	}
	return out
}

// mcpNames returns the beginnings of the names of MCP callables.
func mcpNames(c *Config) (out []string) {
	for _, name := range MCPNames(c.MCPServers) {
		out = append(out, "mcp."+name)
	}
	return out
}

// foreign reports whether a pattern is about tools of an MCP server. Their names are only
// known to the server.
func foreign(pattern, server string) bool {
	return strings.HasPrefix(server, "mcp.") && strings.HasPrefix(pattern, server+".")
}
