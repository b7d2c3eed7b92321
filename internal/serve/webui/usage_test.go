package webui_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/webuitest"
)

func TestUsageShowsWhatEachDayCost(t *testing.T) {
	t.Parallel()
	_, p := furnished(t, "", "#/usage", 1100, 900)
	p.Until("the sums are there", "document.querySelector('.usage .sum')?.innerText === '435 requests · 478,500 tokens · 50 % of the input from a cache · $8.70'")
	if got, want := webuitest.Eval[string](p, "document.querySelector('.usage .sum + .quiet').innerText"), "Today: 29 requests, 31,900 tokens, $0.58. Yesterday: 28 requests, 30,800 tokens, $0.56."; got != want {
		t.Errorf("the last days are %q, want %q", got, want)
	}
	if n := webuitest.Eval[int](p, "document.querySelectorAll('.chart').length * 100 + document.querySelector('.chart').querySelectorAll('g').length"); n != 530 {
		t.Errorf("charts and days: %d, want five charts of 30 days", n)
	}
	const day = "[...document.querySelectorAll('.usage tr')].find(r => r.cells[0].innerText === '2026-11-25')?.innerText.split(/\\s*\\t\\s*/).join('|')"
	if got := webuitest.Eval[string](p, day); got != "2026-11-25|24|24,000|2,400|50 %|3.4 s|9.0 s|$0.48" {
		t.Errorf("the day is %q", got)
	}
	p.Picture("usage", false)
	p.Picture("usage-dark", true)
	p.Until("calls without a request are named", "[...document.querySelectorAll('.usage tr')].some(r => r.innerText.startsWith('titles of conversations') && r.cells[1].innerText === '12')")
	p.Until("and what is not counted", "document.querySelector('.usage').innerText.includes('Not counted:')")
	const choose = "(() => { const s = document.querySelectorAll('.filters select')[%d]; s.value = %q; s.dispatchEvent(new Event('change')); })()"
	for by, want := range map[string]string{"models": "openai/gpt", "channels": "The dandelions|Backups|others", "clients": "web|discord", "rules": "people|rule-0|rule-1|rule-2|rule-3|rule-4|others"} {
		p.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(choose, 1, by)))
		p.Until("the groups are named: "+by, fmt.Sprintf("[...document.querySelectorAll('.legend li')].map(e => e.innerText.trim()).join('|') === %q && location.hash.includes('by=%s')", want, by))
		p.Until("the bars have their colours", "document.querySelector('.chart g').querySelectorAll('rect').length === document.querySelectorAll('.legend li').length + 1")
	}
	// The bars of a day are as tall as the day, whatever the groups are.
	p.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(choose, 1, "rules")))
	p.Until("the parts make up the days", `document.querySelectorAll('.legend li').length === 7 && [...document.querySelectorAll('.chart')[2].querySelectorAll('g')].every((g, i) => Math.abs([...g.querySelectorAll('rect:not(.space)')].reduce((n, r) => n + Number(r.getAttribute('height')), 0) - 100 * i / 29) < 0.1)`)
	p.Until("a table has the same", "[...document.querySelectorAll('.usage caption')].some(c => c.innerText === 'Days by rule')")
	p.Picture("usage-rules", false)
	p.Picture("usage-rules-dark", true)
	p.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(choose, 1, "")))
	p.Do(chromedp.Evaluate[chromedp.Void]("const s = document.querySelector('.filters select'); s.value = '7'; s.dispatchEvent(new Event('change'))"))
	p.Until("an empty period says so, and the address names it", "document.querySelector('.usage').innerText === 'No requests in this period.' && location.hash === '#/usage?days=7'")
}
