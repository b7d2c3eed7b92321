package httpapi_test

import (
	"strings"
	"testing"
	"time"

	"lilac/internal/serve/httpapi"
	"lilac/internal/testkit/effort"
)

func TestFormulasAreFound(t *testing.T) {
	inline := func(tex string) string { return `<span class="math">` + tex + `</span>` }
	display := func(tex string) string { return `<span class="math display">` + tex + `</span>` }
	block := func(tex string) string { return `<div class="math display">` + tex + `</div>` }
	for name, c := range map[string]struct{ in, want string }{
		"dollars":                    {"so $a_1 * b_2 * c$.", inline("$a_1 * b_2 * c$")},
		"two formulas":               {"$x$ and $y$", inline("$x$") + " and " + inline("$y$")},
		"a number":                   {"about $5$ apples", inline("$5$")},
		"a sum of numbers":           {"$5 + 10 = 15$", inline("$5 + 10 = 15$")},
		"over two lines":             {"$a +\nb$", inline("$a +\nb$")},
		"escaped dollar inside":      {`$a \$ b$`, inline(`$a \$ b$`)},
		"parentheses":                {`so \(a*b*c\), then`, inline(`\(a*b*c\)`)},
		"markup":                     {"$a<b$", inline("$a&lt;b$")},
		"in emphasis":                {"**the $x$**", "<strong>the " + inline("$x$") + "</strong>"},
		"in a table":                 {"|a|\n|-|\n|$x_1$|", "<td>" + inline("$x_1$") + "</td>"},
		"display in a line":          {"so $$a*b*c$$, then", display("$$a*b*c$$")},
		"brackets in a line":         {`so \[a*b*c\].`, display(`\[a*b*c\]`) + "."},
		"a line of its own":          {"so\n$$a*b*c$$\nthen", block("$$a*b*c$$") + "\n<p>then</p>"},
		"lines of its own":           {"$$\na_1\n+ b_1\n- c*d*e\n= 5\n$$\nthen", block("$$\na_1\n+ b_1\n- c*d*e\n= 5\n$$") + "\n<p>then</p>"},
		"brackets in lines":          {"\\[\na\n\\]", block("\\[\na\n\\]")},
		"in a list":                  {"- so\n  $$\n  x\n  $$\n- then", block("$$\nx\n$$")},
		"in a quotation":             {"> $$\n> x\n> $$\n\nthen", block("$$\nx\n$$")},
		"a fence":                    {"```math\na < b\n```\nthen", block("$$\na &lt; b\n$$")},
		"begins":                     {"so\n\n$$\n\\frac{*a*}{b}\n- c", `<div class="tex display">$$` + "\n\\frac{*a*}{b}\n- c</div>"},
		"begins in a line":           {`so \(a * b * c`, `<span class="tex">\(a * b * c</span>`},
		"a fence begins":             {"```math\nx", `<div class="tex display">$$` + "\nx\n$$</div>"},
		"never ends":                 {"$$ is a *number*\n- one\n\nthen", "<p>$$ is a <em>number</em></p>\n<ul>"},
		"never ends in a quotation":  {"> $$\n> *x*\n\n$$", "<p>$$\n<em>x</em></p>"},
		"a fence follows":            {"$$ is\n```\necho $$\n```\n", "<p>$$ is</p>\n<pre><code>echo $$\n</code></pre>"},
		"too long":                   {"$" + strings.Repeat("x", 10_000) + "$", `<span class="tex">$x`},
		"a code span":                {"`$x$`", "<code>$x$</code>"},
		"code":                       {"```sh\n$$\n```", "<pre data-language=\"sh\"><code>$$"},
		"prices":                     {"from $5 to $10", "<p>from $5 to $10</p>"},
		"prices with a comma":        {"$5, or $10.", "<p>$5, or $10.</p>"},
		"a range of prices":          {"$5-$10 and $5–$10", "<p>$5-$10 and $5–$10</p>"},
		"prices in parentheses":      {"($5) *or* (10$)", "<p>($5) <em>or</em> (10$)</p>"},
		"prices before and after":    {"$5 or 4$", "<p>$5 or 4$</p>"},
		"a price in bold":            {"**$5** and **$10**", "<strong>$5</strong> and <strong>$10</strong>"},
		"thousands":                  {"$1,000.50 ($2k)", "<p>$1,000.50 ($2k)</p>"},
		"variables":                  {"$HOME and $PATH, $A/$B", "<p>$HOME and $PATH, $A/$B</p>"},
		"a variable and code":        {"set $A as in `echo $`", "<p>set $A as in <code>echo $</code></p>"},
		"another currency":           {"US$5 and A$6", "<p>US$5 and A$6</p>"},
		"escaped dollars":            {`\$x\$`, "<p>$x$</p>"},
		"spaces inside":              {"$ x $", "<p>$ x $</p>"},
		"nothing inside":             {`\(\) and \[ \] follow`, "<p>() and [ ] follow</p>"},
		"an escaped link":            {`\[a\](https://x.example) and`, "<p>[a]("},
		"an escaped backslash":       {`\\(a\\)`, `<p>\(a\)</p>`},
		"only one dollar":            {"it costs 5$ *now*", "<p>it costs 5$ <em>now</em></p>"},
		"a formula over a blank one": {"$a\n\nb$", "<p>$a</p>\n<p>b$</p>"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := httpapi.RenderMarkdown(c.in)
			if err != nil || !strings.Contains(got, c.want) {
				t.Errorf("%q became %q, which lacks %q (%v)", c.in, got, c.want, err)
			}
		})
	}
}

// The formulas of a text are bounded, because a browser works on each. Texts in which a formula begins at
// every line take no longer than others.
func TestFormulasAreBounded(t *testing.T) {
	effort.SkipDetail(t)
	out, err := httpapi.RenderMarkdown(strings.Repeat("$x$\n", 1500) + strings.Repeat("\n$$\ny\n$$\n", 1500))
	if n := strings.Count(out, `class="math`); err != nil || n != 2000 || strings.Count(out, `class="tex`) != 1000 {
		t.Errorf("%d formulas, want 2000 (%v)", n, err)
	}
	begin := time.Now()
	for _, line := range []string{"$$ x\n", "$$\n", "\\[ x\n", "$x\n", "\\(x\n", "$$ x\n\n", "> $$ x\n", "$$ x $$ y\n"} {
		if _, err := httpapi.RenderMarkdown(strings.Repeat(line, 100_000)); err != nil {
			t.Error(err)
		}
	}
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}

func TestFootnotes(t *testing.T) {
	got, err := httpapi.RenderMarkdown("One[^a] and two[^b], again[^a], none[^c].\n\n[^a]: The **first**.\n[^b]: <b>\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`<sup id="fnref:1"><a href="#fn:1" class="footnote-ref" role="doc-noteref">1</a></sup>`, `<a href="#fn:2"`, `id="fnref1:1"`, "none[^c]",
		`<div class="footnotes" role="doc-endnotes">`, `<li id="fn:1">`, "The <strong>first</strong>.", `href="#fnref:1"`, `href="#fnref1:1"`, "&lt;b&gt;",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	// References are compared with each footnote.
	many := strings.Repeat("[^x]: y\n", 501) + strings.Repeat("[^z]\n", 50_000)
	if got, err := httpapi.RenderMarkdown("[^x]\n\n" + many); err != nil || strings.Count(got, "<li ") != 1 {
		t.Errorf("many: %.300s, %v", got, err)
	}
	if got, err := httpapi.RenderMarkdown(strings.Repeat("[^x]:", 102) + "y"); err != nil || !strings.HasPrefix(got, "<pre>") {
		t.Errorf("deep: %.300s, %v", got, err)
	}
}
