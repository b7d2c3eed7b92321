package config

import (
	"net/url"
	"strings"

	"lilac/internal/foundation/fault"
)

// Node configures this process as one of several nodes on the same PostgreSQL database.
type Node struct {
	URL string `json:"url,omitempty" jsonschema:"The address at which the other nodes reach this one, such as http://10.0.0.5:7420. While another node is active, this one then answers requests by passing them on to it, and runs commands of the agent for it. All nodes need the same LILAC_TOKEN, and share the directories of workspaces. Keep the traffic between nodes in a private network, or use https:// with a proxy in front of each node."`
}

// checkNode rejects an address that no other node can use.
func (c checker) checkNode() error {
	if c.Node.URL == "" {
		return nil
	}
	u, err := url.Parse(c.Node.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return fault.InvalidField("node.url", "The address %q of this node is not of the form http://host:port.", c.Node.URL)
	}
	if !c.Database.URL.Postgres() {
		return fault.InvalidField("node.url", "Several nodes need a database on PostgreSQL: set LILAC_DB_URL.")
	}
	if !c.Token.Set() {
		return fault.InvalidField("node.url", "Nodes recognize each other by the operator's token: set LILAC_TOKEN to the same token on all of them.")
	}
	return nil
}
