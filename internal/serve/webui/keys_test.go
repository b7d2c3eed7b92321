package webui_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

// press presses a key with modifiers: 2 is Ctrl, 8 is Shift.
func press(p *webuitest.Tab, key string, modifiers int64) {
	p.Do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		down := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeRawKeyDown, Key: key, Modifiers: modifiers}
		if _, err := cdp.Call(ctx, t, input.DispatchKeyEvent, down); err != nil {
			return err
		}
		down.Type = input.DispatchKeyEventTypeKeyUp
		_, err := cdp.Call(ctx, t, input.DispatchKeyEvent, down)
		return err
	}))
}

func TestTheKeyboardJumps(t *testing.T) {
	t.Parallel()
	f, p := furnished(t, "", "#/s/s1", 1100, 760)
	f.streaming()
	p.Until("the list is there", "document.querySelectorAll('#list a').length === 2")
	press(p, "k", 2)
	p.Until("it is open", "document.getElementById('jump').open && document.activeElement.matches('#jump input')")
	p.Picture("jump", false)
	p.Do(chromedp.SendKeys("#jump input", "dead view"))
	p.Until("one view is left", "document.querySelectorAll('#jump li').length === 1")
	p.Press("Enter")
	p.Until("it is there", "location.hash === '#/dead' && !document.getElementById('jump').open")

	press(p, "k", 2)
	p.Do(chromedp.SendKeys("#jump input", "nothing of this name"))
	p.Until("it says so", "document.querySelector('#jump li').textContent === 'Nothing found'")
	p.Press("Enter") // does nothing
	p.Do(chromedp.KeyEvent(kb.Escape))
	p.Until("it is closed", "!document.getElementById('jump').open")

	press(p, "O", 2|8)
	p.Until("a new conversation begins", "location.hash === '#/' && document.activeElement.id === 'text'")
}

// A whole conversation, of several pages, is saved as a file with what people and the agent said.
func TestAConversationIsExported(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.conversation("Über *lilac*: the plan")
	f.set(func() {
		for i := range 205 {
			request := fmt.Sprintf("web:s1:m%03d", i)
			f.messages = append(f.messages,
				object{"id": fmt.Sprintf("m%03d", i), "requestId": request, "role": "user", "content": fmt.Sprintf("question %d", i), "createdAt": i},
				object{"id": fmt.Sprintf("n%03d", i), "requestId": request, "role": "assistant", "content": fmt.Sprintf("answer **%d**", i), "html": "<p>x</p>", "createdAt": i})
		}
	})
	f.set(func() { f.messages[2]["author"] = object{"id": "ada", "name": "Ada"} })
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	p.Until("the conversation is there", "document.querySelector('#list a') && document.querySelectorAll('#transcript .bubble').length > 0")
	p.Do(chromedp.Evaluate[chromedp.Void](`
		window.saved = {};
		URL.createObjectURL = (blob) => { blob.text().then((text) => { window.saved.text = text; }); return '#saved'; };
		HTMLAnchorElement.prototype.click = function () { window.saved.name = this.download; };`))
	for _, c := range []struct{ words, name, check string }{
		{"export markdown", "über-lilac-the-plan.md", "saved.text.startsWith('# Über *lilac*: the plan\\n\\n## You\\n\\nquestion 0\\n\\n## Lilac\\n\\nanswer **0**\\n') && saved.text.includes('question 204') && saved.text.includes('## Ada\\n\\nquestion 1\\n') && saved.text.split('## You').length === 205"},
		{"export json", "über-lilac-the-plan.json", "JSON.parse(saved.text).messages.length === 410 && JSON.parse(saved.text).session.id === 's1' && !saved.text.includes('html')"},
	} {
		press(p, "k", 2)
		p.Until("the dialog is open", "document.getElementById('jump').open")
		p.Do(chromedp.SendKeys("#jump input", c.words))
		p.Press("Enter")
		p.Until(c.words, fmt.Sprintf("saved.name === %q && saved.text !== undefined && %s", c.name, c.check))
		p.Do(chromedp.Evaluate[chromedp.Void]("window.saved = {}"))
	}
}

func TestTheKeyboardStopsAnAnswerAndTakesTheLastMessage(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	answered(f, "done")
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	p.Until("the answer is there", "document.querySelector('[data-message=a0]')")
	f.streaming()
	p.Do(chromedp.Focus("#text"))
	p.Do(chromedp.KeyEvent(kb.Escape)) // nothing runs
	press(p, "ArrowUp", 0)
	p.Until("the message is in the box", "document.getElementById('text').value === 'Where do *dandelions* grow?'")
	p.Do(chromedp.Evaluate[chromedp.Void]("document.getElementById('text').value = 'mine'"))
	press(p, "ArrowUp", 0)
	p.Until("what I write stays", "document.getElementById('text').value === 'mine'")

	f.emit("stream.start", object{"requestId": "web:s1:m9"})
	p.Until("it can be stopped", "!document.getElementById('running').hidden")
	press(p, "k", 2)
	p.Until("the dialog is open", "document.getElementById('jump').open")
	p.Do(chromedp.KeyEvent(kb.Escape)) // closes the dialog only
	p.Until("it is closed", "!document.getElementById('jump').open")
	f.set(func() {
		if len(f.cancels) != 0 {
			t.Errorf("a key for the dialog stopped %q", f.cancels)
		}
	})
	p.Do(chromedp.KeyEvent(kb.Escape))
	f.until("the answer is stopped", func() bool { return len(f.cancels) == 1 && f.cancels[0] == "web:s1:m9" })
}

func TestTheThemeIsChosenAndKept(t *testing.T) {
	t.Parallel()
	_, p := furnished(t, "", "#/health", 1100, 760)
	p.Media(false, true)
	p.Until("the view is there", "document.querySelector('.table')")
	const background = "getComputedStyle(document.body).backgroundColor"
	light := webuitest.Eval[string](p, background)
	press(p, "?", 0)
	p.Until("the dialog is open", "document.getElementById('keys')?.open")
	p.Picture("keys", false)
	p.Do(chromedp.Evaluate[chromedp.Void](`for (const [i, v] of ['dark', 'large'].entries()) { const s = document.querySelectorAll('#keys select')[i]; s.value = v; s.dispatchEvent(new Event('change')); }`))
	p.Until("it is dark and large", background+" !== '"+light+"' && getComputedStyle(document.documentElement).fontSize === '18px'")
	p.Do(chromedp.Reload())
	p.Until("it stays so", "document.body && document.querySelector('.table') && "+background+" !== '"+light+"'")
	p.Media(true, true)
	dark := webuitest.Eval[string](p, background)
	p.Do(chromedp.Evaluate[chromedp.Void]("document.getElementById('help').click(); const s = document.querySelector('#keys select'); s.value = 'light'; s.dispatchEvent(new Event('change'))"))
	p.Until("light wins over the system's dark", background+" === '"+light+"' && '"+dark+"' !== '"+light+"'")
}
