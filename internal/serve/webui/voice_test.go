package webui_test

import (
	"strconv"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

// ears replaces the speech functions of the browser. The test speaks, and reads the spoken text.
const ears = `window.webkitSpeechRecognition = window.SpeechRecognition = class {
	start() { window.ear = this; }
	stop() { this.onend(); }
};
window.spoken = [];
Object.defineProperty(window, 'speechSynthesis', { value: {
	speaking: false, speak(u) { this.speaking = true; window.spoken.push(u.text); }, cancel() { this.speaking = false; window.spoken.push('(stop)'); },
} });`

func TestAMessageIsDictatedAndAnAnswerIsReadAloud(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	answered(f, "done")
	p := webuitest.Open(t, "about:blank", 1000, 700)
	p.Before(ears, f.url("#/s/s1"))
	p.Until("it can be dictated", "document.getElementById('dictate').checkVisibility()")
	p.Do(chromedp.Evaluate[chromedp.Void]("document.getElementById('text').value = 'I ask:'"))
	p.Click("#dictate")
	p.Until("it listens", "document.getElementById('dictate').getAttribute('aria-pressed') === 'true' && window.ear")
	hear := func(phrase string, final bool) {
		is := map[bool]string{true: "true", false: "false"}[final]
		p.Do(chromedp.Evaluate[chromedp.Void]("(() => { const r = [{ transcript: '" + phrase + "' }]; r.isFinal = " + is + "; window.ear.onresult({ resultIndex: 0, results: [r] }); })()"))
	}
	hear("where do", false)
	hear(" where do dandelions grow", true)
	hear("in winter", true)
	p.Until("only whole phrases are in the message box", "document.getElementById('text').value === 'I ask: where do dandelions grow in winter'")
	p.Picture("voice", false)
	p.Do(chromedp.Evaluate[chromedp.Void]("window.ear.onerror({ error: 'not-allowed' })"))
	p.Shows("#problem", "The browser does not allow this page to use the microphone.")
	p.Click("#dictate")
	p.Until("it listens no more", "document.getElementById('dictate').getAttribute('aria-pressed') === 'false'")
	aloud := "[...document.querySelectorAll('.about button')].find((b) => b.innerText === 'Read aloud')"
	p.Until("it can be read aloud", aloud)
	p.Shows(".answer", "In meadows.") // its Markdown is drawn by the server, a moment later
	p.Do(chromedp.Evaluate[chromedp.Void](aloud + ".click(); " + aloud + ".click()"))
	p.Until("it was read without marks, and stopped", "window.spoken.join('|') === 'In meadows.|(stop)'")
}

// The keyboard of a phone has no Shift+Enter: Enter starts a new line, and the hint says so.
func TestOnAPhoneEnterStartsANewLine(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	_, p := talk(t)
	p.Until("with a keyboard, Enter sends", "document.getElementById('hint').innerText.startsWith('Press Enter to send')")
	p.Do(chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile, chromedp.EmulateTouch))
	p.Until("the hint is that of a phone", "document.getElementById('hint').innerText === 'Enter starts a new line; the button sends.'")
	p.Do(chromedp.SendKeys("#text", "one"+kb.Enter+"two"))
	p.Until("there are two lines", `document.getElementById('text').value === 'one\ntwo'`)
	p.Click("#send")
	p.Until("they are one message", `document.querySelector('.words')?.innerText === 'one\ntwo'`)
	p.Picture("phone", false)
}

// A swipe from the left edge opens the list on a phone, and one to the left closes it.
func TestASwipeOpensTheList(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	answered(f, "done")
	p := webuitest.Open(t, f.url("#/s/s1"), 360, 700)
	p.Until("the answer is there", "document.querySelector('.answer')")
	swipe := func(from, to int) {
		touch := func(kind, list string, x int) string {
			return "document.getElementById('scroll').dispatchEvent(Object.assign(new Event('" + kind + "', { bubbles: true }), { " + list + ": [{ clientX: " + strconv.Itoa(x) + ", clientY: 300 }] }));"
		}
		p.Do(chromedp.Evaluate[chromedp.Void](touch("touchstart", "touches", from) + touch("touchend", "changedTouches", to)))
	}
	const open = "document.getElementById('side').classList.contains('open')"
	swipe(200, 330)
	p.Until("a stroke in the middle opens nothing", "!"+open)
	swipe(10, 200)
	p.Until("the list is open", open)
	swipe(300, 100)
	p.Until("the list is closed", "!"+open)
}
