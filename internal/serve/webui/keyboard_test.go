package webui_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

// The keyboard focus stays on a conversation that moves up in the list.
func TestTheKeyboardMovesWithTheRowOfAConversation(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.conversation("Old things")
	f.conversation("New things")
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	p.Until("the list is there", "document.querySelectorAll('#list a').length === 2")
	f.streaming()
	p.Do(chromedp.Focus("#list li:last-child a"))
	held := webuitest.Eval[string](p, "document.activeElement.title")
	f.set(func() { slices.Reverse(f.sessions) })
	f.emit("session.updated", object{})
	p.Until("it is the first one", "document.querySelector('#list a').title === '"+held+"'")
	p.Until("the keyboard is there", "document.activeElement === document.querySelector('#list a')")
}

// The list may be long, so keyboard users can skip it to reach the views.
func TestTheKeyboardReachesTheViewsPastTheList(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	for _, width := range []int{1100, 360} {
		_, p := furnished(t, "", "#/settings", width, 760)
		p.Until("the view is there", "!document.getElementById('view').hidden")
		p.Do(chromedp.Focus("#skip-to-views"))
		p.Press("Enter")
		p.Until("the keyboard is at the views, which can be seen", "document.activeElement.dataset.view === 'conversations' && document.activeElement.checkVisibility({ checkVisibilityCSS: true })")
	}
}

// When a keyboard user opens another view, the focus moves into that view.
func TestTheKeyboardGoesAlongToAnotherView(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	_, p := furnished(t, "", "#/requests", 1100, 760)
	p.Until("the requests are listed", "document.querySelector('.card')")
	p.Do(chromedp.Focus(`[data-request="web:s1:m0"]`))
	p.Press("Enter")
	p.Until("the timeline is there", "document.querySelector('.timeline li')")
	p.Until("the keyboard is in it", "document.activeElement.id === 'view'")
	p.Do(chromedp.Evaluate[chromedp.Void]("document.querySelector('.story a').focus(); history.back()"))
	p.Until("the keyboard is where it was in the list", "document.activeElement.dataset.request === 'web:s1:m0'")
}

func TestTheKeyboardComesBackToTheConversation(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	_, p := furnished(t, "", "#/s/s1", 1100, 760)
	p.Until("the keyboard is where one writes", "document.activeElement.id === 'text'")
	p.Do(chromedp.Evaluate[chromedp.Void]("location.hash = '#/requests'"))
	p.Until("the requests are listed", "document.querySelector('.card')")
	p.Do(chromedp.Focus(`[data-request="web:s1:m0"]`))
	p.Do(chromedp.Evaluate[chromedp.Void]("history.back()"))
	p.Until("the keyboard is where one writes again", "document.activeElement.id === 'text'")
}

func TestEscapeClosesTheQuestionAndNotTheListBehindIt(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.conversation("Old things")
	p := webuitest.Open(t, f.url("#/"), 360, 640)
	p.Until("the list is there", "document.querySelector('#list a')")
	p.Click("#side-open")
	p.Until("the keyboard is in the list", "document.activeElement === document.querySelector('#list a')")
	p.Do(chromedp.KeyEvent(kb.Delete))
	p.Until("it asks", "document.getElementById('ask').open")
	p.Do(chromedp.KeyEvent(kb.Escape))
	p.Until("it asks no more", "!document.getElementById('ask').open")
	p.Until("the list is open and has the keyboard", "document.getElementById('side').classList.contains('open') && document.getElementById('list').contains(document.activeElement)")
	p.Do(chromedp.KeyEvent(kb.Escape)) // the control
	p.Until("the list is closed", "!document.getElementById('side').classList.contains('open')")
}

// A conversation can be read, and its question answered, on a phone and on a page that is zoomed to 400 %.
func TestAQuestionIsAnsweredInASmallWindow(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const r = "web:s1:m0"
	f, p := talk(t)
	f.listened()
	f.emit("stream.start", object{"requestId": r})
	f.emit("session.paused", object{"requestId": r, "pause": 1, "kind": "question", "question": "Which color?", "choices": []string{"red", "blue", strings.Repeat("striped", 9)}, "until": 1_760_000_000_000})
	p.Until("it asks", "document.querySelector('.limit .line')")
	for _, size := range [][2]int{{390, 844}, {320, 256}} {
		p.Resize(size[0], size[1])
		p.Until("nothing of the question is cut off", fmt.Sprintf("innerWidth === %d && [...document.querySelectorAll('.limit *')].every((e) => e.getBoundingClientRect().right <= innerWidth)", size[0]))
		p.Until("some lines can be read", "document.getElementById('scroll').clientHeight >= 100")
		p.Picture(fmt.Sprint("question-", size[0]), false)
	}
	p.Do(chromedp.SendKeys(".limit .line", "green"))
	p.Click(".limit .line + .strong")
	f.until("it is answered", func() bool { return slices.Equal(f.answers, []string{"reply " + r + " green"}) })
	p.Click("#send")
}

// The window is low on a phone in landscape orientation or on a page that is zoomed to 400 %.
func TestEverythingIsReachedInALowWindow(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	for _, size := range [][2]int{{667, 375}, {320, 256}} {
		f := newFake(t)
		for range 20 {
			f.conversation("Things")
		}
		p := webuitest.Open(t, f.url("#/"), size[0], size[1])
		p.Until("the list is there", "document.querySelectorAll('#list a').length === 20")
		p.Click("#side-open")
		if height := webuitest.Eval[float64](p, "document.getElementById('list').getBoundingClientRect().height"); height < 100 {
			t.Errorf("%v: the list is %v px high", size, height)
		}
		p.Do(chromedp.Evaluate[chromedp.Void]("[...document.querySelectorAll('#views a')].at(-1).focus()"))
		p.Until("the last view is in the window", "(() => { const r = document.activeElement.getBoundingClientRect(); return r.top >= 0 && r.bottom <= innerHeight; })()")
		p.Picture("low", false)
	}
}
