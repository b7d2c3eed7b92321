package webui_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

// An entry that was running when it was listed is updated when it ends, even if so many newer entries exist
// that it is no longer on the newest page.
func TestUnfinishedEntriesBeyondTheNewestPageAreReloaded(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f, p := furnished(t, "", "#/tasks", 1100, 760)
	p.Until("it runs", "document.querySelector('[data-key=t2] .badge')?.innerText === 'running'")
	f.set(func() {
		var later []object
		for i := range 60 {
			later = append(later, object{"id": fmt.Sprint("later", i), "sessionId": "s1", "kind": "command", "description": "more", "state": "completed", "createdAt": 1_760_000_001_000, "endedAt": 1_760_000_002_000})
		}
		f.views.tasks[0]["state"], f.views.tasks[0]["endedAt"] = "completed", 1_760_000_009_000
		f.views.tasks = append(later, f.views.tasks...)
	})
	p.Until("it has ended", "document.querySelector('[data-key=t2] .badge')?.innerText === 'done'")

	f.set(func() { f.requests[0]["state"], f.requests[0]["detail"], f.requests[0]["endedAt"] = "running", "", 0 })
	p.To("#/requests")
	p.Until("it runs", "document.querySelector('[data-key=\"web:s1:m2\"] .badge')?.innerText === 'running'")
	f.set(func() {
		ended := object{"id": "web:s1:m2", "sessionId": "s1", "asked": "And in winter?", "state": "done", "createdAt": 1_760_000_100_000, "startedAt": 1_760_000_100_100, "endedAt": 1_760_000_103_000, "usage": object{}}
		f.views.stories["web:s1:m2"] = ended
		var later []object
		for i := range 60 {
			later = append(later, object{"id": fmt.Sprint("web:s1:later", i), "sessionId": "s1", "asked": "more", "state": "done", "createdAt": 1_760_000_200_000, "startedAt": 1_760_000_200_000, "endedAt": 1_760_000_201_000, "usage": object{}})
		}
		f.requests = append(later, f.requests...)
	})
	f.streaming()
	f.emit("stream.completed", object{"requestId": "web:s1:m2"})
	p.Until("it has ended", "document.querySelector('[data-key=\"web:s1:m2\"] .badge')?.innerText === 'done'")
}

// A stored event can have an invalid timestamp.
func TestEventWithAnInvalidTimeIsShown(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f, p := furnished(t, "", "#/events", 1100, 760)
	f.streaming()
	f.set(func() {
		f.events = append(f.events, object{"id": "odd", "type": "custom.odd", "timestamp": 1_795_445_793_638_000_000, "metadata": object{}, "payload": object{}})
	})
	f.happen(1, "stream.text")
	p.Until("both are listed", "[...document.querySelectorAll('.event .type')].map(e => e.innerText).join() === 'stream.text,custom.odd'")
}

// A list offers to load older entries if and only if there are any.
func TestListLoadsOlderEntries(t *testing.T) {
	t.Parallel()
	const more = "button.pill:not([hidden])"
	for _, view := range []string{"tasks", "workflows"} {
		t.Run(view, func(t *testing.T) {
			f := newFake(t)
			f.conversation("Talk")
			list := func(n int) {
				f.set(func() {
					f.views.tasks, f.views.workflows = nil, nil
					for i := n; i > 0; i-- {
						id, at := fmt.Sprint("x", i), 1_760_000_000_000+i
						f.views.tasks = append(f.views.tasks, object{"id": id, "sessionId": "s1", "kind": "command", "description": "more", "state": "completed", "createdAt": at, "endedAt": at})
						f.views.workflows = append(f.views.workflows, object{"id": id, "origin": object{"sessionId": "s1", "client": "web"}, "summary": "more", "state": "waiting", "createdAt": at, "tasks": []object{}})
					}
				})
			}
			const cards = "document.querySelectorAll('#view .card').length"
			list(50)
			p := webuitest.Open(t, f.url("#/"+view), 1000, 700)
			p.Until("all are listed, and nothing older is offered", cards+" === 50 && !document.querySelector('"+more+"')")
			list(52)
			p.Do(chromedp.Reload())
			p.Until("the newest are listed", cards+" === 50 && document.querySelector('"+more+"')")
			p.Click(more)
			p.Until("so are the others, and no more are offered", cards+" === 52 && !document.querySelector('"+more+"')")
		})
	}
}
