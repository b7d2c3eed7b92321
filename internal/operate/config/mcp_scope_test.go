package config

import (
	"strings"
	"testing"

	"lilac/internal/agent/mcpclient"
)

func TestAServerIsForItsChannelsAndRules(t *testing.T) {
	c := Default()
	c.Entity.Sessions.Discord = map[string]string{"ops": "7"}
	c.MCPServers = map[string]mcpclient.ServerConfig{
		"all": {URL: "https://a.example.org"}, "pager": {URL: "https://b.example.org", Channels: []string{"ops", "8"}, Rules: []string{"alarm"}}, "page": {URL: "https://c.example.org", Channels: []string{"web"}},
	}
	for _, one := range []struct {
		client   string
		rules    []string
		channels []string
		want     string
	}{
		{"web", nil, []string{"s"}, "all page"},
		{"web", []string{"alarm"}, []string{"s"}, "all page pager"},
		{"web", []string{"alarm", "other"}, []string{"s"}, "all page"},
		{"discord", nil, []string{"7"}, "all pager"},
		{"discord", nil, []string{"99", "8"}, "all pager"},
		{"discord", nil, []string{"9"}, "all"},
		{"sub", nil, []string{"sub-1"}, "all"},
	} {
		g := MCPGrant(c, one.client, one.rules, one.channels...)
		var may []string
		for _, name := range []string{"all", "page", "pager"} {
			if g.Allows("mcp." + name + ".tool") {
				may = append(may, name)
			}
		}
		if got := strings.Join(may, " "); got != one.want {
			t.Errorf("%+v may use %q", one, got)
		}
	}
	if !MCPGrant(Default(), "web", nil, "s").Allows("mcp.x.y") {
		t.Error("without such servers, something is refused")
	}
	c.Rules = nil
	if err := (checker{c}).checkMCP(); err == nil || !strings.Contains(err.Error(), `no rule "alarm"`) {
		t.Errorf("a rule that does not exist: %v", err)
	}
}
