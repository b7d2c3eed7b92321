package webui_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"lilac/internal/webuitest"
)

func TestSearchLeadsToTheMessageAndBack(t *testing.T) {
	f := newFake(t)
	f.furnish("")
	p := webuitest.Open(t, f.url(""), 1100, 760)
	p.Do(chromedp.Focus("#search input"), chromedp.SendKeys("#search input", "meadow"))
	p.Until("what was found is told", "document.querySelector('.view [role=status]')?.innerText === '1 message'")
	p.Until("the words are marked", "document.querySelector('.result mark')?.innerText === 'meadow'")
	p.Picture("search", false)
	p.Do(chromedp.SendKeys("#search input", "xyz"))
	p.Until("nothing is found and it says what to do", "document.querySelector('.view').innerText.includes('Nothing was found for “meadowxyz”')")
	p.Do(chromedp.SendKeys("#search input", kb.Backspace+kb.Backspace+kb.Backspace))
	p.Until("it is found again", "document.querySelector('.result')")
	p.Until("a reload would find it", "location.hash === '#/search?q=meadow'")
	p.Click(".result")
	p.Until("the message has the focus", "document.activeElement.dataset.message === 'a1' && document.activeElement.classList.contains('pointed')")
	p.Until("its address names it", "location.hash === '#/s/s1/m/a1'")
	p.Do(chromedp.Evaluate[chromedp.Void]("history.back()"))
	p.Until("back are the results", "document.querySelector('.result') && !document.getElementById('view').hidden")
	p.Do(chromedp.Evaluate[chromedp.Void]("location.hash = '#/s/s1/m/nowhere'"))
	p.Until("a message that is gone is said to be", "document.getElementById('problem').innerText.includes('not in the conversation any more')")
}

func TestAConversationIsRenamed(t *testing.T) {
	f := newFake(t)
	f.conversation("Old name")
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	p.Until("it can be renamed", "!document.getElementById('rename').hidden && document.querySelector('#list a')")
	p.Click("#rename")
	p.Until("it asks with the old name", "document.getElementById('ask').open && document.getElementById('ask-field').value === 'Old name'")
	p.Do(chromedp.SendKeys("#ask-field", kb.Backspace+"New name"))
	p.Press("Enter")
	p.Shows("#title", "New name")
	p.Shows("#list .name", "New name")
	p.Do(chromedp.Focus("#list a"), chromedp.KeyEvent(kb.F2))
	p.Until("F2 asks too", "document.getElementById('ask').open")
	p.Do(chromedp.KeyEvent(kb.Escape))
	p.Until("Escape keeps it", "!document.getElementById('ask').open && document.getElementById('title').innerText === 'New name'")
}

func TestTheStoryOfARequestIsATimeline(t *testing.T) {
	f := newFake(t)
	f.furnish("")
	p := webuitest.Open(t, f.url("#/requests"), 1100, 900)
	p.Until("the requests are listed", "document.querySelectorAll('.card').length === 2")
	p.Until("how they ended is told", "document.querySelector('.card .badge').innerText === 'failed' && document.querySelector('.card .bad').innerText.includes('overloaded')")
	p.Picture("requests", false)
	p.Click(`[data-request="web:s1:m0"]`)
	p.Until("there is a timeline", "document.querySelectorAll('.timeline > li').length === 11")
	for _, words := range []string{
		"Woken by a message", "Where do dandelions grow?", "The provider is overloaded. Tried again after 500 ms.", "The model calls bash",
		"Taken up again", "recovery 1", "Steered by a message", "The model answers", "something_new", "Done",
		"2,310 tokens (1,800 from the cache)", "$0.0084", "anthropic/claude-sonnet-4-5",
	} {
		p.Until("it tells "+words, fmt.Sprintf("document.querySelector('.story').innerText.includes(%q)", words))
	}
	p.Click(`[data-kind=tool_start] [data-key="6i"] summary`)
	p.Until("the tool's input is there", `document.querySelector('[data-key="6i"] pre').innerText.includes('grep -n dandelion notes.txt')`)
	p.Click(`[data-kind=tool_start] [data-key="6o"] summary`)
	p.Until("and its output", `document.querySelector('[data-key="6o"] pre').innerText.includes('in the meadow')`)
	p.Do(chromedp.Evaluate[chromedp.Void]("document.querySelectorAll('.story details').forEach(e => { e.open = e.dataset.key === '6o' })"))
	p.Do(chromedp.Evaluate[chromedp.Void]("document.getElementById('view').scrollTop = 0"))
	p.Picture("timeline", false)
	p.Picture("timeline-dark", true)
	p.Do(chromedp.Reload())
	p.Until("a reload keeps the place", "document.querySelectorAll('.timeline > li').length === 11")
	p.Click(".story-top a")
	p.Until("it leads to the message that woke it", "document.activeElement.dataset.message === 'm0'")
	p.Click(`[data-request="web:s1:m0"] .about a`)
	p.Until("and from there back", "location.hash === '#/requests/' + encodeURIComponent('web:s1:m0')")
	p.Do(chromedp.Evaluate[chromedp.Void]("location.hash = '#/requests/none'"))
	p.Until("a request that is not there is said not to be", "document.getElementById('view').innerText.includes('There is no such request.')")
}

func TestEventsAreFilteredPausedAndLinked(t *testing.T) {
	f := newFake(t)
	f.furnish("")
	p := webuitest.Open(t, f.url("#/events"), 1100, 760)
	p.Until("it says what to do", "document.getElementById('events-said').innerText.includes('Send a message')")
	f.streaming()
	f.happen(3, "stream.text")
	f.emit("session.message_applied", object{"messageId": "m1", "requestId": "web:s1:m0", "queue": "steer"})
	f.emit("stream.error", object{"requestId": "web:s1:m0", "error": object{"message": "It broke <b>."}})
	p.Until("they are listed, the newest first", "document.querySelectorAll('.event').length === 5 && document.querySelector('.event .type').innerText === 'stream.error'")
	p.Do(chromedp.SendKeys("[name=type]", "session."))
	p.Until("only that type is left", "document.querySelectorAll('.event').length === 1 && location.hash === '#/events?type=session.'")
	p.Do(chromedp.Reload())
	f.opened(2)
	p.Until("the filter is still there", "document.querySelector('[name=type]')?.value === 'session.'")
	p.Do(chromedp.Evaluate[chromedp.Void]("location.hash = '#/events'"))
	p.Until("without filters", "document.querySelector('[name=type]')?.value === ''")
	f.happen(2, "stream.text")
	p.Until("they come", "document.querySelectorAll('.event').length === 2")
	p.Click("#pause")
	p.Until("it is paused", "document.getElementById('pause').getAttribute('aria-pressed') === 'true'")
	f.happen(7, "tool.executed")
	p.Until("it counts what waits", "document.getElementById('pause').innerText === 'Go on (7 wait)'")
	p.Until("and shows nothing of it", "document.querySelectorAll('.event').length === 2")
	p.Click("#pause")
	p.Until("then all are there", "document.querySelectorAll('.event').length === 9")
	p.Do(chromedp.SendKeys("[name=text]", "number 9"))
	p.Until("a text is looked for in the whole event", "document.querySelectorAll('.event').length === 1")
	p.Click(".event summary")
	p.Until("the event is there as it is", "JSON.parse(document.querySelector('.event pre')?.innerText ?? 'null')?.payload.number === 9")
	p.Picture("events", false)
	p.Click(".links a")
	p.Until("it has an address", "location.hash.startsWith('#/events/tool.executed-9?after=')")
	p.Do(chromedp.Reload())
	p.Until("the link works without what the page had", "JSON.parse(document.querySelector('.one-event pre')?.innerText ?? 'null')?.payload.number === 9")
	p.Do(chromedp.Evaluate[chromedp.Void]("location.hash = '#/events/gone'"))
	p.Until("an event that is gone is said to be", "document.getElementById('view').innerText.includes('not there any more')")
}

func TestDeadLettersAreReplayedAndDroppedAfterAQuestion(t *testing.T) {
	f := newFake(t)
	f.furnish("")
	p := webuitest.Open(t, f.url("#/dead"), 1100, 760)
	p.Until("both are listed with their reasons", "document.querySelectorAll('.card').length === 2 && document.querySelector('.card').innerText.includes('Rule “archive” failed')")
	p.Picture("dead", false)
	p.Click("[data-letter=d1]")
	p.Until("the event is there", "JSON.parse(document.querySelector('.letter pre')?.innerText ?? 'null')?.type === 'user_query'")
	p.Picture("dead-letter", true)
	p.Click(".actions .strong")
	p.Until("it is gone from the list", "document.querySelectorAll('.card').length === 1")
	p.Click("[data-letter=d2]")
	p.Do(chromedp.WaitVisible(".actions .danger"))
	p.Click(".actions .danger")
	p.Until("it asks", "document.getElementById('ask').open")
	p.Click("#ask-no")
	p.Until("nothing happened", "!document.getElementById('ask').open && location.hash === '#/dead/d2'")
	p.Click(".actions .danger")
	p.Do(chromedp.WaitVisible("#ask"))
	p.Click("#ask-yes")
	p.Until("there are none and it says so", "document.getElementById('view').innerText.includes('There are none')")
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.views.replayed, []string{"d1"}) || !slices.Equal(f.views.dropped, []string{"d2"}) {
		t.Errorf("replayed %v, dropped %v", f.views.replayed, f.views.dropped)
	}
}

func TestHealthTellsPartsProgramAndConsumers(t *testing.T) {
	f := newFake(t)
	f.furnish("")
	p := webuitest.Open(t, f.url("#/health"), 1100, 760)
	p.Shows(".state h2", "Lilac is ready.")
	for _, words := range []string{"database", "900 MiB free", "warning", "v1.2.3", "26 h 3 min", "environment", "not served", "2 h 0 min"} {
		p.Until("it tells "+words, fmt.Sprintf("document.querySelector('.health').innerText.includes(%q)", words))
	}
	p.Picture("health", false)
	f.set(func() {
		f.views.notReady = object{"status": "not_ready", "parts": []object{{"name": "runner", "status": "failed", "message": "It takes no work."}}, "error": object{"message": "The runner takes no work."}}
	})
	p.Shows(".state.bad h2", "The runner takes no work.")
	p.Until("the part that fails is named", "document.querySelector('.parts li').innerText.includes('It takes no work.')")
}

func TestOnlyAGroupThatNobodyServesIsDroppedAfterAQuestion(t *testing.T) {
	f := newFake(t)
	f.furnish("& / ü")
	p := webuitest.Open(t, f.url("#/health"), 1100, 760)
	p.Until("one of the two can be dropped", "document.querySelectorAll('[data-drop]').length === 1")
	p.Click("[data-drop]")
	p.Until("it asks", "document.getElementById('ask').open && document.getElementById('ask-text').textContent.includes('1,200 events')")
	p.Click("#ask-no")
	p.Until("nothing happened", "!document.getElementById('ask').open && document.querySelectorAll('[data-drop]').length === 1")
	p.Click("[data-drop]")
	p.Do(chromedp.WaitVisible("#ask"))
	p.Click("#ask-yes")
	p.Until("it is gone", "document.querySelector('.table') && !document.querySelector('[data-drop]')")
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.views.left, []string{"cmd.request old & / ü"}) {
		t.Errorf("dropped %q", f.views.left)
	}
}

func TestSettingsSayWhereTheyComeFrom(t *testing.T) {
	f := newFake(t)
	f.furnish("")
	p := webuitest.Open(t, f.url("#/settings"), 1100, 760)
	p.Until("all are there", "document.querySelectorAll('[data-setting]').length === 4")
	p.Until("where one comes from is told", "document.querySelector('[data-setting=model] .badge').innerText === 'LILAC_MODEL'")
	p.Picture("settings", false)
	p.Click("[name=changed]")
	p.Until("those that were set", "document.querySelectorAll('[data-setting]').length === 3 && location.hash === '#/settings?changed=1'")
	p.Do(chromedp.SendKeys("[name=find]", "steps"))
	p.Until("one is found", "document.querySelectorAll('[data-setting]').length === 1")
	p.Do(chromedp.Reload())
	p.Until("a reload keeps what was looked for", "document.querySelectorAll('[data-setting]').length === 1 && document.querySelector('[name=find]').value === 'steps'")
}

// Whatever others say is shown as what it is and becomes no part of the page.
func TestHostileTextIsText(t *testing.T) {
	f := newFake(t)
	f.furnish(hostile)
	p := webuitest.Open(t, f.url("#/events"), 1100, 760)
	f.streaming()
	f.emit("stream.error", object{"requestId": hostile, "error": object{"message": hostile}})
	f.emit("user_query", object{"content": hostile, "messageId": hostile, "requestId": hostile, "queue": "prompt"})
	p.Until("the events are there", "document.querySelectorAll('.event').length === 2")
	p.Do(chromedp.Evaluate[chromedp.Void]("document.querySelectorAll('.event').forEach(e => { e.open = true })"))
	const clean = "!window.hacked && !document.querySelector('img[src=x], svg, [onerror], [onload], a[href^=javascript]')"
	shown := func(view, selector string) {
		t.Helper()
		p.Until(view+" shows it as text", fmt.Sprintf("document.querySelector(%q)?.textContent.includes('<img src=x onerror=')", selector))
		p.Until(view+" made nothing of it", clean)
	}
	shown("events", ".event pre")
	for hash, selector := range map[string]string{
		"#/s/s1": "#transcript .words", "#/requests": ".card .bad", "#/requests/web:s1:m0": ".timeline .words",
		"#/dead": ".card .bad", "#/dead/d1": ".letter pre", "#/health": ".table td:nth-child(2)", "#/settings": "[data-setting=model] .value", "#/search?q=dandelion": ".excerpt",
	} {
		if hash == "#/health" {
			p.Do(chromedp.Evaluate[chromedp.Void]("location.hash = '#/health'"))
			p.Until("health shows it as text", "document.querySelector('.table')?.textContent.includes('<img src=x')")
			p.Until("health made nothing of it", clean)
			continue
		}
		p.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("location.hash = %q", hash)))
		shown(hash, selector)
	}
	p.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.getElementById('view')['inner' + 'HTML'] = %q", hostile)))
	if webuitest.Eval[bool](p, clean) {
		t.Error("control: the same text as markup is not seen by the check")
	}
}
