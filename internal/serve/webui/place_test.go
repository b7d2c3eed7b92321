package webui_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

// reads returns the first visible request of the conversation, its position, and the open folds.
const reads = `(() => {
	const top = document.getElementById('scroll').getBoundingClientRect().top;
	const first = [...document.querySelectorAll('.request')].find(e => e.getBoundingClientRect().bottom > top);
	return [first.dataset.request, Math.round(first.getBoundingClientRect().top - top), ...[...document.querySelectorAll('details[open]')].map(e => e.dataset.tool)].join(' ');
})()`

// again adds a message from a rule, which is only in the stored messages. It then waits until the page has
// loaded and drawn them.
func (f *fake) again(p *webuitest.Tab, n int) {
	f.t.Helper()
	id, r := fmt.Sprint("env-", n), fmt.Sprint("env:", n)
	f.set(func() {
		f.messages = append(f.messages, object{"id": id, "requestId": r, "role": "user", "content": "It rains.", "createdAt": 1})
	})
	loaded := shut(p, "GET /requests", false)
	f.emit("session.message_applied", object{"messageId": id, "requestId": r, "queue": "prompt"})
	loaded.holds(1)
	loaded.release()
	p.Do(chromedp.Evaluate[chromedp.Void]("window.drawn = false; requestAnimationFrame(() => requestAnimationFrame(() => { window.drawn = true; }))"))
	p.Until("it is drawn", "window.drawn")
}

// A message that arrives from elsewhere must not move what the user reads.
func TestReloadKeepsTheScrollPosition(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	for _, at := range []int{100, 780} { // far back, and in the newest page
		f := newFake(t)
		f.long(800)
		f.set(func() {
			f.messages[at+1]["content"] = []object{
				{"type": "tool-call", "toolCallId": "c1", "toolName": "bash", "input": object{"command": "ls"}},
				{"type": "text", "text": "Here it is."},
			}
			delete(f.messages[at+1], "html")
		})
		p := webuitest.Open(t, "about:blank", 1000, 500)
		p.Before(gateJS, f.url(fmt.Sprint("#/s/s1/m/m", at)))
		f.listened()
		p.Until("it is found", fmt.Sprintf("document.activeElement.dataset.message === 'm%d'", at))
		p.Click("[data-tool=c1] summary")
		before := webuitest.Eval[string](p, reads)
		for n := range 2 {
			f.again(p, n)
			if now := webuitest.Eval[string](p, reads); now != before {
				t.Errorf("at message %d: %q was read, now %q", at, before, now)
			}
		}
		p.Click("#latest")
		p.Shows("#transcript details[data-message=env-1] .what", "It rains.")
	}
}

// The same holds for a user who reads an answer that arrived while the page was open.
func TestReloadOfALiveAnswerKeepsTheScrollPosition(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.conversation("Talk")
	p := webuitest.Open(t, "about:blank", 1000, 500)
	p.Before(gateJS, f.url("#/s/s1"))
	f.listened()
	const n = 30
	for i := range n {
		r, said := fmt.Sprint("web:s1:r", i), fmt.Sprint("answer ", i)
		f.emit("stream.start", object{"requestId": r})
		f.emit("stream.tool_call", object{"requestId": r, "toolCallId": fmt.Sprint("c", i), "name": "bash", "status": "end", "ok": true, "output": "fine"})
		f.text(r, said, 0)
		f.emit("stream.completed", object{"requestId": r, "content": said, "usage": nil})
		f.set(func() {
			f.messages = append(f.messages, object{"id": fmt.Sprint("a", i), "requestId": r, "role": "assistant", "createdAt": 1, "content": []object{
				{"type": "tool-call", "toolCallId": fmt.Sprint("c", i), "toolName": "bash", "input": object{}}, {"type": "text", "text": said},
			}})
		})
	}
	p.Until("all are there", fmt.Sprintf("document.querySelectorAll('.request .md p').length === %d", n))
	p.Do(chromedp.Evaluate[chromedp.Void]("document.querySelector('[data-tool=c10]').scrollIntoView()"))
	p.Until("who goes up stays there", "!document.getElementById('latest').hidden")
	p.Click("[data-tool=c11] summary")
	before := webuitest.Eval[string](p, reads)
	for i := range 2 {
		f.again(p, i)
		p.Until("it is as it was, not "+before, fmt.Sprintf("%s === %q", reads, before))
	}
}
