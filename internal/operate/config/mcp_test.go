package config_test

import (
	"strings"
	"testing"
	"time"

	"lilac/internal/operate/config"
)

// Blocks from the files of other products work as they are.
func TestBlocksOfOtherProductsWorkVerbatim(t *testing.T) {
	c, _, err := loadText(t, `
"mcpServers": {
  "Sequential Thinking": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-sequential-thinking"], "disabled": false, "autoApprove": ["think"], "timeout": 60},
  "github": {"type": "streamable-http", "url": "https://api.example.org/mcp/", "headers": {"Authorization": "Bearer ${env:GITHUB_TOKEN}"}, "timeout": 30000},
  "local": {"command": "node", "args": ["${DIR:-/srv}/index.js"], "env": {"KEY": "${GITHUB_TOKEN}"}, "cwd": "."}
}
surface: {web: {tools: {deny: [mcp.github.deleteRepo, mcp.sequential-thinking.*]}}}
`, map[string]string{"GITHUB_TOKEN": "canary-token"})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.MCPServers["github"]; time.Duration(got.Timeout) != 30*time.Second || got.Headers["Authorization"].Reveal() != "Bearer canary-token" {
		t.Errorf("github is %+v", got)
	}
	if got := c.MCPServers["Sequential Thinking"]; time.Duration(got.Timeout) != time.Minute || len(got.Args) != 2 {
		t.Errorf("sequential thinking is %+v", got)
	}
	if got := c.MCPServers["local"]; got.Args[0] != "/srv/index.js" || got.Env["KEY"].Reveal() != "canary-token" {
		t.Errorf("local is %+v", got)
	}
	if shown, err := c.JSON(); err != nil || strings.Contains(string(shown), "canary") {
		t.Errorf("the configuration shows the token: %s, %v", shown, err)
	}
	if !config.Live("mcpServers") {
		t.Error("a change needs a restart")
	}
}

// A mistake in one server must not keep everything else from working.
func TestMistakesInMCPServersAreWarnings(t *testing.T) {
	for text, want := range map[string]string{
		`{a b: {command: x}, a-b: {command: y}}`:      "would both be called mcp.a-b",
		`{"!": {command: x}}`:                         "is not a name for an MCP server",
		`{a: {}}`:                                     "needs a command",
		`{a: {command: x, url: "https://a.example"}}`: "it can have one of them",
		`{a: {type: ws, url: "https://a.example"}}`:   "stdio, http, or sse",
		`{a: {url: "ftp://a.example"}}`:               "is not an address",
		`{a: {url: "https://me:pw@a.example"}}`:       "is not an address",
		`{a: {command: x, hosts: ["https://b"]}}`:     "is not a host",
		`{a: {command: x, env: {"A=B": c}}}`:          "environment variable",
		`{a: {command: x, workspace: all}}`:           "write, read, or none",
		`{a: {command: x, timeout: 2h}}`:              "timeout",
		`{a: {command: x, memory: 1MiB}}`:             "128MiB",
		`{a: {command: x, memory: many}}`:             "many",
		`{a: {command: x, timeout: soon}}`:            "soon",
		`{a: {command: x, args: y}}`:                  "args",
		`{a: {command: x, env: {K: "${UNSET}"}}}`:     "UNSET",
		`{a: {command: x, rules: [none]}}`:            "no rule",
		`{a: x}`:                                      "mcpServers.a",
	} {
		c, warnings, err := loadText(t, "mcpServers: "+text, nil)
		if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0].String(), want) || !strings.Contains(warnings[0].String(), "config.yaml:") {
			t.Errorf("%s: %v, %v, want %q", text, warnings, err, want)
			continue
		}
		for name, server := range c.MCPServers {
			if !server.Broken {
				t.Errorf("%s: %s starts", text, name)
			}
		}
	}
}

func TestABrokenMCPServerLeavesTheOthers(t *testing.T) {
	c, warnings, err := loadText(t, "mcp: {pin: [mcp.text.find]}\nmcpServers: {good: {command: x}, my: {command: x}, my.server: {url: \"${UNSET}\"}, text: y, off: {disabled: true, url: \"${UNSET}\"}}", nil)
	if err != nil || len(warnings) != 3 {
		t.Fatalf("%v, %v", warnings, err)
	}
	for name, s := range c.MCPServers {
		if s.Broken == (name == "good" || name == "my") {
			t.Errorf("%s is %+v", name, s)
		}
	}
	if len(c.MCPServers) != 5 || !c.MCPServers["off"].Disabled {
		t.Errorf("the servers are %+v", c.MCPServers)
	}
	if _, _, err := loadText(t, "mcpServers: [a]", nil); err == nil {
		t.Error("a list of servers is accepted")
	}
}

func TestAPatternForAnUnknownMCPServerIsWarnedAbout(t *testing.T) {
	_, warnings, err := loadText(t, "mcpServers: {github: {command: x}}\nsurface: {web: {tools: {allow: [mcp, mcp.github, mcp.github.a_b, mcp.gitub.x]}}}", nil)
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0].Message, "mcp.gitub.x") {
		t.Errorf("the warnings are %v, %v", warnings, err)
	}
}

func TestPinnedToolsAreChecked(t *testing.T) {
	for pin, want := range map[string]string{
		"mcp.github.search": "", "mcp.github.a_b-C": "",
		"mcp.gitub.search":                      "did you mean",
		"mcp.github":                            "can be pinned",
		"bash":                                  "can be pinned",
		"mcp.github.a.b":                        "can be pinned",
		"mcp.github." + strings.Repeat("x", 60): "can be pinned",
	} {
		c, warnings, err := loadText(t, "mcpServers: {github: {command: x}}\nmcp: {pin: ["+pin+"]}", nil)
		if err != nil || c.MCPServers["github"].Broken || (len(warnings) == 0) != (want == "") {
			t.Errorf("%s: %v, %v, want %q", pin, warnings, err, want)
			continue
		}
		if want != "" && (len(warnings) != 1 || !strings.Contains(strings.ToLower(warnings[0].String()), want) || !strings.Contains(warnings[0].String(), "config.yaml:")) {
			t.Errorf("%s: %v, want %q", pin, warnings, want)
		}
	}
}

// A server that works must not end because somebody writes in its entry.
func TestAMistakeInAnEntryKeepsTheServerThatRuns(t *testing.T) {
	load := func(text string) *config.Config {
		c, _, err := loadText(t, "mcpServers: "+text, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	old := load(`{wiki: {url: "https://a.example", channels: [ops]}, off: {command: x, disabled: true}, bad: {}, gone: {command: x}}`)
	merged, _ := old.Adopt(load(`{wiki: {url: "ftp://a.example", channels: []}, off: {timeout: soon}, bad: {}, new: {command: x}}`))
	if got := merged.MCPServers["wiki"]; got.Broken || got.URL != "https://a.example" || len(got.Channels) != 1 {
		t.Errorf("wiki is %+v", got)
	}
	for _, name := range []string{"off", "bad"} {
		if !merged.MCPServers[name].Broken {
			t.Errorf("%s is %+v", name, merged.MCPServers[name])
		}
	}
	if len(merged.MCPServers) != 4 || merged.MCPServers["new"].Command != "x" {
		t.Errorf("the servers are %+v", merged.MCPServers)
	}
	if mended, _ := merged.Adopt(load(`{wiki: {url: "https://b.example"}}`)); mended.MCPServers["wiki"].URL != "https://b.example" || len(mended.MCPServers) != 1 {
		t.Errorf("after the mistake is mended: %+v", mended.MCPServers)
	}
}
