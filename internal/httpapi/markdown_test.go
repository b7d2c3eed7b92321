package httpapi_test

import (
	"strings"
	"testing"

	"lilac/internal/httpapi"
)

func TestRenderMarkdown(t *testing.T) {
	for name, c := range map[string]struct{ in, want, not string }{
		"emphasis":            {"**a**", "<strong>a</strong>", ""},
		"code":                {"```go\nx < y\n```", `<pre><code class="language-go">x &lt; y`, ""},
		"table":               {"|a|b|\n|-|-|\n|1|2|", "<table>", ""},
		"link":                {"[a](https://x.example)", `href="https://x.example" rel="noopener noreferrer nofollow"`, ""},
		"bare link":           {"see https://x.example", `rel="noopener noreferrer nofollow"`, ""},
		"mail":                {"[a](mailto:a@b.example)", `href="mailto:a@b.example"`, ""},
		"script link":         {"[a](javascript:alert(1))", `href="#"`, "javascript"},
		"script link in caps": {"[a](JaVaScRiPt:alert(1))", `href="#"`, "alert"},
		"entity in a link":    {"[a](&#106;avascript:alert(1))", `href="#"`, "alert"},
		"data link":           {"[a](data:text/html,x)", `href="#"`, "data:"},
		"relative link":       {"[a](/login-codes)", `href="#"`, "login-codes"},
		"autolink of script":  {"<javascript:alert(1)>", "", `href="javascript`},
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

func FuzzRenderMarkdown(f *testing.F) {
	f.Add("![a](javascript:x) <b> [c](d)")
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
