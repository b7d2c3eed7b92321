package webui_test

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/serve/httpapi"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

var tags = regexp.MustCompile("<[^>]*>")

const answerWithCode = "Do this:\n\n```go\nfunc main() { print(\"hi\") } // done\n```\n\n- [x] write\n- [ ] test\n\n| " +
	"a | " + "b |\n|---|---|\n| " + "1 | 2 |\n"

func TestCodeIsColouredAndCanBeCopied(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	answered(f, "done")
	f.set(func() { f.messages[1]["content"] = answerWithCode })
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	p.Until("the code is there", "document.querySelector('.md .code pre code .code-keyword')")
	p.Shows(".code-head span", "go")
	if got := webuitest.Eval[string](p, "document.querySelector('.md .code code').textContent"); got != "func main() { print(\"hi\") } // done\n" {
		t.Errorf("the code is %q", got)
	}
	const colours = "new Set(['.code', '.code-keyword', '.code-literal', '.code-comment', '.code-function'].map(s => getComputedStyle(document.querySelector('.md .code code ' + (s === '.code' ? '' : s))).color)).size"
	if n := webuitest.Eval[int](p, colours); n != 5 {
		t.Errorf("the code has %d colours, want 5", n)
	}
	if style := webuitest.Eval[string](p, "getComputedStyle(document.querySelector('.md li')).listStyleType"); style != "none" {
		t.Errorf("a task has the bullet %q", style)
	}
	p.Click(".code-head button")
	p.Shows(".code-head button", "Copied")
	p.Do(chromedp.Focus("#text"))
	p.Picture("code", false)
}

// After every piece of a growing answer, the page shows what it shows for an answer that ends there.
// At no moment, not even before the server has rendered a piece, are marks shown as text.
func TestAGrowingAnswerIsAlwaysValid(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f, p := talk(t)
	f.listened()
	const r = "web:s1:m0"
	f.emit("stream.start", object{"requestId": r})
	p.Do(chromedp.Evaluate[chromedp.Void](`window.invalid = new Set();
		new MutationObserver(() => { const shown = document.querySelector('#transcript .md')?.innerText ?? ''; if (/\u0060\u0060|\[x|\|--/.test(shown)) window.invalid.add(shown); })
			.observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true }); 0`))
	const shown = `(() => { const md = document.querySelector('#transcript .md').cloneNode(true); for (const e of md.querySelectorAll('.code-head, [hidden]')) e.remove(); return md.textContent.replace(/\s/g, ''); })()`
	said := ""
	for _, piece := range strings.SplitAfter(answerWithCode, " ") {
		f.text(r, piece, len(said))
		said += piece
		want, err := httpapi.RenderMarkdown(said)
		if err != nil {
			t.Fatal(err)
		}
		want = html.UnescapeString(tags.ReplaceAllString(want, ""))
		p.Until("the text is drawn", fmt.Sprintf("document.querySelector('#transcript .md') && %s === %q", shown, strings.Join(strings.Fields(want), "")))
	}
	if invalid := webuitest.Eval[[]string](p, "[...window.invalid]"); len(invalid) > 0 {
		t.Errorf("this was shown for a moment: %q", invalid)
	}
	if n := webuitest.Eval[int](p, "document.querySelectorAll('.md .code').length * 10 + document.querySelectorAll('.md table').length"); n != 11 {
		t.Errorf("at the end, code and tables: %d", n)
	}
}
