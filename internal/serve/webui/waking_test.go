package webui_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/effort"
)

// The connection of a machine that slept, or that is in another network now, is dead, and the browser
// does not know that. The page opens another one at once.
func TestTheStreamIsOpenedAgainAfterASleep(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f, p := talk(t)
	f.listened()
	for i, happened := range []string{"dispatchEvent(new Event('online'))", "{ let hours = 0; window.real = Date.now; Date.now = () => real() + 3600000 * ++hours; }"} {
		p.Do(chromedp.Evaluate[chromedp.Void](happened + "; 0"))
		f.opened(i + 2)
	}
	p.Do(chromedp.Evaluate[chromedp.Void]("Date.now = real; 0"))
	const r = "web:s1:m0"
	f.emit("stream.start", object{"requestId": r})
	f.text(r, "Good morning.", 0)
	p.Shows("#transcript .answer", "Good morning.")
	p.Until("nothing is wrong", "document.getElementById('link').innerText === ''")
}
