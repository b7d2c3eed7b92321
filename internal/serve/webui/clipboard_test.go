package webui_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

// transfer makes what an office program puts into the clipboard: the text, and a picture of it.
const transfer = `(types) => { const data = new DataTransfer(); for (const [type, text] of Object.entries(types)) data.setData(type, text);
	data.items.add(new File(['x'], 'image.png', { type: 'image/png' })); return data; }`

func TestTextOfAnOfficeProgramIsPastedAsText(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	_, p := talk(t)
	// paste reports whether the page leaves a paste to the browser, which inserts the text.
	paste := func(types string) bool {
		return webuitest.Eval[bool](p, "document.getElementById('text').dispatchEvent(new ClipboardEvent('paste', { clipboardData: ("+transfer+")("+types+"), bubbles: true, cancelable: true }))")
	}
	const attached = "document.querySelectorAll('#files li').length"
	if !paste("{ 'text/plain': '1\t2', 'text/html': '<table><td>1<td>2</table>' }") || webuitest.Eval[int](p, attached) != 0 {
		t.Error("cells of a table are attached as a picture")
	}
	if paste("{ 'text/html': '<img src=x>' }") {
		t.Error("a picture that was copied from a page is not attached")
	}
	p.Until("it is attached", attached+" === 1")
	if paste("{ 'text/plain': 'image.png' }") {
		t.Error("a file that was copied in a file manager is not attached")
	}
	p.Until("it is attached, too", attached+" === 2")
}

// Without the page, the browser would open a file that is dropped beside the message box, in place of the page.
func TestAFileThatIsDroppedAnywhereIsAttached(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	_, p := furnished(t, "", "#/s/s1", 1000, 700)
	p.Until("the conversation is there", "document.querySelector('[data-message=a1]')")
	drop := func(place string) {
		for _, kind := range []string{"dragover", "drop"} {
			if webuitest.Eval[bool](p, "document.getElementById('"+place+"').dispatchEvent(new DragEvent('"+kind+"', { dataTransfer: ("+transfer+")({}), bubbles: true, cancelable: true }))") {
				t.Errorf("the browser takes the %s over %s", kind, place)
			}
		}
	}
	drop("side")
	p.Until("it is attached", "document.querySelectorAll('#files li').length === 1")
	p.To("#/health")
	p.Until("the view is shown", "document.querySelector('.table')")
	drop("view")
	p.To("#/s/s1")
	p.Until("a view without a message box attached nothing", "!document.getElementById('talk').hidden && document.querySelectorAll('#files li').length === 1")
}

// A browser copies the colours of the page with a text; those of the dark theme are unreadable elsewhere.
func TestCopiedTextHasNoColours(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	answered(f, "done")
	f.set(func() {
		f.messages[1]["content"] = "In **meadows**.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```\nx := 1\n```"
	})
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	p.Until("the answer is there", "document.querySelector('.md pre')")
	p.Do(chromedp.Evaluate[chromedp.Void](`getSelection().selectAllChildren(document.querySelector('.md'));
		window.copied = new DataTransfer();
		document.querySelector('.md').dispatchEvent(new ClipboardEvent('copy', { clipboardData: window.copied, bubbles: true, cancelable: true })); 0`))
	html := webuitest.Eval[string](p, "window.copied.getData('text/html')")
	for _, want := range []string{"<strong>meadows</strong>", "<td>1</td>", "x := 1"} {
		if !strings.Contains(strings.ReplaceAll(html, ` xmlns="http://www.w3.org/1999/xhtml"`, ""), want) {
			t.Errorf("the copy lacks %q:\n%s", want, html)
		}
	}
	if strings.Contains(html, "style=") || strings.Contains(html, "<button") {
		t.Errorf("the copy has what belongs to the page:\n%s", html)
	}
	if text := webuitest.Eval[string](p, "window.copied.getData('text/plain')"); !strings.Contains(text, "In meadows.") || !strings.Contains(text, "1\t2") || strings.Contains(text, "Copy") {
		t.Errorf("copied as text: %q", text)
	}
}
