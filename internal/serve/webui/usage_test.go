package webui_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/webuitest"
)

func TestUsageShowsWhatEachDayCost(t *testing.T) {
	t.Parallel()
	_, p := furnished(t, "", "#/usage", 1100, 900)
	p.Until("the sums are there", "document.querySelector('.usage .sum')?.innerText === '435 requests · 478,500 tokens · 50 % of the input from a cache · $8.70'")
	if n := webuitest.Eval[int](p, "document.querySelectorAll('.chart').length * 100 + document.querySelector('.chart').querySelectorAll('g').length"); n != 330 {
		t.Errorf("charts and days: %d, want three charts of 30 days", n)
	}
	const day = "[...document.querySelectorAll('.usage tr')].find(r => r.cells[0].innerText === '2026-11-25')?.innerText.split(/\\s*\\t\\s*/).join('|')"
	if got := webuitest.Eval[string](p, day); got != "2026-11-25|24|24,000|2,400|50 %|$0.48" {
		t.Errorf("the day is %q", got)
	}
	p.Picture("usage", false)
	p.Picture("usage-dark", true)
	p.Do(chromedp.Evaluate[chromedp.Void]("const s = document.querySelector('.filters select'); s.value = '7'; s.dispatchEvent(new Event('change'))"))
	p.Until("an empty period says so, and the address names it", "document.querySelector('.usage').innerText === 'No requests in this period.' && location.hash === '#/usage?days=7'")
}
