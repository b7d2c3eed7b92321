package httpapi_test

import (
	"strings"
	"testing"

	"lilac/internal/serve/httpapi"
)

func TestRenderMarkdown(t *testing.T) {
	for name, c := range map[string]struct{ in, want, not string }{
		"emphasis":            {"**a**", "<strong>a</strong>", ""},
		"code":                {"```go title=x\nif x < 1\n```", `<pre data-language="go"><code><span class="code-keyword">if</span> x &lt; <span class="code-number">1</span>` + "\n</code></pre>", ""},
		"code, open":          {"```\nx < y", "<pre><code>x &lt; y\n</code></pre>", "data-language"},
		"code, evil language": {"```\"><script>x</script>\nx\n```", `<pre data-language="&#34;&gt;&lt;script&gt;x&lt;/script&gt;">`, "<script"},
		"code, evil words":    {"```go\n\"<script>\"\n```", `<span class="code-literal">&#34;&lt;script&gt;&#34;</span>`, "<script"},
		"table":               {"|a|b|\n|-|-|\n|1|2|", "<table>", ""},
		"aligned columns":     {"|a|b|\n|-:|:-:|\n|1|2|", `<td align="right">1</td>`, "style"},
		"link":                {"[a](https://x.example)", `href="https://x.example" rel="noopener noreferrer nofollow"`, ""},
		"bare link":           {"see https://x.example", `rel="noopener noreferrer nofollow"`, ""},
		"mail":                {"[a](mailto:a@b.example)", `href="mailto:a@b.example"`, ""},
		"script link":         {"[a](javascript:alert(1))", "<p>a</p>", "javascript"},
		"script link in caps": {"[a](JaVaScRiPt:alert(1))", "<p>a</p>", "alert"},
		"entity in a link":    {"[a](&#106;avascript:alert(1))", "<p>a</p>", "alert"},
		"data link":           {"[a](data:text/html,x)", "<p>a</p>", "data:"},
		"relative link":       {"see [the **front** door](README.md), please", "<p>see the <strong>front</strong> door, please</p>", "README"},
		"link around links":   {"[![s](x.png) ![t](https://t.example) u](/y)", "<p>s <a href=\"https://t.example\" rel=\"noopener noreferrer nofollow\" target=\"_blank\">t</a> u</p>", ""},
		"image of no place":   {"![a](data:image/png;base64,x)", "<p>a</p>", "data:"},
		"autolink of script":  {"<javascript:alert(1)>", "<p>javascript:alert(1)</p>", "href"},
		"raw html":            {"<script>x</script><img src=x onerror=y>", "&lt;script&gt;x&lt;/script&gt;&lt;img src=x onerror=y&gt;", "<script"},
		"inline html":         {"a <b onclick=x>b</b>", "a &lt;b onclick=x&gt;b&lt;/b&gt;", "<b"},
		"a placeholder":       {"git checkout <branch>", "git checkout &lt;branch&gt;", ""},
		"a block of html":     {"<details>\nthe **answer**\n</details>", "&lt;details&gt;\nthe <strong>answer</strong>\n&lt;/details&gt;", "<details"},
		"a comment":           {"<!-- said -->", "&lt;!-- said --&gt;", "<!--"},
		"image":               {"![secret](https://evil.example/?q=1)", `<a href="https://evil.example/?q=1"`, "<img"},
		"image by reference":  {"![s][r]\n\n[r]: https://evil.example", "<a ", "<img"},
		"image in a link":     {"[![s](https://a.example)](https://b.example)", "", "<img"},
		"quote in a title":    {`[a](https://x.example "t\" onclick=\"x")`, "", ` onclick="x`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := httpapi.RenderMarkdown(c.in)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("%q lacks %q", got, c.want)
			}
			if c.not != "" && strings.Contains(strings.ToLower(got), strings.ToLower(c.not)) {
				t.Errorf("%q has %q", got, c.not)
			}
		})
	}
}

// A Markdown table has a cell for each column in every row, even for empty rows. Its HTML can therefore
// be a thousand times longer than its source, so large tables are shown as source text.
func TestTableSizeIsBounded(t *testing.T) {
	table := func(columns, rows int) string {
		return strings.Repeat("|a", columns) + "|\n" + strings.Repeat("|-", columns) + "|\n" + strings.Repeat("|\n", rows)
	}
	for name, c := range map[string]struct {
		in     string
		tables int
	}{
		"large":                 {table(1000, 97), 1},
		"too large":             {table(3000, 3000), 0},
		"too large, indented":   {"- b\n\n  " + strings.ReplaceAll(table(3000, 3000), "\n", "\n  "), 0},
		"too large, quoted":     {"> " + strings.ReplaceAll(table(3000, 3000), "\n", "\n> "), 0},
		"too many":              {strings.Repeat(table(100, 300)+"\n", 30), 3},
		"many dashes, no table": {strings.Repeat("a | b\n", 3000) + "\n" + table(2, 2), 1},
	} {
		out, err := httpapi.RenderMarkdown(c.in)
		if err != nil || strings.Count(out, "<table>") != c.tables || len(out) > 2<<20 {
			t.Errorf("%s: %d tables in %d bytes of %d, %v", name, strings.Count(out, "<table>"), len(out), len(c.in), err)
		}
		if c.tables == 0 && !strings.Contains(out, "|a|a|a") {
			t.Errorf("%s: it is not shown: %.200s", name, out)
		}
	}
}

// Text whose rendering time grows much faster than its length is shown unformatted. The control uses
// slightly less of the same text.
func TestTooComplexTextIsShownUnformatted(t *testing.T) {
	for name, c := range map[string]struct {
		part    string
		few     int
		want    string // expected in the control
		tangles int
	}{
		"quotes":                   {">", 100, "<blockquote>", 101},
		"quotes with space":        {"> ", 100, "<blockquote>", 101},
		"lists":                    {"- ", 100, "<ul>", 101},
		"numbers":                  {"1. ", 100, "<ol", 101},
		"quotes and lists in turn": {"> - ", 50, "<ul>", 51},
		"a link without end":       {"[a](", 8000, "[a](", 8193},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := httpapi.RenderMarkdown("before\n\n" + strings.Repeat(c.part, c.few) + "<b>")
			if err != nil || strings.HasPrefix(out, "<pre>") || !strings.Contains(out, c.want) {
				t.Errorf("few: %.200s, %v", out, err)
			}
			many := "before\n\n" + strings.Repeat(c.part, c.tangles) + "<b>\n\nafter"
			out, err = httpapi.RenderMarkdown(many)
			if want := "<pre>" + strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(many) + "</pre>\n"; err != nil || out != want {
				t.Errorf("many: %.200s, %v", out, err)
			}
		})
	}
	for name, in := range map[string]string{
		"a line across": strings.Repeat("-", 300), "stars": strings.Repeat("*", 300), "pluses": strings.Repeat("+", 300), "a long text": strings.Repeat("a word and another\n", 5000),
	} {
		if out, err := httpapi.RenderMarkdown(in); err != nil || strings.HasPrefix(out, "<pre>") {
			t.Errorf("%s: %.200s, %v", name, out, err)
		}
	}
}

// knots are lines with unmatched delimiters. A parser compares each delimiter with all others.
var knots = []string{"_a*_a*", "**a_", "~a~~ *", "[", "![*a*", "]( [", "](<", "`a``b```", "<a:", "\\```a", "**a `"}

// The number of delimiter comparisons is bounded for the whole text, however the delimiters are spread
// over lines. The control uses fewer of the same lines.
func TestUnmatchedDelimitersAreShownUnformatted(t *testing.T) {
	for _, knot := range knots {
		text := func(lines int) string {
			return strings.Repeat(strings.Repeat(knot, 100)+"\n", lines) + "**the end**\n"
		}
		if out, err := httpapi.RenderMarkdown(text(2)); err != nil || !strings.Contains(out, "<strong>the end</strong>") {
			t.Errorf("%q, a few: %.200s, %v", knot, out, err)
		}
		if out, err := httpapi.RenderMarkdown(text(200)); err != nil || !strings.Contains(out, "**the end**") || strings.HasPrefix(out, "<pre>") {
			t.Errorf("%q, many: %.200s, %v", knot, out, err)
		}
	}
}

// A parser checks each line, even a blank one, against every open quote and list. Long and deeply
// nested text is therefore shown unformatted.
func TestDeepListsAreBounded(t *testing.T) {
	for name, deep := range map[string]string{"lists": strings.Repeat("- ", 100), "quotes": strings.Repeat("> ", 100), "an indented list": "-\n" + strings.Repeat(" ", 150) + "- "} {
		for lines, asItIs := range map[int]bool{1000: false, 10_000: true} {
			out, err := httpapi.RenderMarkdown(deep + "a" + strings.Repeat("\n", lines))
			if err != nil || strings.HasPrefix(out, "<pre>") != asItIs {
				t.Errorf("%s, %d lines: %.200s, %v", name, lines, out, err)
			}
		}
	}
}

func TestLinkDefinitionsAreBounded(t *testing.T) {
	for lines, defined := range map[int]bool{1000: true, 1001: false} {
		out, err := httpapi.RenderMarkdown(strings.Repeat("[a]: https://a.example\n", lines) + "\n[a]\n")
		if err != nil || strings.HasPrefix(out, `<p><a href="https://a.example"`) != defined || strings.HasPrefix(out, "<p>[a]:") == defined {
			t.Errorf("%d lines: %.200s, %v", lines, out, err)
		}
	}
}

func FuzzRenderMarkdown(f *testing.F) {
	f.Add("![a](javascript:x) <b> [c](d)")
	for _, knot := range knots {
		f.Add(strings.Repeat(knot+"\n", 10))
	}
	f.Fuzz(func(t *testing.T, s string) {
		out, err := httpapi.RenderMarkdown(s)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out, "<script") || strings.Contains(out, "<img") || strings.Contains(out, "<b>") || strings.Contains(strings.ToLower(out), `href="javascript`) {
			t.Fatalf("%q became %q", s, out)
		}
	})
}
