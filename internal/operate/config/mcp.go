package config

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"lilac/internal/agent/mcpclient"
	"lilac/internal/foundation/fault"
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
			found = append(found, fault.InvalidField(field, "The MCP servers %q and %q would both be called mcp.%s. Rename one of them.", other, key, name))
		}
		used[name] = key
		found = append(found, c.MCPServers[key].Check(field))
	}
	return errors.Join(found...)
}

// MCPNames returns the names of the MCP servers, as callables have them.
func (c *Config) MCPNames() (out []string) {
	for _, key := range slices.Sorted(maps.Keys(c.MCPServers)) {
		out = append(out, mcpclient.Name(key))
	}
	return out
}

// mcpPrefixes returns the beginnings of the names of MCP callables.
func mcpPrefixes(c *Config) (out []string) {
	for _, name := range c.MCPNames() {
		out = append(out, "mcp."+name)
	}
	return out
}

// foreign reports whether a pattern is about tools of an MCP server. Their names are only
// known to the server.
func foreign(pattern, server string) bool {
	return strings.HasPrefix(server, "mcp.") && strings.HasPrefix(pattern, server+".")
}
