package setup

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
)

const commented = `# Our Lilac.
model: demo  # for now

# People talk here.
surface:
  discord:
    mode: mention # only when asked
    allowedChannelIds:
    - "1"
    - "2"   # general

  # The page.
  web: {tools: {deny: [bash]}}
rules:
limits:
  request:
    steps: 50
# The end.
`

func TestEdit(t *testing.T) {
	many := yaml.MapSlice{{Key: "when", Value: yaml.MapSlice{{Key: "type", Value: "timer.fired"}}}}
	for name, c := range map[string]struct {
		text   string
		change Change
		// old and new are the parts that differ; if old is empty, new is the whole result.
		old, new string
	}{
		"a value is replaced, with its comment": {commented, set("model", "openai/gpt-5.4"), "model: demo  # for now", "model: openai/gpt-5.4  # for now"},
		"a nested value":                        {commented, set("surface.discord.mode", "active"), "mode: mention # only", "mode: active  # only"},
		"a list at the indentation of its key": {
			commented, set("surface.discord.allowedChannelIds", []string{"3"}), "    - \"1\"\n    - \"2\"   # general\n", "      - \"3\"\n",
		},
		"a new key in a section":     {commented, set("surface.discord.token", "${DISCORD_TOKEN}"), "# general\n", "# general\n    token: ${DISCORD_TOKEN}\n"},
		"a new section in a section": {commented, set("surface.terminal.tools.deny", []string{"bash"}), "{deny: [bash]}}\n", "{deny: [bash]}}\n  terminal:\n    tools:\n      deny:\n        - bash\n"},
		"a key in braces":            {commented, set("surface.web.tools.allow", []string{"read"}), "web: {tools: {deny: [bash]}}", "web:\n    tools:\n      deny:\n        - bash\n      allow:\n        - read"},
		"a section without a value":  {commented, set("rules.morning", many), "rules:\n", "rules:\n  morning:\n    when:\n      type: timer.fired\n"},
		"a new key at the end":       {commented, set("system", "Be brief."), "steps: 50\n", "steps: 50\n\nsystem: Be brief.\n"},
		"a removed key":              {commented, Change{Path: []string{"limits", "request", "steps"}}, "    steps: 50\n", ""},
		"a removed section":          {commented, Change{Path: []string{"surface"}}, commented[strings.Index(commented, "surface:"):strings.Index(commented, "rules:")], ""},
		"a key that is not there":    {commented, Change{Path: []string{"catalog"}}, "x", "x"},
		"an empty file":              {"", set("model", "demo"), "", "model: demo\n"},
		"only comments":              {"# Nothing yet.\n", set("model", "demo"), "", "# Nothing yet.\n\nmodel: demo\n"},
		"no line break at the end":   {"model: demo", set("system", "x"), "", "model: demo\n\nsystem: x\n"},
		"Windows line breaks":        {"model: demo\r\nsystem: x\r\n", set("model", "a/b"), "", "model: a/b\r\nsystem: x\r\n"},
		"a byte order mark":          {"\ufeffmodel: demo\n", set("model", "a/b"), "", "\ufeffmodel: a/b\n"},
		"a text of several lines":    {"system: |\n  # Not a comment.\n  Second.\nmodel: demo\n", set("system", "x"), "", "system: x\nmodel: demo\n"},
		"a number that is a text":    {"surface:\n  discord: {}\n", set("surface.discord.allowedGuildIds", []string{"123"}), "", "surface:\n  discord:\n    allowedGuildIds:\n      - \"123\"\n"},
		"indented by four":           {"surface:\n    discord:\n        mode: mention\n", set("surface.discord.allowDMs", true), "", "surface:\n    discord:\n        mode: mention\n        allowDMs: true\n"},
	} {
		t.Run(name, func(t *testing.T) {
			want := c.new
			if c.old != "" {
				want = strings.Replace(c.text, c.old, c.new, 1)
			}
			got, err := Edit(c.text, c.change)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("error %v; want -, got +:\n%s", err, diff)
			}
		})
	}
}

// A file that Edit does not understand is refused with what to write, and not damaged.
func TestEditRefusesWhatItDoesNotUnderstand(t *testing.T) {
	for name, text := range map[string]string{
		"an alias":            "a: &x {mode: mention}\nsurface:\n  discord: *x\n",
		"braces around all":   "{model: demo}\n",
		"braces that dangle":  "surface: {\n  discord: {mode: mention}\n}\nmodel: demo\n",
		"a text, not section": "surface: nothing\n",
		"a list, not section": "surface:\n  discord: [mention]\n",
		"two documents":       "model: demo\n---\nmodel: demo\n",
		"a mistake":           "model: [demo\n",
	} {
		if got, err := Edit(text, set("surface.discord.mode", "active")); err == nil {
			t.Errorf("%s: edited to\n%s", name, got)
		}
	}
}
