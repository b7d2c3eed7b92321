package markdown

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"
)

// render returns the lines without styles.
func render(source string, width int) string {
	return ansi.Strip(strings.Join(Render(source, width, Styles{}), "\n"))
}

func TestRender(t *testing.T) {
	for name, c := range map[string]struct{ source, want string }{
		"paragraphs wrap":          {"one two three four five six\nseven\n\neight", "one two three four\nfive six seven\n\neight"},
		"a hard line break stays":  {"one  \ntwo", "one\ntwo"},
		"headings":                 {"# A\n\nb", "A\n\nb"},
		"emphasis has no marks":    {"**a**b *c* ~~d~~ `e`", "ab c d e"},
		"a tight list":             {"- a\n- b\n  - c", "• a\n• b\n  • c"},
		"a loose list":             {"1. a\n\n2. b", "1. a\n\n2. b"},
		"items wrap indented":      {"- one two three four five", "• one two three four\n  five"},
		"tasks have no bullet":     {"- [x] done\n- [ ] open", "☑ done\n☐ open"},
		"a quote":                  {"> a\n> b", "▎ a b"},
		"a rule":                   {"a\n\n---\n\nb", "a\n\n" + strings.Repeat("─", 20) + "\n\nb"},
		"code keeps its spaces":    {"```go\nfunc f() {\n\treturn\n}\n```", "  func f() {\n      return\n  }"},
		"long code is broken":      {"```\nabcdefghijklmnopqrstuvwxyz\n```", "  abcdefghijklmnopqr\n  stuvwxyz"},
		"an open fence is code":    {"```go\nx := 1", "  x := 1"},
		"a link shows its address": {"[a](http://b.c)", "a (http://b.c)"},
		"a bare address":           {"see http://b.c", "see http://b.c"},
		"a picture is a link":      {"![a](http://b.c)", "a (http://b.c)"},
		"HTML is text":             {"a <b>c</b>", "a <b>c</b>"},
		"a table":                  {"|a|b|\n|-|-:|\n|one|2|", "a   │ b\n────┼──\none │ 2"},
		"a table wraps its cells":  {"|a|b|\n|-|-|\n|one two three|four five six|", "a        │ b\n─────────┼──────────\none two  │ four five\nthree    │ six"},
		"wide characters":          {"日本語日本語日本語日本語", "日本語日本語日本語日\n本語"},
		"a link that runs":         {"[a](javascript:x)", "a"},
		"entities":                 {"a &amp; b &lt;c&gt; \\*d\\*", "a & b <c> *d*"},
		"no escape sequences":      {"a\x1b[31mb &#27;[2J\u202ec `\x07d`", "a[31mb [2Jc d"},
		"a formula is its source":  {"so $a*b*c$ and \\(d_1\\)", "so $a*b*c$ and\n\\(d_1\\)"},
		"a formula in its lines":   {"so\n$$\n*a*\n- b\n$$", "so\n\n  $$\n  *a*\n  - b\n  $$"},
		"footnotes":                {"a[^x] b\n\n[^x]: one two three four *five*", "a[1] b\n\n[1] one two three\n    four five"},
		"a footnote without text":  {"a[^x]\n\n[^x]:\n", "a[1]\n\n[1] "},
		"empty":                    {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := render(c.source, 20); got != c.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, c.want)
			}
		})
	}
}

// corpus has every block, nested and in different orders.
var corpus = []string{
	"# Title", "A paragraph that is long enough to wrap on a narrow terminal, with `code` and **bold** words.",
	"- one\n- two\n  1. three\n  2. four\n\n- five", "> quoted\n>\n> ```sh\n> ls -la | grep x\n> ```",
	"```go\nfunc main() {\n\n\tfmt.Println(\"hi\") // say\n}\n```", "~~~\n```\n~~~", "| a | b | c |\n|---|---|---|\n| 1 | 2 | a longer cell |",
	"1. a\n\n   b\n\n2. c", "---", "so $x$ and[^n]\n\n[^n]: a note\n\n    - of two", "$$\n\\frac{a}{b}\n$$", "- [ ] task\n- [x] done", "Ünïcödé 日本語 👩‍👧 text",
}

func document(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(corpus), 1, 6).Draw(t, "blocks"), "\n\n")
}

func TestLinesFitTheWidth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source, width := document(t), rapid.IntRange(20, 120).Draw(t, "width")
		for _, l := range Render(source, width, Styles{}) {
			if n := ansi.StringWidth(l); n > width {
				t.Fatalf("a line has %d cells, more than %d: %q", n, width, l)
			}
		}
	})
}

// What is complete looks the same, whatever follows: an answer is printed in parts while it
// grows.
func TestACompletePartKeepsItsAppearance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source := document(t)
		whole := render(source, 60)
		end := rapid.IntRange(0, len(source)).Draw(t, "end")
		n := Complete(source[:end])
		if n == 0 {
			return
		}
		if got := strings.TrimRight(render(source[:n], 60), "\n") + "\n\n" + render(source[n:], 60); got != whole {
			t.Fatalf("cut at %d of %q:\n%s\nwant:\n%s", n, source, got, whole)
		}
	})
}

func TestComplete(t *testing.T) {
	for source, want := range map[string]int{
		"a":                       0,
		"a\n\n":                   0,
		"a\n\nb":                  0, // the last line may become a list item
		"a\n\nb\n":                3,
		"```\na\n\nb\n":           0,
		"```\na\n\nb\n```\n\nc\n": 14,
		"- a\n\n- b\n":            0,
		"- a\n\n  b\n\nc\n":       10,
		"1. a\n\n2. b\n":          0,
		"a\n\nb[^n]\n\nc\n\nd\n":  3,
		"$$\na\n$$\n\nb\n":        9,
	} {
		if got := Complete(source); got != want {
			t.Errorf("Complete(%q) = %d, want %d", source, got, want)
		}
	}
}

func TestCodeIsStyledByItsKind(t *testing.T) {
	styles := Styles{Comment: Styles{}.Comment.Italic(true), Keyword: Styles{}.Keyword.Bold(true), Added: Styles{}.Added.Faint(true)}
	for language, c := range map[string][2]string{
		"go":   {"func // x", "\x1b[1mfunc\x1b[m \x1b[3m// x\x1b[m"},
		"diff": {"+a", "\x1b[2m+a\x1b[m"},
		"":     {"func", "func"},
	} {
		out := ""
		for _, l := range highlighted(c[0], language, styles) {
			out += l.String()
		}
		if out != c[1] {
			t.Errorf("%q in %q is %q", c[0], language, out)
		}
	}
}

func FuzzHighlightingLosesNothing(f *testing.F) {
	f.Add("go", "func f() { return \"a\nb\" /* c")
	f.Add("rust", "'a 'b' '\\''")
	f.Add("py", "'''x\n\"\"\"")
	f.Fuzz(func(t *testing.T, language, code string) {
		var lines []string
		for _, l := range highlighted(code, language, Styles{}) {
			s := ""
			for _, part := range l {
				s += part.text
			}
			lines = append(lines, s)
		}
		if got, want := strings.Join(lines, "\n"), strings.Join(plainLines(code), "\n"); got != want {
			t.Errorf("%q in %q became %q", code, language, got)
		}
	})
}

func plainLines(code string) (out []string) {
	for _, l := range highlighted(code, "none", Styles{}) {
		s := ""
		for _, part := range l {
			s += part.text
		}
		out = append(out, s)
	}
	return out
}
