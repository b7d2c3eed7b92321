package relay_test

import (
	"strings"
	"testing"

	"lilac/internal/core/relay"
	"lilac/internal/foundation/event"
)

func TestTablesAreReadable(t *testing.T) {
	wide := strings.Repeat("w", 60)
	little := "|a|" + wide + wide + "|\n|-|-|\n" + strings.Repeat("|1|2|\n", 100)
	hollow := "|a|b|\n|-|-|\n|" + wide + "|x|\n" + strings.Repeat("|1|2|\n", 100)
	for name, c := range map[string][2]string{
		"a table is drawn":                       {"| x | long |\n|---|:-:|\n| 1 | 2 |", "```\nx  long\n─  ────\n1  2\n```"},
		"also without borders":                   {"x | y\n- | -\n1 | 2\nend", "```\nx  y\n─  ─\n1  2\n```\nend"},
		"a cell may be missing, or one too many": {"|a|b|\n|-|-|\n|1|\n|1|2|3|", "```\na  b\n─  ─────\n1\n1  2 | 3\n```"},
		"a border in a cell is none":             {"|a|b|\n|-|-|\n|x \\| y|`z`|", "```\na      b\n─────  ───\nx | y  `z`\n```"},
		"a border in code is none if it would be one too many": {
			"| op | meaning |\n|---|---|\n| `a || b` | logical or |\n| `` x`|y `` | ticks |",
			"```\nop          meaning\n──────────  ──────────\n`a || b`    logical or\n`` x`|y ``  ticks\n```",
		},
		"a single tick opens no code":           {"|a|b|\n|-|-|\n|`|x|y|", "```\na  b\n─  ─────\n`  x | y\n```"},
		"without rows it stays as it is":        {"See\n| [docs](https://e.org) | b |\n|---|---|", "See\n| [docs](https://e.org) | b |\n|---|---|"},
		"also alone":                            {"| [docs](https://e.org) | b |\n|---|---|", "| [docs](https://e.org) | b |\n|---|---|"},
		"a list that says little stays a table": {little, strings.TrimSpace(little)},
		"a drawing that is mostly space, too":   {hollow, strings.TrimSpace(hollow)},
		"characters as wide as two":             {"|a|b|\n|-|-|\n|日本|x|\n|abc|y|", "```\na     b\n────  ─\n日本  x\nabc   y\n```"},
		"one that is too wide is a list":        {"|a|b|\n|-|-|\n|" + wide + "|" + wide + "|", "- **a**: " + wide + "\n  - **b**: " + wide},
		"one with links is a list":              {"|a|b|\n|-|-|\n|x|[y](https://e.org/z)|", "- **a**: x\n  - **b**: [y](https://e.org/z)"},
		"one with mentions is a list":           {"|a|b|\n|-|-|\n|x|<@7>|", "- **a**: x\n  - **b**: <@7>"},
		"in code it stays as it is":             {"```\n|a|b|\n|-|-|\n|1|2|\n```", "```\n|a|b|\n|-|-|\n|1|2|\n```"},
		"a line with a bar is no table":         {"a | b\nc | d", "a | b\nc | d"},
	} {
		t.Run(name, func(t *testing.T) {
			views := relay.Render(output(event.FinalText{FinalText: c[0]}), "", nil, &relay.End{State: event.StateDone}, relay.Made{}, settings)
			if len(views) != 1 || views[0].Text != c[1] {
				t.Errorf("shown %+v, want %q", views, c[1])
			}
		})
	}
}
