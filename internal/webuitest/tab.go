package webuitest

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// within bounds how long anything may take, on a machine that is busy with
// other tests; a person would not wait that long.
const within = time.Minute

// Tab is a page in a Chromium of its own.
type Tab struct {
	t   *testing.T
	ctx context.Context
}

// chromium returns the browser, or ends the test with how to get it.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			return found
		}
	}
	const hint = "Chromium is needed to test the page: apt-get install chromium"
	if os.Getenv("CI") == "true" {
		t.Fatal(hint)
	}
	t.Skip(hint)
	return ""
}

// Open starts a Chromium of its own with the page in a window of that size.
func Open(t *testing.T, url string, width, height int) *Tab {
	t.Helper()
	profile := newProfile(t)
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(chromium(t)), chromedp.UserDataDir(profile),
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true),
	}
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	p := &Tab{t: t, ctx: ctx}
	// The first call starts the browser and must not have a deadline.
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
	p.Do(chromedp.Navigate(url))
	return p
}

// newProfile is a directory that outlives the test's own: processes of the
// browser may write to it for a moment after the browser itself has ended.
func newProfile(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lilac-chromium-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		deadline := time.Now().Add(within)
		for err := os.RemoveAll(dir); err != nil; err = os.RemoveAll(dir) {
			if time.Now().After(deadline) {
				t.Error(err)
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	return dir
}

// Do runs actions that have no value.
func (p *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, within)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// ask runs an action that has a value.
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

// Until waits for a condition in the page.
func (p *Tab) Until(what, js string) {
	p.t.Helper()
	deadline := time.Now().Add(within)
	for {
		if Eval[bool](p, "Boolean("+js+")") {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("not within %s: %s\nthe page says:\n%s", within, what, Eval[string](p, "document.body.innerText"))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Shows waits until an element that fits the selector shows exactly the text.
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
	p.Do(chromedp.Focus("#text"), chromedp.SendKeys("#text", text), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		// One event for the key and its character, as a keyboard makes it; a
		// character of its own would get past a key that the page has taken.
		enter := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: "Enter", Code: "Enter", Text: "\r", WindowsVirtualKeyCode: 13}
		if _, err := cdp.Call(ctx, t, input.DispatchKeyEvent, enter); err != nil {
			return err
		}
		enter.Type, enter.Text = input.DispatchKeyEventTypeKeyUp, ""
		_, err := cdp.Call(ctx, t, input.DispatchKeyEvent, enter)
		return err
	}))
}

// Picture saves a screenshot where LILAC_SHOTS says.
func (p *Tab) Picture(name string, dark bool) {
	dir := os.Getenv("LILAC_SHOTS")
	if dir == "" {
		return
	}
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	p.Do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, media)
		return err
	}), chromedp.Sleep(250*time.Millisecond))
	png := ask(p, chromedp.CaptureScreenshot())
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		p.t.Fatal(err)
	}
}
