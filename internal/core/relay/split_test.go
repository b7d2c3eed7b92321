package relay_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/relay"
)

func shown(pieces []relay.Piece) (out []string) {
	for _, p := range pieces {
		out = append(out, p.String())
	}
	return out
}

func TestSplitCutsAtTheBestPlace(t *testing.T) {
	a, b := strings.Repeat("a", 60), strings.Repeat("b", 60)
	link := "https://example.org/" + strings.Repeat("x", 40)
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"a short text stays whole":           {"hello", []string{"hello"}},
		"nothing makes no message":           {"", nil},
		"white space makes no message":       {" \n\n ", nil},
		"between paragraphs":                 {a + "\nx\n\n" + b, []string{a + "\nx", b}},
		"between lines":                      {a + "\n" + b, []string{a, b}},
		"between sentences":                  {a + ". x " + b, []string{a + ".", "x " + b}},
		"between words":                      {a + " x " + b, []string{a + " x", b}},
		"a long word between its characters": {a + b, []string{a + strings.Repeat("b", 40), strings.Repeat("b", 20)}},
		"a link stays whole":                 {a + " " + link + " end", []string{a, link + " end"}},
		"a titled link stays whole":          {a + " [of two words](" + link[:40] + ") x", []string{a, "[of two words](" + link[:40] + ") x"}},
		"a code span stays whole": {
			a + " ``of ` " + b[:40] + "`` x",
			[]string{a, "``of ` " + b[:40] + "`` x"},
		},
		"a code span that fits no message is cut between words": {
			"`" + a + " " + b + " x`",
			[]string{"`" + a, b + " x`"},
		},
		"backticks of different lengths enclose no code span": {
			a + " ``x` y`` " + b + " ``` end",
			[]string{a + " ``x` y``", b + " ``` end"},
		},
		"a family stays together": {strings.Repeat("a", 95) + "👨‍👩‍👧‍👦", []string{strings.Repeat("a", 95), "👨‍👩‍👧‍👦"}},
		"a flag stays whole":      {strings.Repeat("🇩🇪", 25) + "🇫🇷", []string{strings.Repeat("🇩🇪", 25), "🇫🇷"}},
		"a fence is closed and opened again": {
			"```go\n" + a + "\n" + b + "\n```\nend",
			[]string{"```go\n" + a + "\n```", "```go\n" + b + "\n```\nend"},
		},
		"a longer fence, too": {
			"~~~~ sh\n" + a + "\n" + b + "\n~~~~",
			[]string{"~~~~ sh\n" + a + "\n~~~~", "~~~~sh\n" + b + "\n~~~~"},
		},
		"a fence with a title is opened again with its language": {
			"```go title=\"internal/core/relay/split.go\"\n" + a[:40] + "\n" + b + "\n```",
			[]string{"```go title=\"internal/core/relay/split.go\"\n" + a[:40] + "\n```", "```go\n" + b + "\n```"},
		},
		"a fence with a long language is opened again without it": {
			"```" + strings.Repeat("x", 30) + "\n" + a[:50] + "\n" + b + "\n```",
			[]string{"```" + strings.Repeat("x", 30) + "\n" + a[:50] + "\n```", "```\n" + b + "\n```"},
		},
		"a block that would not be seen begins in the next message": {
			a + "\n" + strings.Repeat("c", 30) + "\n```\n" + b + "\n```",
			[]string{a + "\n" + strings.Repeat("c", 30), "```\n" + b + "\n```"},
		},
		"a fence in a quote stays in it": {
			"> ```go\n> " + a + "\n> " + b + "\n> ```\nend",
			[]string{"> ```go\n> " + a + "\n> ```", "> ```go\n> " + b + "\n> ```\nend"},
		},
		"a line of a quote stays in it": {
			"> " + a + " " + b + "\nend",
			[]string{"> " + a, "> " + b + "\nend"},
		},
		"a block ends with its quote": {
			"> ```\n> " + a + "\n" + b + " x",
			[]string{"> ```\n> " + a + "\n> ```", b + " x"},
		},
		"a mark of a quote in code is code": {
			"```\n> ```\n" + a + "\n" + b + "\n```",
			[]string{"```\n> ```\n" + a + "\n```", "```\n" + b + "\n```"},
		},
		"a spoiler is closed and opened again": {
			"||" + a + " " + b + "|| end",
			[]string{"||" + a + "||", "||" + b + "|| end"},
		},
		"a spoiler of several messages": {
			"see ||" + a + " " + b + " " + a + "||",
			[]string{"see ||" + a + "||", "||" + b + "||", "||" + a + "||"},
		},
		"no spoiler is empty": {
			a + strings.Repeat("c", 30) + " ||" + b + "||",
			[]string{a + strings.Repeat("c", 30), "||" + b + "||"},
		},
		"a fence in a spoiler": {
			"||```go\n" + a + "\n" + b + "\n```|| end",
			[]string{"||```go\n" + a + "\n```||", "||```go\n" + b + "\n```|| end"},
		},
		"two bars in code are no spoiler": {
			"`x || y` " + a + " " + b + " `||`",
			[]string{"`x || y` " + a, b + " `||`"},
		},
		"two bars alone are no spoiler": {
			"x || y " + a + " " + b,
			[]string{"x || y " + a, b},
		},
		"code keeps its indentation": {
			"```\n" + a + "\n    " + b + "\n```",
			[]string{"```\n" + a + "\n```", "```\n    " + b + "\n```"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, shown(relay.Split(c.text, 100))); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// Whatever the text is, nothing of it is lost, no message is too long or empty.
func FuzzSplitLosesNothing(f *testing.F) {
	for _, s := range []string{
		"```go\n" + strings.Repeat("code\n", 60) + "```\n" + strings.Repeat("word ", 60), strings.Repeat("e\u0301\u0301", 200), strings.Repeat("\u202eabc ", 80),
		strings.Repeat("👩‍🚀", 80), strings.Repeat("\n", 300) + "a" + strings.Repeat(" ", 300), strings.Repeat("`", 250), "~~~" + strings.Repeat("i", 200) + "\n" + strings.Repeat("x", 300),
		"||" + strings.Repeat("word ", 60) + "|| " + strings.Repeat("||x|| ", 60), "||```go\n" + strings.Repeat("code\n", 60) + "```||", strings.Repeat("> ```\n> code\n", 40), strings.Repeat("|", 300), strings.Repeat("\\||`", 90),
		"\xff\xfe" + strings.Repeat("\xff", 300), "[" + strings.Repeat("[a](https://x.y/", 50), strings.Repeat("```\n", 70), strings.Repeat("~", 24) + "\n" + strings.Repeat("x", 300), strings.Repeat("`", 20) + "info\n" + strings.Repeat("x", 300),
	} {
		f.Add(s, uint8(0))
	}
	f.Fuzz(func(t *testing.T, text string, more uint8) {
		limit := 100 + int(more)
		var joined strings.Builder
		for i, p := range relay.Split(text, limit) {
			joined.WriteString(p.Source)
			got := p.String()
			if n := len(utf16.Encode([]rune(got))); n > limit {
				t.Errorf("message %d has %d units, the limit is %d: %q", i, n, limit, got)
			}
			if strings.TrimFunc(p.Source, unicode.IsSpace) == "" {
				t.Errorf("message %d shows nothing: %q", i, got)
			}
		}
		if strings.TrimSpace(text) != "" && joined.String() != text {
			t.Errorf("the messages hold %q, the text is %q", joined.String(), text)
		}
	})
}
