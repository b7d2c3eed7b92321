package webui_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/webuitest"
)

const tabs = 8

// A browser opens six connections to a host. With a stream for each tab the
// seventh could not even load its list.
func TestManyTabsShareOneEventStream(t *testing.T) {
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

	// The tab that reads the stream is closed while it speaks.
	first.Close()
	f.text(r, "two ", 4)
	f.opened(2)
	f.text(r, "three", 8)
	f.emit("stream.completed", object{"requestId": r, "content": "one two three", "usage": nil})
	for _, p := range all[1:] {
		p.Shows("#transcript .answer", "one two three")
		p.Until("it is over", "document.querySelector('.request').dataset.state === 'done'")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open != 1 {
		t.Errorf("%d event streams are open after one tab was closed, want one", f.open)
	}
	if f.loads != tabs {
		t.Errorf("the messages were asked for %d times, want once for each tab", f.loads)
	}
}

// Without the lock each tab reads for itself, and six streams are all that a
// browser has: what the test above shows is not for free.
func TestControlWithoutTheLockEachTabHasAStreamAndSixAreAll(t *testing.T) {
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
