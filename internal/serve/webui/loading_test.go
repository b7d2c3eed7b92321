package webui_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

// slow opens a long conversation in a page whose network calls can be held back.
func slow(t *testing.T, messages int, hash string) (*fake, *webuitest.Tab) {
	t.Helper()
	f := newFake(t)
	f.long(messages)
	f.conversation("Another one")
	p := webuitest.Open(t, "about:blank", 1000, 700)
	p.Before(gateJS, f.url(hash))
	f.listened()
	p.Until("it is shown", "document.querySelector('#transcript .request')")
	return f, p
}

// up scrolls to the top.
func up(p *webuitest.Tab) {
	p.Do(chromedp.Evaluate[chromedp.Void]("document.getElementById('scroll').scrollTop = 0"))
}

// An answer that arrives while messages are being loaded is shown, whatever else is loading.
func TestAnAnswerThatComesWhileTwoLoadsAreUnderWayIsShown(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const r = "web:s1:run"
	f, p := slow(t, 300, "#/s/s1")
	f.set(func() {
		f.running = []string{r}
		f.messages = append(f.messages, object{"id": "run", "requestId": r, "role": "user", "content": "go", "createdAt": 1})
	})
	f.emit("stream.start", object{"requestId": r})
	f.text(r, "hello ", 0)
	p.Shows("#transcript .answer", "hello")
	first := shut(p, "replay=1", true)
	p.To("#/s/s1/m/m20")
	first.holds(1)
	second := shut(p, "replay=1", true)
	p.To("#/s/s1/m/m22")
	second.holds(1)
	first.release()
	f.text(r, "world", 6)
	f.emit("stream.completed", object{"requestId": r, "content": "hello world"})
	heard(p, "stream.completed")
	second.release()
	p.Until("who asked last sees it", "document.activeElement.dataset.message === 'm22'")
	p.Click("#latest")
	p.Shows("#transcript .answer", "hello world")
	p.Until("it is over", "[...document.querySelectorAll('.request')].at(-1).dataset.state === 'done'")
}

// If a page of older messages arrives after the conversation was reloaded, no messages may be missing
// between the two.
func TestOlderMessagesThatComeLateLeaveNoHole(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const n = 400
	f, p := slow(t, n, "#/s/s1")
	p.Do(chromedp.Evaluate[chromedp.Void]("window.met = new Set(); new MutationObserver(() => { for (const e of document.querySelectorAll('#transcript .request')) window.met.add(e.dataset.request); }).observe(document.getElementById('transcript'), { childList: true })"))
	for _, oldest := range []int{200, 100} { // two pages are loaded
		older := shut(p, "before=", true)
		p.Until("older ones are asked for", "(document.getElementById('scroll').scrollTop = 0, window.gates.at(-1).held > 0)")
		if oldest > 100 {
			older.release()
			p.Until("they are here", fmt.Sprintf("(document.getElementById('scroll').scrollTop = 0, window.met.has('web:s1:r%d'))", oldest/2))
			continue
		}
		// So many new messages exist that the newest page does not reach the loaded ones.
		f.set(func() {
			for i := n; i < n+200; i++ {
				f.messages = append(f.messages, object{"id": fmt.Sprint("m", i), "requestId": fmt.Sprint("web:s1:r", i/2), "role": []string{"user", "assistant"}[i%2], "content": fmt.Sprint("message ", i), "createdAt": i})
			}
		})
		f.emit("stream.gap", object{"message": "gone"})
		f.until("it was loaded anew", func() bool { return f.loads >= 2 })
		p.Click("#latest")
		p.Shows("#transcript .words", fmt.Sprintf("message %d", n+198))
		older.release()
	}
	shut(p, "nothing", false)
	p.Do(chromedp.Evaluate[chromedp.Void]("window.met.clear()"))
	p.Until("the first message is reached", "(document.getElementById('scroll').scrollTop = 0, window.met.has('web:s1:r0'))")
	if missing := webuitest.Eval[[]string](p, fmt.Sprintf("Array.from({ length: %d }, (_, i) => 'web:s1:r' + i).filter(r => !window.met.has(r))", n/2)); len(missing) > 0 {
		t.Errorf("%d requests were never shown: %v", len(missing), missing)
	}
}

// A link to a message works while other pages are loading.
func TestAMessageIsFoundWhileOlderOnesAreUnderWay(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	for _, session := range []string{"s1", "s2"} { // s2 is another conversation for which the fake returns the same messages
		_, p := slow(t, 400, "#/s/s1")
		older := shut(p, "before=", false)
		up(p)
		older.holds(1)
		p.To("#/s/" + session + "/m/m20")
		p.Until("it is looked for", "!document.getElementById('loading').hidden && document.getElementById('loading').textContent.startsWith('Searching for')")
		older.release()
		p.Until("it is found", "document.activeElement.dataset.message === 'm20' && document.getElementById('problem').hidden && document.getElementById('loading').hidden")
	}
}

// If messages cannot be loaded, the page must not claim that they were deleted.
func TestFailedSearchForAMessageDoesNotReportItAsDeleted(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f, p := slow(t, 400, "#/s/s1")
	older := shut(p, "before=", false)
	p.To("#/s/s1/m/m20")
	older.holds(1)
	p.To("#/s/s2")
	p.Shows("#title", "Another one")
	p.Until("it is looked for there only", "!document.getElementById('loading').textContent.includes('Searching')")
	p.To("#/s/s1/m/m20")
	p.Until("it is looked for again", "document.getElementById('loading').textContent.includes('Searching')")
	f.set(func() { f.signedOut = true })
	older.release()
	p.Until("why is said", "document.getElementById('problem').innerText.includes('lilac serve') && document.getElementById('loading').hidden")
	p.To("#/s/s2/m/m20")
	p.Until("nor when nothing can be loaded", "location.hash === '#/s/s2/m/m20' && document.getElementById('problem').innerText.includes('lilac serve') && document.getElementById('loading').hidden")
	f.set(func() { f.signedOut = false })
	p.To("#/s/s1/m/nowhere")
	p.Shows("#problem", "This message is no longer in the conversation.") // the control
}

// The page also shows how old requests ended.
func TestHowOldRequestsEndedIsShown(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const n = 300
	f := newFake(t)
	f.long(n)
	f.set(func() {
		for i := n/2 - 1; i >= 0; i-- {
			f.requests = append(f.requests, object{"id": fmt.Sprint("web:s1:r", i), "state": "done"})
		}
		oldest := f.requests[n/2-1]
		oldest["state"], oldest["detail"] = "failed", "unavailable: The model is overloaded."
	})
	p := webuitest.Open(t, "about:blank", 1000, 700)
	const awayAtFirst = "{ const real = fetch, asked = new Set(); window.fetch = (url, how) => (url.startsWith('./requests?') && !asked.has(url) ? (asked.add(url), window.away = asked.size, Promise.reject(new TypeError('away'))) : real(url, how)); }"
	p.Before(awayAtFirst, f.url("#/s/s1/m/m0"))
	p.Shows("#transcript .request .note.bad", "The model is overloaded.")
	p.Until("each list was away at first", "window.away > 0")
}

// A message that the agent read long ago is not shown as queued when the page is opened again.
func TestAMessageThatWasReadLongAgoDoesNotWait(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const r = "web:s1:m1"
	f, p := talk(t)
	f.listened()
	p.Say("the long thing")
	p.Shows("#outbox .fate", "Queued, next in line")
	f.set(func() { f.requests = []object{{"id": r, "state": "queued"}} })
	p.Do(chromedp.Reload())
	p.Shows("#outbox .fate", "Queued, next in line") // the control
	f.set(func() {
		f.requests[0]["state"] = "done"
		f.messages = append(f.messages, object{"id": "m1", "requestId": r, "role": "user", "content": "the long thing", "createdAt": 1})
		for i := range 150 {
			f.messages = append(f.messages, object{"id": fmt.Sprint("a", i), "requestId": r, "role": "assistant", "content": "step", "html": fmt.Sprint("<p>step ", i, "</p>"), "createdAt": 2})
		}
	})
	p.Do(chromedp.Reload())
	p.Shows("#transcript .answer", "step 149")
	p.Until("nothing waits", "!document.querySelector('#outbox > *') && document.getElementById('running').hidden")
	p.Until("and nothing is remembered", "sessionStorage.getItem('lilac.unsent.s1') === null")
}
