package web

import (
	"strings"
	"testing"
	"unicode/utf8"

	"lilac/internal/testkit/effort"
)

// However a page is built, its text is not much longer than the page. The time is
// linear as well; some of these pages took many minutes with what readable turns off.
func TestNoSmallPageBecomesALargeText(t *testing.T) {
	effort.SkipSlow(t)
	fill := func(piece string) string { return strings.Repeat(piece, (maxPage-10_000)/len(piece)) }
	for name, page := range map[string]string{
		"spans":          "<table><tr><td>a</td></tr><tr><td rowspan=65534 colspan=1000>x</td></tr></table>" + strings.Repeat("<table><tr><td rowspan=99999999>x</table>", 50),
		"a wide cell":    "<table><tr><td>" + strings.Repeat("x", maxPage/2) + "</td></tr>" + strings.Repeat("<tr><td>a</td></tr>", 20_000) + "</table>",
		"nested quotes":  strings.Repeat("<blockquote>", 400) + fill("a<br>"),
		"nested lists":   strings.Repeat("<ul><li>", 200) + fill("a<br>"),
		"paragraphs":     fill("<p>a</p>"),
		"links":          fill("<a href=x>a</a> "),
		"bold":           fill("<b>a</b> "),
		"open tags":      strings.Repeat("<b>", 300) + fill("<i>a"),
		"spaces":         fill(" \n\t"),
		"escapes":        fill("*_[`"),
		"code":           "<pre>" + fill("```\n") + "</pre>",
		"one long words": fill("x"),
	} {
		p, err := readable(Page{URL: "https://example.com/", Body: page})
		if err != nil {
			t.Logf("%s: %v", name, err)
		}
		if len(p.Body) > 16*maxPage {
			t.Errorf("%s: %d bytes become %d", name, len(page), len(p.Body))
		}
	}
}

func FuzzReadable(f *testing.F) {
	f.Add("<title>t</title><main><h1>a</h1><ul><li>b</ul><pre><code class=language-go>x</code></pre><table><tr><td>c")
	f.Add(strings.Repeat("<div>", 2000) + "deep")
	f.Add("<table><tr><td><table><td rowspan=99999999>x")
	f.Add("<a href='javascript:x'><img src=x alt='[a](b)'>")
	f.Fuzz(func(t *testing.T, page string) {
		p, err := readable(Page{URL: "https://example.com/", Body: strings.ToValidUTF8(page, "?")})
		if err == nil && !utf8.ValidString(p.Text()) {
			t.Errorf("the text is %q", p.Text())
		}
	})
}
