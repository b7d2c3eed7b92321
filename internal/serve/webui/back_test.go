package webui_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

// ran adds n finished requests, each in its own conversation.
func (f *fake) ran(n int) {
	for i := range n {
		f.conversation(fmt.Sprint("Chat ", i+1))
	}
	f.set(func() {
		for i := range n {
			id, session := fmt.Sprint("web:r", i+1), fmt.Sprint("s", i+1)
			r := object{"id": id, "sessionId": session, "asked": "What?", "state": "done", "createdAt": 1, "startedAt": 1, "endedAt": 2, "steps": 1, "usage": object{}}
			f.requests = append(f.requests, r)
			s := object{"messages": []object{}, "entries": []object{}}
			for k, v := range r {
				s[k] = v
			}
			f.views.stories[id] = s
		}
	})
}

// Views show the titles of conversations that are too old for the list.
func TestViewsNameOldConversations(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.set(func() { f.views.stories = map[string]object{} })
	f.ran(102)
	f.set(func() {
		f.requests = f.requests[100:]
		f.views.tasks = []object{{"id": "t1", "sessionId": "s101", "kind": "command", "description": "tests", "state": "completed", "createdAt": 1, "endedAt": 2}}
		f.views.workflows = []object{{"id": "w1", "state": "waiting", "summary": "Ask Ann", "origin": object{"client": "web", "sessionId": "s102", "requestId": "web:r102"}, "createdAt": 1}}
	})
	p := webuitest.Open(t, f.url("#/requests"), 1000, 700)
	p.Shows("[data-request='web:r101'] b", "Chat 101")
	p.Shows("[data-request='web:r102'] b", "Chat 102")
	p.To("#/tasks")
	p.Until("a task says for whom it is", "document.querySelector('[data-task=t1]')?.innerText.includes('Chat 101')")
	p.To("#/tasks/t1")
	p.Until("so does its page", "document.querySelector('.story-top')?.innerText.includes('For Chat 101')")
	p.To("#/workflows")
	p.Until("a workflow says for whom it is", "document.querySelector('[data-workflow=w1]')?.innerText.includes('Chat 102')")
	p.To("#/requests/web:r101")
	p.Shows(".story-top a", "Chat 101")
	p.To("#/events?session=s102")
	p.Until("who looks for its events sees its name", "document.querySelector('[name=session]').selectedOptions[0]?.innerText === 'Chat 102'")
}

// If the server did not return a title, the page requests it again.
func TestTitleIsLoadedAgain(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.set(func() { f.views.stories = map[string]object{} })
	f.ran(101)
	f.set(func() { f.requests = f.requests[100:] })
	p := webuitest.Open(t, "about:blank", 1000, 700)
	p.Before(`{
		const ask = fetch;
		window.asked = 0;
		window.fetch = (url, ...rest) => (String(url).endsWith('/sessions/s101') && !window.asked++ ? Promise.reject(new Error('away')) : ask(url, ...rest));
	}`, f.url("#/requests"))
	p.Until("it is asked for", "window.asked")
	f.emit("session.updated", object{})
	p.Shows("[data-request='web:r101'] b", "Chat 101")
}

// A user who opens one of many entries and goes back returns to the same scroll position.
func TestBackButtonRestoresTheScrollPosition(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.set(func() { f.views.stories = map[string]object{} })
	f.ran(80)
	p := webuitest.Open(t, f.url("#/requests"), 1000, 700)
	p.Click("button.pill:not([hidden])") // Show older
	p.Until("all are shown", "document.querySelectorAll('.card').length === 80")
	p.Do(chromedp.Evaluate[chromedp.Void]("document.querySelector(\"[data-request='web:r70']\").scrollIntoView()"))
	const scrolled = "document.getElementById('view').scrollTop"
	before := webuitest.Eval[float64](p, scrolled)
	p.Click("[data-request='web:r71']")
	p.Until("there is the story", "document.querySelector('.timeline')")
	p.Until("from its beginning", scrolled+" === 0")
	p.Do(chromedp.Evaluate[chromedp.Void]("history.back()"))
	p.Until("all are shown as before", "document.querySelectorAll('.card').length === 80")
	if now := webuitest.Eval[float64](p, scrolled); now < before-200 || before == 0 {
		t.Errorf("scrolled to %v, was at %v", now, before)
	}
	p.Until("the keyboard is where it was", "document.activeElement.dataset.request === 'web:r71'")
	p.Click("#views [data-view=health]")
	p.Click("#views [data-view=requests]")
	p.Until("who goes there anew begins at the top", scrolled+" === 0 && document.querySelectorAll('.card').length === 50")
}

// After going back, new entries are shown too, and no entry between the new and the old ones is missing.
func TestBackButtonShowsNewEntries(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.set(func() { f.views.stories = map[string]object{} })
	f.ran(120)
	f.set(func() { f.requests = f.requests[60:] })
	p := webuitest.Open(t, f.url("#/requests"), 1000, 700)
	p.Until("the newest are there", "document.querySelectorAll('.card').length === 50")
	p.Click("button.pill:not([hidden])")
	p.Until("all are shown", "document.querySelectorAll('.card').length === 60")
	p.Click("[data-request='web:r61']")
	p.Until("there is the story", "document.querySelector('.timeline')")
	all := f.requests
	f.set(func() {
		f.requests = append([]object{{"id": "web:new", "sessionId": "s1", "asked": "What?", "state": "running", "createdAt": 1}}, all...)
	})
	p.Do(chromedp.Evaluate[chromedp.Void]("history.back()"))
	p.Until("what came is the first", "document.querySelector('.card')?.dataset.request === 'web:new' && document.querySelectorAll('.card').length === 61")
	p.Click("[data-request='web:r61']")
	p.Until("there is the story again", "document.querySelector('.timeline')")
	for _, c := range []struct{ n, want int }{{60, 121}, {600, 500}} { // after more than ten pages, the list starts over
		n, want := c.n, c.want
		f.set(func() {
			var many []object
			for i := range n {
				many = append(many, object{"id": fmt.Sprint("web:many", n, "-", i), "sessionId": "s1", "asked": "What?", "state": "done", "createdAt": 1})
			}
			f.requests = append(many, f.requests...)
		})
		p.Do(chromedp.Evaluate[chromedp.Void]("history.back()"))
		p.Until("what came is there, and nothing is missing behind it", fmt.Sprintf("document.querySelectorAll('.card').length === %d && [...document.querySelectorAll('.card')].slice(0, %d).every((e, i) => e.dataset.request === 'web:many%d-' + i)", want, min(n, 500), n))
		p.Click(".card")
		p.Until("there is a story", "!document.querySelector('.card')")
	}
}
