package webuitest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// within limits every wait. It is longer than a person would wait, because the machine
// may be busy with other tests.
const within = 2 * time.Minute

// Tab is a tab of Chromium.
type Tab struct {
	t             *testing.T
	ctx, storage  context.Context
	stop          context.CancelFunc
	width, height int
}

// Open opens the page in a window of the given size with its own storage, in the browser
// that [Main] shares, or in a new browser.
func Open(t *testing.T, url string, width, height int) *Tab {
	t.Helper()
	parent := shared.context(t)
	chrome := chromedp.FromContext(parent).Browser
	storage, err := cdp.Call(parent, chrome, target.CreateBrowserContext, target.CreateBrowserContextParams{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := cdp.Call(parent, chrome, target.DisposeBrowserContext, target.DisposeBrowserContextParams(storage)); err != nil {
			t.Errorf("remove the storage of the tabs: %v", err)
		}
	})
	// This context has no tab of its own. It passes the storage on to the contexts of
	// tabs, so that every tab can be closed.
	ctx, stop := chromedp.NewContext(parent, chromedp.WithExistingBrowserContext(storage.BrowserContextID))
	t.Cleanup(stop)
	return open(t, ctx, url, width, height)
}

// Another opens another tab that shares storage, locks and connections with this one.
func (p *Tab) Another(url string) *Tab {
	p.t.Helper()
	return open(p.t, p.storage, url, p.width, p.height)
}

// Close closes the tab, as a person does.
func (p *Tab) Close() { p.stop() }

func open(t *testing.T, storage context.Context, url string, width, height int) *Tab {
	t.Helper()
	ctx, stop := chromedp.NewContext(storage)
	t.Cleanup(stop)
	p := &Tab{t: t, ctx: ctx, storage: storage, stop: stop, width: width, height: height}
	// The first call starts the browser; a deadline would end the browser, too.
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(int64(width), int64(height))); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Listen(ctx, func(e any) {
		if thrown, ok := e.(*runtime.EventExceptionThrown); ok {
			t.Errorf("the page threw: %s %v", thrown.ExceptionDetails.Text, thrown.ExceptionDetails.Exception)
		}
	}); err != nil {
		t.Fatal(err)
	}
	// A background tab gets no animation frames and draws nothing.
	p.Do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
		return err
	}))
	p.Do(chromedp.Navigate(url))
	return p
}

// Do runs actions without a result.
func (p *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, within)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// To opens another address of the page, such as "#/…".
func (p *Tab) To(hash string) {
	p.t.Helper()
	p.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("location.hash = %q", hash)))
}

// ask runs an action with a result.
func ask[T any](p *Tab, action chromedp.Action[T]) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, within)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		p.t.Fatal(err)
	}
	return v
}

// Eval evaluates JavaScript in the page.
func Eval[T any](p *Tab, js string) T {
	p.t.Helper()
	return ask(p, chromedp.Evaluate[T](js))
}

// Until waits until a JavaScript condition is true in the page.
func (p *Tab) Until(what, js string) {
	p.t.Helper()
	deadline := time.Now().Add(within)
	for {
		if Eval[bool](p, "Boolean("+js+")") {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("not within %s: %s\nthe page says:\n%s", within, what, p.says())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Click clicks the element that matches the selector, as soon as it exists, does not
// move and is not covered. It retries until a matching element received the click.
func (p *Tab) Click(selector string) {
	p.t.Helper()
	type place struct{ X, Y float64 }
	var last *place
	for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		now := Eval[*place](p, "("+aimJS+")("+quote(selector)+")")
		if now == nil || last == nil || *now != *last {
			last = now
			continue
		}
		p.Do(chromedp.MouseClickXY(now.X, now.Y))
		if p.clicked() {
			return
		}
		last = nil
	}
	p.t.Fatalf("not within %s: a click on %s\nthe page says:\n%s", within, selector, p.says())
}

// says returns the text of the page, those of its boxes, the element with the focus, and the selection.
func (p *Tab) says() string {
	p.t.Helper()
	return Eval[string](p, `document.body.innerText + [...document.querySelectorAll('textarea, input')].filter((e) => e.value && e.checkVisibility())
		.map((e) => '\n' + (e.id || e.name || e.type) + ': ' + JSON.stringify(e.value)).join('') +
		'\nfocus: ' + document.activeElement?.outerHTML.slice(0, 100) + '\nselected: ' + JSON.stringify(String(getSelection()))`)
}

// clicked reports whether the last click reached its target, or opened another page.
func (p *Tab) clicked() bool {
	p.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		switch Eval[string](p, "window.aimed ? String(window.aimed.reached) : 'gone'") {
		case "gone", "true":
			return true
		case "false":
			return false
		}
	}
	return false
}

// aimJS returns where to click, or null, and records in window.aimed whether the element
// receives the next click.
const aimJS = `(selector) => {
	const element = document.querySelector(selector);
	if (!element?.checkVisibility({ checkVisibilityCSS: true })) return null;
	element.scrollIntoView({ block: 'nearest', inline: 'nearest', behavior: 'instant' });
	const [shape] = element.getClientRects();
	if (!shape) return null;
	const place = { X: shape.x + shape.width / 2, Y: shape.y + shape.height / 2 };
	if (!element.contains(document.elementFromPoint(place.X, place.Y))) return null;
	window.aimed?.listening.abort();
	const aimed = { listening: new AbortController(), reached: null };
	window.aimed = aimed;
	window.addEventListener('click', (e) => { aimed.reached = element.contains(e.target) || Boolean(e.target.closest(selector)); }, { capture: true, once: true, signal: aimed.listening.signal });
	return place;
}`

// Before opens an address and runs a script before those of the page.
func (p *Tab) Before(script, url string) {
	p.t.Helper()
	p.Do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return err
	}), chromedp.Navigate(url))
}

// Shows waits until an element that matches the selector shows exactly the text.
func (p *Tab) Shows(selector, text string) {
	p.t.Helper()
	p.Until(selector+" shows "+text, "[...document.querySelectorAll("+quote(selector)+")].some(e => e.innerText.trim() === "+quote(text)+")")
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// Say types a message and sends it with Enter.
func (p *Tab) Say(text string) {
	p.t.Helper()
	p.Do(chromedp.Focus("#text"), chromedp.SendKeys("#text", text))
	p.Press("Enter")
}

// Press presses Enter or Tab.
func (p *Tab) Press(key string) {
	p.t.Helper()
	p.Do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		// Send the key and its character as one event, like a keyboard. A separate
		// character event would arrive even if the page handled the key.
		down := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: key, Code: key, Text: "\r", WindowsVirtualKeyCode: 13}
		if key == "Tab" {
			down.Text, down.WindowsVirtualKeyCode = "", 9
		}
		if _, err := cdp.Call(ctx, t, input.DispatchKeyEvent, down); err != nil {
			return err
		}
		down.Type, down.Text = input.DispatchKeyEventTypeKeyUp, ""
		_, err := cdp.Call(ctx, t, input.DispatchKeyEvent, down)
		return err
	}))
}

// Picture saves a screenshot in the directory LILAC_SHOTS.
func (p *Tab) Picture(name string, dark bool) {
	dir := os.Getenv("LILAC_SHOTS")
	if dir == "" {
		return
	}
	p.Media(dark, true)
	if err := os.WriteFile(filepath.Join(dir, name+".png"), p.Screenshot(), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// Resize changes the size of the window.
func (p *Tab) Resize(width, height int) {
	p.t.Helper()
	p.Do(chromedp.EmulateViewport(int64(width), int64(height)))
}

// Screenshot returns what the tab shows, as a PNG.
func (p *Tab) Screenshot() []byte {
	p.t.Helper()
	return ask(p, chromedp.CaptureScreenshot())
}
