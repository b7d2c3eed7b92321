package relay

import (
	"strings"
	"testing"
)

// A quote of many lines ends with its message, so each further message begins it again. In
// code, its mark is text.
func TestAQuoteOfManyLinesGoesOnInTheNextMessage(t *testing.T) {
	words := strings.Repeat("some quoted words ", 20)
	for name, c := range map[string]struct {
		text string
		// prefix and suffix are those of the second message.
		prefix, suffix string
	}{
		"a quote":                   {"He said:\n>>> " + words, ">>> ", ""},
		"its mark within a line":    {"a >>> " + words, "", ""},
		"its mark in code":          {"```\n>>> " + words + "\n```", "```\n", "\n```"},
		"code in it":                {">>> ```go\n" + strings.Repeat("x := 1\n", 80) + "```", ">>> ```go\n", "\n```"},
		"code below its first line": {">>> look:\n```go\n" + strings.Repeat("x := 1\n", 80) + "```", ">>> ```go\n", "\n```"},
		"a spoiler in it":           {">>> ||" + words + "||", ">>> ||", "||"},
		"control: a quoted line":    {"> " + words, "> ", ""},
	} {
		t.Run(name, func(t *testing.T) {
			pieces := Split(c.text, 150)
			if len(pieces) < 3 || pieces[0].Prefix != "" || pieces[1].Prefix != c.prefix || pieces[1].Suffix != c.suffix {
				t.Errorf("%q", pieces)
			}
			var all strings.Builder
			for _, p := range pieces {
				all.WriteString(p.Source)
				if n := units(p.Prefix + p.Source + p.Suffix); n > 150+len(p.Source)-len(strings.TrimSpace(p.Source)) {
					t.Errorf("a message has %d units: %q", n, p)
				}
			}
			if all.String() != c.text {
				t.Error("the pieces are not the text")
			}
		})
	}
}
