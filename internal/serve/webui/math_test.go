package webui_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/serve/httpapi"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

const answerWithMath = "The roots of $ax^2 + bx + c$ cost $5, not $10:\n\n$$\nx_{1,2} = \\frac{-b \\pm \\sqrt{b^2 - 4ac}}{2a}\n$$\n\nA vector \\(\\vec{v} * \\widehat{abc}\\) and a matrix:\n" +
	"\\[\nA = \\left(\\begin{matrix} 1 & 2 \\\\ 3 & 4 \\\\ 5 & 6 \\\\ 7 & 8 \\end{matrix}\\right)\n\\]\n\n```math\n\\sum_{i=1}^{n} i\n+ \\boxed{n}\n- \\cancel{x}\n```\n\n" +
	"- Euler: $e^{i\\pi} + 1 = 0$\n- Wrong: $\\frac{a$ and $\\nope$\n\nThe end has $$\\int_0^1 x\\,dx$$ inside."

// violated records what the content security policy refuses.
const violated = "window.violated = []; document.addEventListener('securitypolicyviolation', (e) => window.violated.push(e.violatedDirective + ' ' + e.blockedURI + ' ' + e.sample))"

const fontsLoaded = "document.fonts.status === 'loaded' && [...document.fonts].some(f => f.family.startsWith('KaTeX') && f.status === 'loaded')"

func TestFormulasAreTypeset(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	answered(f, "done")
	f.set(func() { f.messages[1]["content"] = answerWithMath })
	p := webuitest.Open(t, "about:blank", 1000, 900)
	p.Before(violated, f.url("#/s/s1"))
	p.Until("they are typeset", "document.querySelectorAll('.md .katex').length === 7 && document.querySelectorAll('.md .katex-display').length === 4")
	p.Until("wrong TeX is its source", "[...document.querySelectorAll('.md .tex')].map(e => e.textContent).join() === '$\\\\frac{a$,$\\\\nope$'")
	p.Until("prices are text", "document.querySelector('.md p').innerText.includes('cost $5, not $10')")
	p.Until("screen readers get MathML", "document.querySelectorAll('.md math').length === 7 && document.querySelectorAll('.md .katex-html[aria-hidden=true]').length === 7")
	p.Until("the fonts are here", fontsLoaded)
	if bad := webuitest.Eval[[]string](p, "window.violated"); len(bad) > 0 {
		t.Errorf("the policy was violated: %q", bad)
	}
	// Styles of KaTeX that are attributes of its HTML have an effect, although the policy forbids them.
	if got := webuitest.Eval[string](p, "document.querySelector('.md .katex-html svg[style]')?.style.width"); !strings.HasSuffix(got, "em") {
		t.Errorf("the arrow of a vector is %q wide", got)
	}
	p.Do(chromedp.Evaluate[chromedp.Void]("document.body.append(Object.assign(document.createElement('p'), { textContent: 'x' })); document.body.lastChild.setAttribute('style', 'color: red'); 0"))
	p.Until("control: a style attribute violates the policy", "window.violated.length === 1")
	p.Picture("math", false)
	p.Picture("math-dark", true)
}

// After every piece of a growing answer with formulas and footnotes, the page shows what it shows for an
// answer that ends there, and at no moment half a formula.
func TestGrowingFormulasAreAlwaysValid(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f, p := talk(t)
	f.listened()
	const r = "web:s1:m0"
	f.emit("stream.start", object{"requestId": r})
	p.Do(chromedp.Evaluate[chromedp.Void](`window.invalid = new Set();
		new MutationObserver(() => {
			const md = document.querySelector('#transcript .md');
			if (md?.querySelector('em, .katex-error, li li') || [...md?.querySelectorAll('ul') ?? []].some(e => !/^(Euler|$)/.test(e.textContent.trim()))) window.invalid.add(md.textContent);
		}).observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true }); 0`))
	const shown = `(() => { const md = document.querySelector('#transcript .md').cloneNode(true); for (const e of md.querySelectorAll('.code-head, [hidden]')) e.remove(); for (const e of md.querySelectorAll('[data-tex]')) e.replaceChildren(e.dataset.tex); return md.textContent.replace(/\s/g, ''); })()`
	said, text := "", strings.Replace(answerWithMath, "cost", "cost[^1]", 1)+"\n\n[^1]: In *dollars*, or $\\\\$.\n"
	text = strings.Replace(text, "*dollars*", "dollars", 1)
	for _, piece := range strings.SplitAfter(text, " ") {
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
	f.emit("stream.completed", object{"requestId": r, "content": said, "usage": nil})
	p.Until("at the end, all is typeset", "!document.querySelector('.md .piece') && document.querySelectorAll('.md .katex-display').length === 4 && document.querySelectorAll('.md .footnotes li').length === 1")
	p.Until("it is read aloud as its source", "document.getElementById('live').textContent.includes('$ax^2 + bx + c$')")
}

// KaTeX is loaded with the first formula, and not before. Copied and quoted text has the TeX.
func TestFormulasAreLoadedAndCopied(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	answered(f, "done")
	f.conversation("With a formula")
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	p.Until("an answer is shown", "document.querySelector('.md')?.textContent")
	const loaded = "performance.getEntriesByType('resource').filter(e => e.name.includes('/katex/')).length"
	if n := webuitest.Eval[int](p, loaded); n != 0 {
		t.Errorf("%d files were loaded for no formula", n)
	}
	f.set(func() { f.messages[1]["content"] = "Before $x^2$ after.\n\n$$y$$" })
	p.To("#/s/s2")
	p.Until("they are typeset", "document.querySelectorAll('.md .katex').length === 2")
	p.Until("control: then it is loaded", loaded+" > 2")
	p.Do(chromedp.Evaluate[chromedp.Void](`getSelection().selectAllChildren(document.querySelector('.md'));
		window.copied = new DataTransfer();
		document.querySelector('.md').dispatchEvent(new ClipboardEvent('copy', { clipboardData: window.copied, bubbles: true, cancelable: true })); 0`))
	if got := webuitest.Eval[string](p, "window.copied.getData('text/plain').trim().replace(/\\n+/g, '|')"); got != "Before $x^2$ after.|$$y$$" {
		t.Errorf("copied: %q", got)
	}
	p.Click("#quote")
	if got := webuitest.Eval[string](p, "document.getElementById('text').value.trim().replace(/[\\n> ]+/g, ' ')"); got != "Before $x^2$ after. $$y$$" && got != " Before $x^2$ after. $$y$$" {
		t.Errorf("quoted: %q", got)
	}
}

// Formulas of a stranger cannot work forever, load anything, or cover the page.
func TestHostileFormulasAreHarmless(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	answered(f, "done")
	f.set(func() {
		f.messages[1]["content"] = strings.Join([]string{
			`$\href{javascript:window.hacked=1}{x}$`, `$\includegraphics{https://evil.example/x.png}$`, `$\htmlStyle{position:fixed}{x}$`, `$\htmlId{composer}{x}$`,
			`$\def\a{\b\b\b\b}\def\b{\c\c\c\c}\def\c{\d\d\d\d}\def\d{\e\e\e\e}\def\e{\f\f\f\f}\def\f{xxxx}\a$`,
			`$\rule{9999em}{9999em}$`, "$" + strings.Repeat("{", 4000) + "x" + strings.Repeat("}", 4000) + "$", `$\kern-999em x$`, `$\raisebox{999em}{x}$`, "and $z$ at the end",
		}, "\n\n")
	})
	p := webuitest.Open(t, "about:blank", 1000, 700)
	p.Before(violated, f.url("#/s/s1"))
	p.Until("the last one is typeset", "document.querySelector('.md > p:last-child .katex')")
	p.Until("nothing happened", "!window.hacked && window.violated.length === 0 && !document.querySelector('.md a, .md img, .md #composer') && document.querySelectorAll('#composer').length === 1")
	p.Until("nothing is huge", "[...document.querySelectorAll('.md .katex *')].every(e => e.getBoundingClientRect().width < 2000 && e.getBoundingClientRect().height < 2000)")
	// What stands outside of the answer is clipped.
	p.Until("nothing covers the rest", "getComputedStyle(document.querySelector('.md')).overflow === 'clip'")
	// The outline of a block that has the focus is 2 pixels wide, at a distance of 2, and not clipped.
	p.Until("outlines have space", "(({ left, right, top }, inner) => inner.left - left >= 4 && right - inner.right >= 4 && inner.top - top >= 4)(document.querySelector('.md').getBoundingClientRect(), document.querySelector('.md > p').getBoundingClientRect())")
}

// A formula that is wider than the screen scrolls, with the keyboard, too, and the page stays as it is.
func TestWideFormulaScrolls(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	answered(f, "done")
	f.set(func() {
		f.messages[1]["content"] = "$$\n" + strings.Repeat("\\underbrace{a + b}_{c} + ", 12) + "d\n$$\n\nand $\\left(" + strings.Repeat("x + ", 40) + "x\\right)$ in a line\n\n$$short$$"
	})
	p := webuitest.Open(t, f.url("#/s/s1"), 360, 700)
	p.Until("it scrolls", "(() => { const e = document.querySelector('.md .math.display'); return e && e.scrollWidth > e.clientWidth && e.tabIndex === 0; })()")
	p.Until("a short one takes no focus", "[...document.querySelectorAll('.md .math.display')].at(-1).tabIndex === -1")
	p.Until("the page does not", "document.documentElement.scrollWidth <= 360 && document.getElementById('scroll').scrollWidth <= document.getElementById('scroll').clientWidth")
	p.Until("the fonts are here", fontsLoaded)
	p.Picture("math-small", false)
}

// The links of footnotes stay in their message and change neither the view nor its address.
func TestFootnotesLeadToTheirText(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	answered(f, "done")
	f.set(func() {
		note := "A claim[^1] and another[^2], the first again[^1].\n\n" + strings.Repeat("More.\n\n", 60) + "[^1]: Its source.\n[^2]: Another source.\n"
		f.messages[1]["content"] = note
		f.messages = append(f.messages,
			object{"id": "m2", "requestId": "web:s1:m2", "role": "user", "content": "again", "createdAt": 3},
			object{"id": "a2", "requestId": "web:s1:m2", "role": "assistant", "content": note, "createdAt": 4})
	})
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	p.Until("they are there", "document.querySelectorAll('.footnotes li').length === 4")
	p.Until("ids are unique", "new Set([...document.querySelectorAll('.md [id]')].map(e => e.id)).size === document.querySelectorAll('.md [id]').length && document.querySelectorAll('.md [id]').length === 10")
	p.Until("links have names", "[...document.querySelectorAll('.md a[role]')].map(a => a.getAttribute('aria-label')).slice(0, 6).join() === 'Footnote 1,Footnote 2,Footnote 1,Back to reference 1,Back to reference 1, place 2,Back to reference 2'")
	p.Do(chromedp.Evaluate[chromedp.Void]("document.querySelectorAll('.md')[1].querySelectorAll('a[role=doc-noteref]')[1].focus(); 0"))
	p.Press("Enter")
	const inView = "(() => { const r = document.activeElement.getBoundingClientRect(); return r.top >= 0 && r.bottom <= innerHeight; })()"
	p.Until("the note of this message has the focus", "document.activeElement === document.querySelectorAll('.footnotes')[1].querySelectorAll('li')[1] && "+inView)
	p.Press("Tab")
	p.Press("Enter")
	p.Until("and back", "document.activeElement === document.querySelectorAll('.md')[1].querySelectorAll('a[role=doc-noteref]')[1] && "+inView)
	p.Until("the address is the same", "location.hash === '#/s/s1'")
	p.Until("other links open a new tab", "[...document.querySelectorAll('.md a[role]')].every(a => !a.target)")
	p.Picture("footnotes", false)
}

// The files of KaTeX are those of the npm package whose version its package.json names.
func TestKaTeXIsThePackage(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("LILAC_TEST_KATEX")
	if dir == "" {
		t.Skip("set LILAC_TEST_KATEX to a directory in which npm install katex@VERSION ran, with the version of internal/serve/webui/katex/package.json")
	}
	err := filepath.WalkDir("katex", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel("katex", path)
		ours, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, packed := strings.CutSuffix(name, ".gz")
		if packed {
			r, err := gzip.NewReader(bytes.NewReader(ours))
			if err != nil {
				return err
			}
			if ours, err = io.ReadAll(r); err != nil {
				return err
			}
		}
		original := filepath.Join(dir, "node_modules", "katex", name)
		if !regexp.MustCompile(`^(LICENSE|package\.json)$`).MatchString(name) {
			original = filepath.Join(dir, "node_modules", "katex", "dist", name)
		}
		if theirs, err := os.ReadFile(original); err != nil || !bytes.Equal(ours, theirs) {
			t.Errorf("%s differs from the package: %v", path, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile("katex/package.json")
	var about struct{ Version string }
	if err != nil || json.Unmarshal(raw, &about) != nil || about.Version == "" {
		t.Errorf("no version in package.json: %v", err)
	}
}
