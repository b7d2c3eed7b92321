package webui_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

// withoutClock disables the periodic reload of the list.
const withoutClock = "{ const every = setInterval; window.setInterval = (fn, ms) => (ms === 20000 ? 0 : every(fn, ms)); }"

// A conversation that is too old for the list shows its title immediately and can be renamed.
func TestAnOldConversationHasItsName(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	for i := range 101 {
		f.conversation(fmt.Sprint("Chat ", i+1))
	}
	p := webuitest.Open(t, "about:blank", 1000, 700)
	p.Before(withoutClock, f.url("#/s/s101"))
	p.Shows("#title", "Chat 101")
	p.To("#/")
	p.Shows("#title", "New conversation")
	f.conversation("Chat 102")
	p.To("#/s/s102")
	p.Shows("#title", "Chat 102")
	p.Click("#rename")
	p.Until("it asks with the old name", "document.getElementById('ask-field').value === 'Chat 102'")
}

// A list that is truncated says how to find older conversations.
func TestTheEndOfTheListLeadsToTheSearch(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.set(func() {
		for i := range 1001 {
			f.sessions = append(f.sessions, object{"id": fmt.Sprint("s", i+1), "client": "web", "title": "Chat", "createdAt": 1, "updatedAt": 1, "state": "idle"})
		}
	})
	p := webuitest.Open(t, f.url(""), 1000, 700)
	p.Shows("#list .older", "Show older")
	p.Click("#list .older button")
	p.Shows("#list .older", "Search older conversations")
	p.Click("#list .older button")
	p.Until("the keyboard is in the search", "document.activeElement.name === 'q'")
}

// Loads of the same list follow each other, so that a slow old answer does not replace a newer one. What
// is asked for during a load is answered by the next one.
func TestListsAreLoadedOneAtATime(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	_, p := talk(t)
	p.Do(chromedp.Evaluate[chromedp.Void](`
		void import('/assets/refresh.js').then(async ({ oneAtATime }) => {
			const told = [], ends = [];
			const load = oneAtATime(() => {
				told.push('begin');
				return new Promise((end, fail) => ends.push({ end, fail }));
			});
			const done = (name) => () => told.push(name);
			const first = load();
			first.catch(done('first failed'));
			load().then(done('second'));
			load().then(done('third'));
			ends[0].fail(new Error('no answer'));
			await first.catch(() => {});
			await new Promise(setTimeout);
			ends[1].end();
			await new Promise(setTimeout);
			load().then(done('last'));
			ends[2].end();
			await new Promise(setTimeout);
			window.told = told.join(', ');
		})`))
	p.Until("the loads have ended", "window.told")
	if got, want := webuitest.Eval[string](p, "window.told"), "begin, first failed, begin, second, third, begin, last"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A connection that is lost silently does not end. A list that waits for it is loaded again later.
func TestAListIsLoadedAgainAfterALoadWithoutAnAnswer(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.conversation("Talk")
	never := make(chan struct{})
	defer close(never)
	f.set(func() {
		f.views.tasks = []object{{"id": "t1", "sessionId": "s1", "kind": "command", "description": "tests", "state": "completed", "createdAt": 1, "endedAt": 2}}
		f.late = map[string]chan struct{}{"GET /tasks": never}
	})
	p := webuitest.Open(t, "about:blank", 1000, 700)
	const soon = "{ const after = AbortSignal.timeout; AbortSignal.timeout = (ms) => after.call(AbortSignal, ms / 100); }"
	p.Before(soon, f.url("#/tasks"))
	p.Shows("#view-problem", "Cannot reach Lilac. Check that it is running.")
	f.emit("background_task.completed", object{"taskId": "t1"})
	p.Until("the tasks are there", "document.querySelector('[data-task=t1]')")
}

// The list is updated even if events arrive without a pause.
func TestListIsUpdatedUnderLoad(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.conversation("Talk")
	p := webuitest.Open(t, "about:blank", 1000, 700)
	p.Before(withoutClock, f.url(""))
	f.streaming()
	p.Until("the list is there", "document.querySelectorAll('#list a').length === 1")
	over, emitted := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(emitted)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-over:
				return
			case <-tick.C:
				f.emit("session.updated", object{})
				if n == 50 {
					f.conversation("Another one")
				}
			}
		}
	}()
	p.Until("what is new is in it", "document.querySelectorAll('#list a').length === 2")
	close(over)
	<-emitted
}

// If a conversation was deleted, a message for it is not sent. Its text returns to the message box and can
// start another conversation.
func TestTextForADeletedConversationIsReturned(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.conversation("Talk")
	f.set(func() { f.deleted = true })
	p := webuitest.Open(t, "about:blank", 1000, 700)
	p.Before("sessionStorage.setItem('lilac.unsent.s9', JSON.stringify([{ key: 'k', text: 'typed offline', files: [], queue: 'prompt', createdAt: Date.now(), problem: '' }]))", f.url("#/s/s9"))
	p.Shows("#outbox .words", "typed offline")
	p.Shows("#outbox .fate", "The conversation was deleted before this message arrived.")
	p.Do(chromedp.SendKeys("#text", "and this"))
	p.Click("#new")
	p.Until("the words are where a new one begins", "location.hash === '#/' && document.getElementById('text').value === 'typed offline\\n\\nand this'")
	if n := len(f.keys); n != 0 {
		t.Errorf("%d messages were sent", n)
	}
}
