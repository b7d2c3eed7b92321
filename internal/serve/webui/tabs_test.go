package webui_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

const tabs = 8

// A browser opens at most six connections to a host. With one event stream per tab, the seventh tab could
// not even load its list.
func TestManyTabsShareOneEventStream(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.conversation("Talk")
	first := webuitest.Open(t, f.url("#/s/s1"), 700, 500)
	f.listened()
	all := []*webuitest.Tab{first}
	for range tabs - 1 {
		all = append(all, first.Another(f.url("#/s/s1")))
	}
	f.until("every tab has its messages", func() bool { return f.loads == tabs })
	const r = "web:s1:m0"
	f.emit("stream.start", object{"requestId": r})
	f.text(r, "one ", 0)
	for _, p := range all {
		p.Shows("#transcript .answer", "one")
	}
	f.mu.Lock()
	if f.open != 1 || f.streams != 1 {
		t.Errorf("%d event streams are open and %d were opened, want one", f.open, f.streams)
	}
	f.mu.Unlock()

	// The tab that reads the stream is closed while text arrives.
	first.Close()
	f.text(r, "two ", 4)
	f.opened(2)
	f.text(r, "three", 8)
	f.emit("stream.completed", object{"requestId": r, "content": "one two three", "usage": nil})
	for _, p := range all[1:] {
		p.Shows("#transcript .answer", "one two three")
		p.Until("it is over", "document.querySelector('.request').dataset.state === 'done'")
	}
	f.until("one event stream is open after one tab was closed", func() bool { return f.open == 1 })
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.loads != tabs {
		t.Errorf("the messages were asked for %d times, want once for each tab", f.loads)
	}
}

// A tab that has not received any event takes over the stream at its current position. Events that occur
// while no tab reads the stream are not lost.
func TestEventsBetweenTwoLeadingTabsAreShown(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.conversation("Talk")
	first := webuitest.Open(t, f.url("#/s/s1"), 700, 500)
	f.listened()
	second := first.Another(f.url("#/s/s1"))
	f.until("both have their messages", func() bool { return f.loads == 2 })
	second.Until("the second is connected", "document.getElementById('link').innerText === ''")
	f.set(func() { f.trouble = "later" }) // from here on, no tab reads the stream
	first.Close()
	second.Shows("#link", "reconnecting…")
	const r = "web:s1:m0"
	f.emit("stream.start", object{"requestId": r})
	f.text(r, "one", 0)
	f.set(func() { f.trouble = "" })
	f.opened(2)
	second.Shows("#transcript .answer", "one")
}

// A frozen tab still holds the lock on the stream. A visible tab takes the stream over, and the frozen tab
// continues as a follower.
func TestFrozenTabLosesTheLead(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.conversation("Talk")
	first := webuitest.Open(t, f.url("#/s/s1"), 700, 500)
	f.listened()
	second := first.Another(f.url("#/s/s1"))
	f.until("both have their messages", func() bool { return f.loads == 2 })
	const r = "web:s1:m0"
	f.emit("stream.start", object{"requestId": r})
	f.text(r, "one ", 0)
	second.Shows("#transcript .answer", "one")

	first.Do(chromedp.Evaluate[chromedp.Void]("setTimeout(() => alert('Nothing goes on here.'), 0)"))
	f.opened(2)
	f.text(r, "two ", 4)
	second.Shows("#transcript .answer", "one two")

	first.Do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true})
		return err
	}))
	f.until("one event stream is open", func() bool { return f.open == 1 })
	f.text(r, "three", 8)
	for _, p := range []*webuitest.Tab{first, second} {
		p.Shows("#transcript .answer", "one two three")
	}
	second.Close()
	f.opened(3)
	f.emit("stream.completed", object{"requestId": r, "content": "one two three", "usage": nil})
	first.Until("the first leads again", "document.querySelector('.request').dataset.state === 'done'")
}

// The stream reports only once, when a request begins, that its text is not streamed. A tab that is opened
// later must know that too, even after the tab that received the report is closed.
func TestLateTabIsToldThatTextIsMissing(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.conversation("Talk")
	first := webuitest.Open(t, f.url("#/s/s1"), 700, 500)
	f.listened()
	const torn, whole, note = "web:s1:m0", "web:s1:m1", "Part of this answer is missing"
	said := func(p *webuitest.Tab, text string, times int) {
		t.Helper()
		p.Until(fmt.Sprintf("%q stands there %d times", text, times), fmt.Sprintf("document.querySelector('#transcript').innerText.split(%q).length === %d", text, times+1))
	}
	f.emit("stream.start", object{"requestId": torn})
	f.emit("stream.gap", object{"requestId": torn, "topic": "out.req." + torn})
	f.emit("stream.start", object{"requestId": whole})
	said(first, note, 1)
	// The replay for a tab that opens the conversation does not repeat the report.
	f.set(func() { f.running, f.from = []string{torn, whole}, len(f.events) })
	f.text(whole, "words", 0)
	second := first.Another(f.url("#/s/s1"))
	said(second, note, 1)
	first.Close()
	f.opened(2)
	third := second.Another(f.url("#/s/s1"))
	said(third, note, 1)
	said(third, "words", 1)

	f.set(func() {
		f.running = []string{whole}
		f.messages = []object{{"id": "a0", "requestId": torn, "role": "assistant", "content": "all of it", "createdAt": 1}}
	})
	f.emit("stream.completed", object{"requestId": torn, "content": "all of it", "usage": nil})
	for _, p := range []*webuitest.Tab{second, third} {
		said(p, "all of it", 1)
	}
	fourth := third.Another(f.url("#/s/s1"))
	said(fourth, "words", 1)
	said(fourth, note, 0)
}

// Control: without the lock, each tab reads its own stream, and the browser allows only six.
func TestControlWithoutTheLockEachTabHasAStreamAndSixAreAll(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.conversation("Talk")
	const without = "Object.defineProperty(Navigator.prototype, 'locks', { get() { return undefined; } })"
	first := webuitest.Open(t, "about:blank", 700, 500)
	first.Before(without, f.url("#/s/s1"))
	for range 2 {
		first.Another("about:blank").Before(without, f.url("#/s/s1"))
	}
	f.until("three tabs have three streams", func() bool { return f.open == 3 && f.loads == 3 })
	first.Do(chromedp.Evaluate[chromedp.Void]("window.held = [1, 2, 3].map(() => fetch('/events'))"))
	f.until("there are six", func() bool { return f.open == 6 })
	first.Do(chromedp.Evaluate[chromedp.Void]("void fetch('/status', { signal: AbortSignal.timeout(1000) }).then(() => { window.told = 'answered' }, e => { window.told = e.name })"))
	first.Until("the seventh call gets no connection", "window.told === 'TimeoutError'")
}
