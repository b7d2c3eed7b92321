package webui_test

import (
	"context"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

// On paper, a conversation and a view go on over all pages, in black on white, without what only a screen needs.
func TestAConversationIsPrinted(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.long(60)
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	p.Until("the conversation is there", "document.querySelector('#transcript').innerText.includes('message 59')")
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
