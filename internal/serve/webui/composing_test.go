package webui_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/webuitest"
)

// Safari ends a composition before it reports the Enter that accepted its words: the event has
// isComposing false and keyCode 229. Such an Enter sends nothing, and chooses nothing.
func TestTheEnterThatAcceptsWordsOfAnInputMethodDoesNothingElse(t *testing.T) {
	t.Parallel()
	const r = "web:s1:m0"
	f, p := talk(t)
	f.listened()
	f.emit("stream.start", object{"requestId": r})
	f.emit("session.paused", object{"requestId": r, "pause": 1, "kind": "question", "question": "Which color?", "until": 1_760_000_000_000})
	p.Until("the question is there", "document.querySelector('.limit input')")
	for _, c := range []struct{ field, prepare, acted string }{
		{"#text", "", "document.getElementById('text').value === ''"},
		{".limit input", "", "document.querySelector('.limit input').disabled"},
		{"#ask-field", "document.getElementById('rename').click()", "!document.getElementById('ask').open"},
		{"#jump input", "dispatchEvent(new KeyboardEvent('keydown', { key: 'k', ctrlKey: true }))", "!document.getElementById('jump').open"},
	} {
		p.Do(chromedp.Evaluate[chromedp.Void](c.prepare))
		p.Until("the field is there: "+c.field, fmt.Sprintf("document.querySelector(%q)?.checkVisibility()", c.field))
		press := fmt.Sprintf("(code) => { const field = document.querySelector(%q); field.value = 'Health'; field.dispatchEvent(new Event('input')); "+
			"field.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', keyCode: code, bubbles: true, cancelable: true })); return %s; }", c.field, c.acted)
		if webuitest.Eval[bool](p, "("+press+")(229)") {
			t.Errorf("the Enter of an input method acts in %s", c.field)
		}
		p.Until("another Enter acts in "+c.field, "("+press+")(13)")
	}
}
