package webui_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

// A user pauses the event view to search in the received events. The filters must still work on those, and
// new events wait.
func TestPausedEventsAreFiltered(t *testing.T) {
	effort.SkipDetail(t)
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
	effort.SkipDetail(t)
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
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.conversation("Talk")
	p := webuitest.Open(t, f.url("#/events?session=s1"), 1000, 700)
	p.Until("the chosen one has its name", "document.querySelector('[name=session]')?.selectedOptions[0].innerText === 'Talk'")
}

// The events of a request are one line that tells what started it, how long it took, and how it ended, also
// if they happened before the page was opened. Pieces of its output are one line in it.
func TestEventsAreGroupedByRequest(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.furnish("")
	const old, live = "web:s1:old", "web:s1:m0"
	raw := func(id, kind string, at int, payload object) object {
		data := object{"id": id, "type": kind, "timestamp": 1_760_000_000_000 + at, "metadata": object{"trigger_session_id": "s1"}, "payload": payload}
		return object{"id": id, "type": kind, "ts": data["timestamp"], "data": data, "position": id}
	}
	delta := func(id, kind string, at int, text string) object {
		return object{"id": id, "type": kind, "ts": 1_760_000_000_000 + at, "data": object{"delta": text}}
	}
	f.set(func() {
		f.views.earlier = map[string][]object{
			"env": {
				raw("w1", "webhook.received", 0, object{"name": "ci"}),
				raw("e1", "user_query", 10, object{"requestId": old, "content": "How high is the tower?"}),
				raw("e2", "stream.start", 20, object{"requestId": old}),
				raw("e3", "tool.executed", 1500, object{"requestId": old, "name": "bash"}),
				raw("e4", "stream.completed", 4010, object{"requestId": old, "content": "So high."}),
				raw("e5", "stream.completed", 4020, object{"requestId": "rule:s1:w1", "content": "", "cancelled": true}),
			},
			"out.req." + old: {
				delta("d1", "evt.agent.output.delta.reasoning", 100, "Hm. "), delta("d2", "evt.agent.output.delta.reasoning", 110, "So."),
				delta("d3", "evt.agent.output.delta.text", 2000, "So "), delta("d4", "evt.agent.output.delta.text", 2010, "high."), delta("d5", "evt.agent.output.delta.text", 2020, "\n"),
			},
		}
	})
	p := webuitest.Open(t, f.url("#/events"), 1100, 760)
	f.streaming()
	const lines = "[...document.querySelectorAll('.events > .event')].map(e => e.querySelector('summary').innerText.replace(/\\s+/g, ' ').replace(/^[\\d:.]+ /, '')).join('|')"
	p.Until("the old ones are there, the newest first", lines+" === 'cancelled webhook.received ci 1 event · 0 ms The dandelions|done “How high is the tower?” 4 events · 4.0 s The dandelions|webhook.received ci The dandelions'")
	p.Until("it says so", "document.getElementById('events-status').innerText.startsWith('0 events since this page was opened, and 6 from before')")

	f.emit("user_query", object{"messageId": "m0", "requestId": live, "content": "And the bridge?"})
	f.emit("stream.start", object{"requestId": live})
	for i := range 500 {
		f.text(live, fmt.Sprint(i, " "), 0)
	}
	p.Until("what comes is one line", "document.querySelectorAll('.events > .event').length === 4 && "+lines+".startsWith('running “And the bridge?” 502 events')")
	p.Click(".events > .event summary")
	const inside = "[...document.querySelectorAll('.group[open] .group-lines > .event')].map(e => e.querySelector('.type').innerText + ' ' + e.querySelector('.what').innerText).join('|')"
	p.Until("its pieces are one line", inside+" === 'user_query And the bridge?|stream.start |stream.text 500 pieces'")
	f.text(live, "more", 0)
	f.emit("stream.error", object{"requestId": live, "error": object{"message": "It broke."}})
	p.Until("it grows while it is open", inside+".endsWith('stream.text 501 pieces|stream.error It broke.') && document.querySelector('.event .badge').innerText === 'failed'")
	p.Click(".pieces summary")
	p.Until("the pieces make up the text", "document.querySelector('.pieces pre')?.textContent.endsWith('498 499 more')")
	p.Picture("events-group", false)
	p.Picture("events-group-dark", true)
	p.Click(".events > .event summary")

	p.Click(".event[data-request='web:s1:old'] summary")
	p.Until("the output of an old one is loaded", inside+" === 'user_query How high is the tower?|stream.start |stream.reasoning 2 pieces|tool.executed bash|stream.text 3 pieces|stream.completed So high.'")
	p.Until("they count", lines+".includes('9 events · 4.0 s')")
	p.Do(chromedp.SendKeys("[name=type]", "tool."))
	p.Until("filters apply to what is in a request", lines+" === 'done “How high is the tower?” 1 event · 4.0 s The dandelions'")
}

// Ten thousand events of many requests keep the page quick, and few of them are in the document.
func TestTenThousandEventsOfRequestsAreShown(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f, p := furnished(t, "", "#/events", 1000, 700)
	f.streaming()
	p.Do(chromedp.Evaluate[chromedp.Void](watchTasks))
	const requests, pieces = 50, 280
	for i := range requests {
		f.set(func() {
			for n := range pieces {
				at := len(f.events)
				f.events = append(f.events, object{
					"id": fmt.Sprint("piece-", at), "type": []string{"stream.text", "stream.tool_call"}[n/10%2], "timestamp": 1_760_000_000_000 + at,
					"metadata": object{"trigger_session_id": "s2"}, "payload": object{"requestId": fmt.Sprint("web:s2:m", i), "content": strings.Repeat("word ", 20)},
				})
			}
		})
		webuitest.Eval[int](p, "1") // the page still responds
		if i == 0 {
			p.Until("the first one is there", "document.querySelectorAll('.group').length === 1")
			p.Click(".group summary")
		}
	}
	p.Until("all were counted", "document.getElementById('events-status').innerText.startsWith('14,000 events')")
	p.Until("each request is a line", "document.querySelectorAll('.group').length === 50 && document.querySelectorAll('.group[open] .group-lines > *').length === 154")
	p.Until("few are in the document", "document.querySelectorAll('*').length < 4000")
	p.Do(chromedp.SendKeys("[name=type]", "stream.tool"))
	p.Until("of the newest ones, those that match are shown", "document.querySelectorAll('.group').length > 30 && document.querySelector('.group').innerText.includes('140 events')")
	reportTasks(t, p)
}
