package webui_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

// On paper, a conversation and a view go on over all pages, in black on white, without what only a screen needs.
func TestAConversationIsPrinted(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	p := openLong(t, 1000, 700)
	p.Do(chromedp.Evaluate[chromedp.Void]("document.documentElement.dataset.theme = 'dark'"))
	p.Do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
		return err
	}))
	p.Until("all of it is on the paper", "document.documentElement.scrollHeight > 2000 && document.getElementById('scroll').scrollHeight === document.getElementById('scroll').clientHeight")
	p.Until("the list, the message box and the buttons are not", "['#side', '#composer', '#title ~ *', '.about button'].every(s => !document.querySelector(s)?.checkVisibility())")
	p.Until("it is black on white", "getComputedStyle(document.body).color === 'rgb(38, 34, 46)'")
	p.To("#/health")
	p.Until("a view is, too", "(v => v && !v.hidden && v.scrollHeight === v.clientHeight)(document.getElementById('view'))")
}

// printed prints the page and returns the number of requests on the paper, and the sentence above them.
func printed(t *testing.T, p *webuitest.Tab) (requests int, sentence string) {
	t.Helper()
	p.Do(chromedp.Evaluate[chromedp.Void](`addEventListener('beforeprint', () => { window.paper = [document.querySelectorAll('.request').length, document.getElementById('cut').hidden ? '' : document.getElementById('cut').textContent]; }, { once: true }); 0`))
	p.Do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, page.PrintToPDF, page.PrintToPDFParams{})
		return err
	}))
	p.Until("it was printed", "window.paper")
	return webuitest.Eval[int](p, "window.paper[0]"), webuitest.Eval[string](p, "window.paper[1]")
}

// The document has only a part of a long conversation. Ctrl+P loads and prints all of it. The browser's menu
// prints the loaded part. The paper says if something is missing.
func TestAWholeConversationIsPrinted(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const n = 700
	f := newFake(t)
	f.long(n)
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	p.Until("the conversation is there", "document.querySelector('#transcript').innerText.includes('message 699')")
	drawn := webuitest.Eval[int](p, "document.querySelectorAll('.request').length")
	if got, said := printed(t, p); got != 50 || !strings.Contains(said, "“Print this conversation”") {
		t.Errorf("the menu prints %d requests with the sentence %q", got, said)
	}
	p.Do(chromedp.Evaluate[chromedp.Void]("window.print = () => { window.asked = true; }; 0"))
	press(p, "p", 2)
	p.Until("the browser is asked to print", "window.asked")
	if got, said := printed(t, p); got != n/2 || said != "" {
		t.Errorf("%d requests are printed with the sentence %q, want %d", got, said, n/2)
	}
	p.Until("the screen has only a part again, at its end", fmt.Sprintf("document.querySelectorAll('.request').length <= %d && document.getElementById('cut').hidden && "+
		"(s => s.scrollHeight - s.scrollTop - s.clientHeight < 2)(document.getElementById('scroll'))", drawn+20))
}

// The browser's own search sees the document only.
func TestTheBrowserFindsTextInAWholeConversation(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.long(700)
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	p.Until("the conversation is there", "document.querySelector('#transcript').innerText.includes('message 699')")
	press(p, "f", 2)
	p.Until("all of it is there, and its end is in view", "document.querySelectorAll('.request').length === 350 && (s => s.scrollHeight - s.scrollTop - s.clientHeight < 2)(document.getElementById('scroll'))")
	if !webuitest.Eval[bool](p, "window.find('message 2', false, true) && getSelection().toString() === 'message 2'") {
		t.Error("the browser does not find an early message")
	}
	f.conversation("Another one")
	p.To("#/s/s2")
	p.Shows("#title", "Another one")
	p.To("#/s/s1")
	p.Until("it is drawn in parts again", "document.querySelector('#transcript').innerText.includes('message 699') && document.querySelectorAll('.request').length < 100")
}
