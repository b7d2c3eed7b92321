package webui_test

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"lilac/internal/testkit/webuitest"
)

// A user pauses the event view to search in the received events. The filters must still work on those, and
// new events wait.
func TestPausedEventsAreFiltered(t *testing.T) {
	t.Parallel()
	f, p := furnished(t, "", "#/events", 1100, 760)
	f.streaming()
	f.happen(3, "stream.text")
	f.happen(4, "tool.executed")
	p.Until("they are listed", "document.querySelectorAll('.event').length === 7")
	p.Click("#pause")
	f.happen(2, "stream.text")
	p.Until("what comes waits", "document.getElementById('pause').innerText === 'Resume (2 new)'")
	p.Do(chromedp.SendKeys("[name=type]", "stream"))
	p.Until("what came before fits", "document.querySelectorAll('.event').length === 3")
	p.Until("what comes still waits", "document.getElementById('pause').innerText === 'Resume (2 new)' && document.getElementById('events-status').innerText === 'Paused. 2 new events.'")
	p.Do(chromedp.SendKeys("[name=text]", "qx"))
	p.Until("it says that nothing fits", "document.getElementById('events-status').innerText.startsWith('Paused. None of the')")
	p.Do(chromedp.SendKeys("[name=text]", kb.Backspace+kb.Backspace))
	p.Click("#pause")
	p.Until("then all that fits is there", "document.querySelectorAll('.event').length === 5")
}

// An open row stays in place when many new events arrive.
func TestOpenEventStays(t *testing.T) {
	t.Parallel()
	f, p := furnished(t, "", "#/events", 1100, 760)
	f.streaming()
	f.happen(1, "stream.error")
	p.Click(".event summary")
	p.Until("it is open", "document.querySelector('.event[open] pre') && document.activeElement.closest('.event')")
	f.happen(400, "stream.text")
	p.Until("the others came", "document.getElementById('events-status').innerText.startsWith('401 ') && document.querySelectorAll('.event').length === 250")
	p.Until("it is there, with the keyboard", "document.activeElement.closest('.event[open]')?.querySelector('.type').innerText === 'stream.error'")
}

func TestConversationFilterShowsTitles(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.conversation("Talk")
	p := webuitest.Open(t, f.url("#/events?session=s1"), 1000, 700)
	p.Until("the chosen one has its name", "document.querySelector('[name=session]')?.selectedOptions[0].innerText === 'Talk'")
}
