package webui_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

// translate replaces each text by nested font elements, as the translation of Chromium does, and goes on
// with what the page adds. What must not be translated stays.
const translate = `{
	const turn = (root) => {
		const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
		const texts = [];
		while (walk.nextNode()) texts.push(walk.currentNode);
		for (const text of texts) {
			if (!text.data.trim() || text.parentElement?.closest('script, style, textarea, font, [translate=no]')) continue;
			const inner = Object.assign(document.createElement('font'), { textContent: text.data.toUpperCase() });
			const outer = document.createElement('font');
			outer.append(inner);
			text.replaceWith(outer);
		}
	};
	new MutationObserver((all) => all.forEach(({ addedNodes }) => addedNodes.forEach((n) => n.isConnected && turn(n.nodeType === 3 ? n.parentElement : n)))).observe(document.body, { childList: true, subtree: true });
	turn(document.body);
} 0`

// A browser that translates the page replaces its texts while an answer grows. Code stays as it is.
func TestATranslatedPageKeepsWorking(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const r, said = "web:s1:m0", "One **two** three.\n\n```go\nx := 1\n```\n\nFour `five` six."
	f, p := talk(t)
	f.listened()
	p.Do(chromedp.Evaluate[chromedp.Void](translate))
	p.Until("the page is translated", "document.getElementById('new').innerText.includes('NEW CONVERSATION')")
	p.Say("hello")
	f.until("it was sent", func() bool { return len(f.prompts) == 1 })
	f.emit("stream.start", object{"requestId": r})
	f.emit("session.message_applied", object{"messageId": "m1", "requestId": r, "queue": "prompt"})
	f.emit("stream.reasoning", object{"requestId": r, "content": "A thought."})
	for i := range said {
		f.text(r, said[i:i+1], i)
	}
	f.emit("stream.tool_call", object{"requestId": r, "toolCallId": "c1", "name": "bash", "args": object{"command": "ls -1"}, "status": "start"})
	f.emit("stream.tool_call", object{"requestId": r, "toolCallId": "c1", "name": "bash", "status": "end", "ok": true, "output": "readme"})
	f.emit("stream.completed", object{"requestId": r, "content": said, "usage": nil})
	p.Until("it is whole", "document.querySelector('.request')?.dataset.state === 'done' && document.querySelector('.answer').innerText.includes('ONE TWO THREE.') && document.querySelector('.answer').innerText.includes('FOUR')")
	p.Until("code is not translated", "document.querySelector('.md pre').innerText.trim() === 'x := 1' && [...document.querySelectorAll('.md code')].at(-1).innerText === 'five'")
	p.Until("nor is the output of a tool", "document.querySelector('[data-tool=c1]').textContent.includes('readme')")
	p.Until("Stop is gone", "document.getElementById('running').hidden")
	p.Do(chromedp.Evaluate[chromedp.Void]("window.copied = ''; Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (text) => { window.copied = text; } } }); 0"))
	p.Click(".about button")
	if got := webuitest.Eval[string](p, "window.copied"); got != said {
		t.Errorf("copied: %q", got)
	}
	p.Until("the button says so", "document.querySelector('.about button').innerText.toLowerCase().startsWith('copied')")
}
