package webui_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

// A user who must first log in finds the unsent message afterwards.
func TestARefusedMessageIsThereAfterTheLogin(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f, p := talk(t)
	f.listened()
	f.set(func() { f.signedOut = true })
	p.Say("remember the milk")
	p.Until("how to sign in is said", "document.querySelector('#outbox .fate')?.innerText.includes('lilac serve')")
	f.set(func() { f.signedOut = false })
	p.Do(chromedp.Reload())
	p.Until("it is there", "document.querySelector('#outbox')?.innerText.includes('remember the milk')")
	p.Click("#outbox button")
	p.Until("it can be sent again", "document.getElementById('text').value === 'remember the milk' && !document.querySelector('#outbox > *')")
	p.Do(chromedp.Reload())
	p.Until("the conversation is there", "document.querySelector('#list a') && document.getElementById('loading').hidden")
	p.Until("it is not there twice", "!document.querySelector('#outbox > *')")
}

// A picture that loads makes the conversation longer. The page must not treat that as the user scrolling
// up.
func TestThePageStaysAtTheEndWhenAPictureArrives(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f, p := talk(t)
	f.long(40)
	p.Do(chromedp.Reload())
	const atEnd = "(() => { const s = document.getElementById('scroll'); return s.scrollHeight > 2 * s.clientHeight && s.scrollHeight - s.scrollTop - s.clientHeight < 5; })()"
	p.Until("it is at the end", atEnd)
	p.Do(chromedp.Evaluate[chromedp.Void](`(() => {
		const picture = document.createElement('div');
		picture.style.height = '700px';
		document.getElementById('transcript').append(picture);
		document.getElementById('scroll').dispatchEvent(new Event('scroll'));
	})()`))
	p.Until("it is at the end again", atEnd)
	p.Do(chromedp.Evaluate[chromedp.Void]("document.getElementById('scroll').scrollTop -= 600")) // the control
	p.Until("who goes up stays there", "!document.getElementById('latest').hidden")
}

// A trackpad and a finger move the text pixel by pixel. The first of them already keeps an answer that
// grows from moving the text back to the end, or nobody could scroll up.
func TestAFewPixelsUpLeaveTheEnd(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f, p := talk(t)
	f.long(40)
	p.Do(chromedp.Reload())
	const (
		left   = "(({ scrollHeight, scrollTop, clientHeight }) => scrollHeight - scrollTop - clientHeight)(document.getElementById('scroll'))"
		follow = "document.getElementById('latest').hidden"
	)
	longer := chromedp.Evaluate[chromedp.Void]("document.getElementById('transcript').append(Object.assign(document.createElement('div'), { id: 'more', textContent: 'more' })); 0")
	p.Until("it is at the end", "document.getElementById('scroll').scrollTop > 0 && "+left+" < 1")
	p.Do(longer)
	p.Until("it is at the end of a longer text", "document.getElementById('more') && "+left+" < 1")
	p.Do(chromedp.Evaluate[chromedp.Void]("document.getElementById('more').remove(); requestAnimationFrame(() => requestAnimationFrame(() => { window.shorter = true; })); 0"))
	p.Until("it follows a shorter text", "window.shorter && "+follow+" && "+left+" < 1")

	p.Do(chromedp.Evaluate[chromedp.Void]("document.getElementById('scroll').scrollTop -= 8"))
	p.Until("it does not follow", "!("+follow+")")
	p.Do(longer)
	p.Until("the text stays where it is", "document.getElementById('more') && "+left+" > 8")
	p.Do(chromedp.Evaluate[chromedp.Void]("document.getElementById('scroll').scrollTop += 4"))
	p.Until("near the end, it follows again", follow)
}

// Streamed code is appended directly after the code before it, even before it is rendered.
func TestCodeIsNotBrokenWhileItIsWritten(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const r = "web:s1:m0"
	f, p := talk(t)
	f.listened()
	f.emit("stream.start", object{"requestId": r})
	f.text(r, "```\nfirst\nfunc f() { re", 0)
	p.Until("it is rendered", "document.querySelector('.md pre code')")
	p.Until("no line is broken", `document.querySelector('.md pre code').textContent === 'first\nfunc f() { re'`)
	f.text(r, "turn }\nthird", 23)
	p.Until("the next words stand behind", `document.querySelector('.md pre code').textContent === 'first\nfunc f() { return }\nthird'`)
}

// New dead letters appear in an open list, and so do dead letters that return after a replay.
func TestDeadLettersComeToTheListByThemselves(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f, p := furnished(t, "", "#/dead/d1", 1100, 760)
	p.Click(".actions .strong")
	p.Until("it is gone from the list, and what happens is said", "document.querySelectorAll('.card').length === 1 && document.getElementById('view').innerText.includes('The event was replayed')")
	f.set(func() {
		f.views.letters = append([]object{{"id": "d9", "group": "env", "reason": "It failed again.", "attempts": 3, "at": 1, "event": object{"type": "user_query"}}}, f.views.letters...)
	})
	p.Until("it comes back", "document.querySelector('.card').innerText.includes('It failed again.') && document.querySelectorAll('.card').length === 2")
	f.set(func() { f.views.letters = f.views.letters[:1] })
	p.Until("what another tab has dropped is gone", "document.querySelectorAll('.card').length === 1")
	if webuitest.Eval[string](p, "document.querySelector('.card').dataset.letter") != "d9" {
		t.Error("another one is gone")
	}
}
