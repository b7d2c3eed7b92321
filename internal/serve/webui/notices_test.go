package webui_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

// away replaces the browser's notifications by a list, and lets the test hide the page and
// choose the permission.
const away = `window.notes = []; window.Notification = class {
	constructor(title, { body, tag }) { window.notes.push([title, body, tag].join('|')); window.note = this; }
	close() { window.dismissed = true; }
	static permission = %q;
	static async requestPermission() { window.requested = true; return this.permission; }
};
Object.defineProperty(document, 'hidden', { get: () => Boolean(window.away) });`

func TestTheBrowserNotifiesOfAnswersWhileThePageIsHidden(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	for permission, on := range map[string]bool{"granted": true, "denied": false} {
		t.Run(permission, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.conversation("Talk")
			f.conversation("Another one")
			p := webuitest.Open(t, "about:blank", 1000, 700)
			p.Before(fmt.Sprintf(away, permission), f.url("#/s/s1"))
			f.listened()
			p.Click("#help")
			p.Until("it is off", "document.querySelector('#keys label:nth-of-type(4) select')?.value === 'off'")
			p.Do(chromedp.SetValue("#keys label:nth-of-type(4) select", "on"), chromedp.Evaluate[chromedp.Void]("document.querySelector('#keys label:nth-of-type(4) select').dispatchEvent(new Event('change'))"))
			p.Until("the browser is asked", fmt.Sprintf("window.requested && document.querySelector('#keys label:nth-of-type(4) select').value === %q", map[bool]string{true: "on", false: "off"}[on]))
			p.Picture("notify-"+permission, false)
			p.Do(chromedp.Evaluate[chromedp.Void]("document.querySelector('#keys .buttons button').click()"))
			done := func(n int, content string) {
				f.emit("stream.completed", object{"requestId": fmt.Sprintf("web:s1:n%d", n), "content": content})
				p.Until("the page has the end", fmt.Sprintf("document.body.innerText.includes(%q)", content))
			}
			done(1, "While it is shown.")
			p.Do(chromedp.Evaluate[chromedp.Void]("window.away = true"))
			done(2, "While it is **hidden**.")
			f.emit("session.paused", object{"requestId": "web:s1:n3", "pause": 1, "question": "Go on?"})
			if !on {
				done(4, "Once more.")
				p.Until("nothing is shown", "window.notes.length === 0")
				return
			}
			p.Until("only what came while it was hidden is shown", "window.notes.join(' ') === 'Talk|While it is **hidden**.|stream.completed web:s1:n2 Talk|Go on?|session.paused web:s1:n3'")
			p.Do(chromedp.Evaluate[chromedp.Void]("location.hash = '#/tasks'; window.note.onclick()"))
			p.Until("a click leads to the conversation", "location.hash === '#/s/s1' && window.dismissed")
		})
	}
}

func TestASelectionIsQuoted(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	answered(f, "done")
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	// The page draws an answer once more when it knows its request, and a selection does not survive that.
	p.Until("the answer is there, and the line below it", "document.querySelector('.answer') && document.querySelector('.about')")
	p.Shows(".answer", "In meadows.") // its Markdown is drawn by the server, a moment later
	p.Until("nothing can be quoted", "document.getElementById('quote').hidden")
	p.Do(chromedp.Evaluate[chromedp.Void]("document.getElementById('text').value = 'I wonder: '; getSelection().selectAllChildren(document.querySelector('.answer'))"))
	p.Until("it can be quoted", "!document.getElementById('quote').hidden")
	p.Picture("quote", false)
	p.Click("#quote")
	p.Until("it is in the message box, below what was there", `document.getElementById('text').value === 'I wonder:\n\n> In meadows.\n\n' && document.activeElement.id === 'text' && document.getElementById('quote').hidden`)
	p.Do(chromedp.Evaluate[chromedp.Void]("getSelection().selectAllChildren(document.querySelector('.sidebar, aside, nav'))"))
	p.Until("other text cannot be quoted", "document.getElementById('quote').hidden")
}
