package webui_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

// long adds a conversation of n messages, with questions and answers in turn.
func (f *fake) long(n int) {
	f.conversation("A long one")
	f.set(func() {
		for i := range n {
			role := "user"
			if i%2 == 1 {
				role = "assistant"
			}
			f.messages = append(f.messages, object{
				"id": fmt.Sprint("m", i), "requestId": fmt.Sprint("web:s1:r", i/2), "role": role,
				"content": fmt.Sprint("message ", i), "html": fmt.Sprintf("<p>message %d</p>", i), "createdAt": i,
			})
		}
	})
}

// watchTasks starts to measure the browser's long tasks.
const watchTasks = `window.tasks = []; new PerformanceObserver(list => window.tasks.push(...list.getEntries().map(e => e.duration))).observe({entryTypes: ['longtask']})`

func reportTasks(t *testing.T, p *webuitest.Tab) {
	t.Helper()
	t.Logf("long tasks: %s; the longest took %.0f ms", webuitest.Eval[string](p, "String(window.tasks.length)"), webuitest.Eval[float64](p, "Math.max(0, ...window.tasks)"))
}

func TestTenThousandMessagesAreReachedWithFewOfThemInTheDocument(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const n, mostNodes = 10_000, 3000
	f := newFake(t)
	f.long(n)
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	p.Until("the newest is there", fmt.Sprintf("document.querySelector('#transcript').innerText.includes('message %d')", n-1))
	p.Do(chromedp.Evaluate[chromedp.Void](watchTasks))
	// Record every message that was ever drawn, and the highest number of nodes.
	p.Do(chromedp.Evaluate[chromedp.Void](`
		window.met = new Set(); window.nodes = 0;
		const look = () => {
			for (const e of document.querySelectorAll('#transcript .request')) {
				const id = Number(e.dataset.request.slice('web:s1:r'.length));
				if (e.querySelectorAll('.words, .answer').length === 2) window.met.add(id);
			}
			window.nodes = Math.max(window.nodes, document.querySelectorAll('*').length);
		};
		new MutationObserver(look).observe(document.getElementById('transcript'), { childList: true });
		look();`))
	p.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`
		const up = () => {
			document.getElementById('scroll').scrollTop = 0;
			if (window.met.size < %d) requestAnimationFrame(up);
		};
		up();`, n/2)))
	for met := n / 20; met <= n/2; met += n / 20 { // a busy machine may need a while for each tenth
		p.Until(fmt.Sprintf("scrolling up shows %d questions with their answers", met), fmt.Sprintf("window.met.size >= %d", met))
	}
	p.Until("at the top there is nothing earlier", "document.getElementById('earlier').hidden && document.querySelector('#transcript').innerText.includes('message 0')")
	if nodes := webuitest.Eval[int](p, "window.nodes"); nodes > mostNodes {
		t.Errorf("%d nodes were in the document at a time, want at most %d", nodes, mostNodes)
	}
	p.Until("the newest are one click away", "!document.getElementById('latest').hidden")
	p.Click("#latest")
	p.Until("and there", fmt.Sprintf("document.querySelector('#transcript').innerText.includes('message %d')", n-1))
	reportTasks(t, p)
	p.To("#/s/s1/m/m4000")
	p.Until("one in the middle has an address", "document.activeElement.dataset.message === 'm4000'")
	p.Do(chromedp.Reload())
	p.Until("also after a reload, from far back", "document.activeElement.dataset.message === 'm4000'")
	p.Until("some are above and some below", "!document.getElementById('earlier').hidden && !document.getElementById('latest').hidden")
	p.Do(chromedp.Evaluate[chromedp.Void]("document.getElementById('scroll').scrollTop = 1e9"))
	p.Until("scrolling down shows later ones", "document.querySelector('#transcript').innerText.includes('message 4080')")
}

// A link to a message near the end scrolls only the conversation. The page's title and message box stay in
// place.
func TestALinkMovesTheConversationAndNotThePage(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.long(60)
	p := webuitest.Open(t, f.url("#/s/s1/m/m58"), 1000, 700)
	p.Until("it is shown", "document.activeElement.dataset.message === 'm58'")
	if got := webuitest.Eval[string](p, "[document.documentElement.scrollTop, document.documentElement.scrollHeight - innerHeight].join()"); got != "0,0" {
		t.Errorf("the page has moved by, and can be moved by: %s", got)
	}
}

func TestTheListShowsOlderConversationsToo(t *testing.T) {
	t.Parallel()
	const n = 250
	f := newFake(t)
	for i := range n {
		f.conversation(fmt.Sprint("Talk ", i))
	}
	p := webuitest.Open(t, f.url(""), 1000, 700)
	p.Until("the newest are listed", "document.querySelectorAll('#list a').length === 100")
	p.Do(chromedp.Focus("#list .older button"))
	p.Picture("older", false)
	p.Press("Enter")
	p.Until("all are listed, and the keyboard is where they go on", fmt.Sprintf("document.querySelectorAll('#list a').length === %d && document.activeElement.innerText === 'Talk 100'", n))
	p.Until("nothing is older", "!document.querySelector('#list .older')")
	f.streaming()
	f.set(func() { f.sessions = f.sessions[1:] })
	f.emit("session.deleted", object{})
	p.Until("what changes leaves them there", fmt.Sprintf("document.querySelectorAll('#list a').length === %d", n-1))
}

func TestAThousandEventsASecondAreShownWithFewOfThemInTheDocument(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const n, mostNodes = 8000, 4000
	f, p := furnished(t, "", "#/events", 1000, 700)
	f.streaming()
	p.Do(chromedp.Evaluate[chromedp.Void](watchTasks))
	for range n / 200 {
		f.happen(200, "stream.text")
		webuitest.Eval[int](p, "1") // the page still responds
	}
	p.Until("all were counted", "document.getElementById('events-status').innerText.startsWith('8,000 events')")
	p.Until("the newest stands first", fmt.Sprintf("document.querySelector('.event').dataset.event === 'stream.text-%d'", n-1))
	p.Until("few are in the document", fmt.Sprintf("document.querySelectorAll('*').length < %d && document.querySelectorAll('.event').length === 250", mostNodes))
	p.Until("those are the newest, in order", fmt.Sprintf("[...document.querySelectorAll('.event')].every((e, i) => e.dataset.event === 'stream.text-' + (%d - i))", n-1))
	reportTasks(t, p)
}

// An answer that arrives in a thousand pieces per second is complete at the end, even while events of
// another conversation arrive too.
func TestAFastAnswerLosesNothing(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const r = "web:s1:m0"
	f, p := talk(t)
	f.listened()
	f.emit("stream.start", object{"requestId": r})
	said := ""
	for i := range 3000 {
		piece := fmt.Sprint(i, " ")
		f.text(r, piece, len(said))
		said += piece
		if i%100 == 0 {
			f.happen(50, "tool.executed")
		}
	}
	f.emit("stream.completed", object{"requestId": r, "content": said, "usage": nil})
	p.Until("it is over", "document.querySelector('.request')?.dataset.state === 'done'")
	p.Until("it is whole", "document.querySelector('#transcript .answer').innerText.trim() === Array.from({length: 3000}, (_, i) => i).join(' ')")
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.loads != 1 {
		t.Errorf("the messages were asked for %d times, want once", f.loads)
	}
}
