package webui_test

import (
	"testing"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

// follows checks that the page receives the events of a conversation.
func follows(f *fake, until func(what, js string)) {
	const r = "web:s1:m0"
	f.listened()
	f.emit("stream.start", object{"requestId": r})
	f.text(r, "one two", 0)
	f.emit("stream.completed", object{"requestId": r, "content": "one two", "usage": nil})
	until("the answer is there", "document.querySelector('#transcript .answer')?.innerText.trim() === 'one two'")
}

// Browsers refuse what they refuse in different ways.
func TestThePageWorksWithoutLocksChannelsAndStorage(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const no = "const no = () => { throw new DOMException('', 'SecurityError'); };"
	for what, script := range map[string]string{
		"locks that reject": "navigator.locks.request = () => Promise.reject(new DOMException('', 'SecurityError'));",
		"no channel":        no + "window.BroadcastChannel = class { constructor() { no(); } };",
		"no storage":        no + "for (const name of ['localStorage', 'sessionStorage', 'indexedDB', 'caches']) Object.defineProperty(window, name, { get: no });",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.conversation("Talk")
			p := webuitest.Open(t, "about:blank", 1000, 700)
			p.Before(script, f.url("#/s/s1"))
			follows(f, p.Until)
			p.Say("hello")
			p.Shows("#outbox .words", "hello")
			attach(t, p, "notes.txt")
			p.To("#/")
			p.To("#/s/s1")
			p.Until("the draft is there", listed+" === 'notes.txt ✕'")
		})
	}
}

// Firefox as people have it who let sites store nothing, and as the Tor Browser has it.
func TestThePageWorksInAFirefoxThatRefusesToStoreData(t *testing.T) {
	effort.SkipLong(t, "Firefox, which is not the default browser,")
	t.Parallel()
	f := newFake(t)
	f.conversation("Talk")
	p := webuitest.OpenFirefox(t, f.url("#/s/s1"), 1000, 700, `"network.cookie.cookieBehavior", 2`, `"privacy.resistFingerprinting", true`)
	follows(f, p.Until)
	if got := p.Text("(() => { try { localStorage.length; return 'stores'; } catch { return 'refuses'; } })()"); got != "refuses" {
		t.Errorf("control: Firefox %s data", got)
	}
	p.Say("hello")
	p.Until("the message was sent", "document.querySelector('#outbox .words')?.innerText === 'hello'")
	// Its canvas returns noise, so that a picture must stay as it is.
	p.Text(`(() => { const data = Uint8Array.from(atob('` + widePNG(t) + `'), (c) => c.charCodeAt(0)); const all = new DataTransfer();
		all.items.add(new File([data], 'wide.png', { type: 'image/png' }));
		document.dispatchEvent(new DragEvent('drop', { dataTransfer: all, bubbles: true, cancelable: true })); })()`)
	p.Until("the picture is attached as it is", listed+" === 'wide.png ✕'")
}
