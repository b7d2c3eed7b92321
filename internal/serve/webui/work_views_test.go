package webui_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/effort"
)

func TestTaskIsFollowedAndStoppedAfterAConfirmation(t *testing.T) {
	t.Parallel()
	f, p := furnished(t, "", "#/tasks", 1100, 760)
	p.Until("both are listed", "document.querySelectorAll('.card').length === 2 && document.querySelector('.card .badge').innerText === 'running'")
	p.Until("why one failed is told", "document.querySelector('.card .bad').innerText.includes('no tokens left')")
	p.Picture("tasks", false)
	p.Click("[data-task=t2]")
	p.Until("its output is there", "document.querySelector('.task-output')?.innerText.includes('lilac/internal/core/task')")
	p.Picture("task", true)
	f.set(func() { f.views.tasks[0]["result"] = "FAIL" })
	p.Until("it grows while it runs", "document.querySelector('.task-output').innerText.includes('FAIL')")
	p.Click(".story .danger")
	p.Until("it asks", "document.getElementById('ask').open")
	p.Click("#ask-yes")
	p.Until("it is stopped", "document.querySelector('.story .badge').innerText === 'stopped' && document.querySelector('.story').innerText.includes('a person')")
	p.Until("it cannot be stopped again", "!document.querySelector('.story .danger').checkVisibility()")
	p.To("#/tasks/none")
	p.Until("a task that is not there is said not to be", "document.getElementById('view').innerText.includes('This task does not exist.') && !document.getElementById('view').innerText.includes('Output')")
}

func TestEventsAreFilteredPausedAndLinked(t *testing.T) {
	t.Parallel()
	f, p := furnished(t, "", "#/events", 1100, 760)
	p.Until("it says what to do", "document.getElementById('events-status').innerText.includes('Send a message')")
	f.streaming()
	f.happen(3, "stream.text")
	f.emit("session.message_applied", object{"messageId": "m1", "requestId": "web:s1:m9", "queue": "steer"})
	f.emit("stream.error", object{"requestId": "web:s1:m9", "error": object{"message": "It broke <b>."}})
	p.Until("they are listed, the newest first", "document.querySelectorAll('.event').length === 4 && document.querySelector('.event').dataset.request === 'web:s1:m9' && document.querySelector('.event .badge').innerText === 'failed'")
	p.Click(".event summary")
	p.Until("the events of the request are in it, the oldest first", "[...document.querySelectorAll('.event .event .type')].map(e => e.innerText).join() === 'session.message_applied,stream.error'")
	p.Do(chromedp.SendKeys("[name=type]", "session."))
	p.Until("only that type is left", "document.querySelectorAll('.event').length === 1 && document.querySelector('.event').innerText.includes('1 event') && location.hash === '#/events?type=session.'")
	p.Do(chromedp.Reload())
	f.opened(2)
	p.Until("the filter is still there", "document.querySelector('[name=type]')?.value === 'session.'")
	p.To("#/events")
	p.Until("without filters", "document.querySelector('[name=type]')?.value === ''")
	f.happen(2, "stream.text")
	p.Until("they come", "document.querySelectorAll('.event').length === 2")
	p.Click("#pause")
	p.Until("it is paused", "document.getElementById('pause').getAttribute('aria-pressed') === 'true'")
	f.happen(7, "tool.executed")
	p.Until("it counts what waits", "document.getElementById('pause').innerText === 'Resume (7 new)'")
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
	p.To("#/events/gone")
	p.Until("an event that is gone is said to be", "document.getElementById('view').innerText.includes('has expired')")
}

func TestDeadLettersAreReplayedAndDroppedAfterAConfirmation(t *testing.T) {
	t.Parallel()
	f, p := furnished(t, "", "#/dead", 1100, 760)
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
	p.Until("there are none and it says so", "document.getElementById('view').innerText.includes('No dead letters')")
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.views.replayed, []string{"d1"}) || !slices.Equal(f.views.dropped, []string{"d2"}) {
		t.Errorf("replayed %v, dropped %v", f.views.replayed, f.views.dropped)
	}
}

func TestRulesShowActivityAndCost(t *testing.T) {
	t.Parallel()
	f, p := furnished(t, "", "#/rules", 1100, 860)
	p.Until("all are there", "document.querySelectorAll('[data-rule].card').length === 4")
	for _, words := range []string{
		"webhook.received, build.* wakes the agent", "debounce 30 s · at most once per 10 min · at most 50,000 tokens, $0.50 per day and conversation",
		"debounce 1 min 30 s · at most 3 times per 1 h",
		"48,210", "$0.13", "Over rate limit", "17", "Over budget", "dry run", "off", "built in", "Last 3 matches",
	} {
		p.Until("it tells "+words, fmt.Sprintf("document.getElementById('view').innerText.includes(%q)", words))
	}
	p.Click("[data-rule=ci-failed] summary")
	p.Until("the matches are there", "document.querySelectorAll('.matches li').length === 3 && document.querySelector('.matches').innerText.includes('chain too long')")
	p.Picture("rules", false)
	p.Picture("rules-dark", true)
	f.set(func() { f.views.rules[0]["used"] = object{"runs": 4, "tokens": 50100, "costMicros": 140000} })
	f.streaming()
	f.emit("webhook.received", object{"body": object{}})
	p.Until("it follows what happens, and what was open stays so", "document.getElementById('view').innerText.includes('50,100') && document.querySelector('[data-rule=ci-failed] details').open")
	p.Click(".matches a")
	p.Until("a match leads to its request", "location.hash === '#/requests/' + encodeURIComponent('web:s1:m0')")
}

func TestWorkflowsAreListedAndCancelled(t *testing.T) {
	t.Parallel()
	_, p := furnished(t, "", "#/workflows", 1100, 760)
	p.Until("those that wait are listed", "document.querySelectorAll('[data-workflow]').length === 2")
	for _, words := range []string{"waiting", "Ann asked when the release is", "The dandelions", "2 tasks", "until", "woke the agent 3 times", "2 workflows"} {
		p.Until("it tells "+words, fmt.Sprintf("document.querySelector('.view').innerText.includes(%q)", words))
	}
	p.Picture("workflows", false)
	p.Click("[name=ended]")
	p.Until("all are listed", "document.querySelectorAll('[data-workflow]').length === 3 && location.hash === '#/workflows?ended=1'")
	p.Until("why one failed is told", "document.querySelector('[data-workflow=w3] .bad').innerText.includes('no task to wait for')")
	p.Do(chromedp.Evaluate[chromedp.Void]("history.back()"))
	p.Until("back are those that wait", "document.querySelectorAll('[data-workflow]').length === 2 && !document.querySelector('[name=ended]').checked")
	p.Do(chromedp.Focus("[data-workflow=w1]"))
	p.Press("Enter")
	p.Until("its tasks are there", "document.querySelectorAll('[data-task]').length === 2")
	for _, words := range []string{"A reply from 5 to the question in discord 10", "“When is it?", "Reply received", "bob", "Tuesday", "An event custom.build.done if .payload.ok", "all tasks have a result"} {
		p.Until("it tells "+words, fmt.Sprintf("document.querySelector('.workflow').innerText.includes(%q)", words))
	}
	p.Picture("workflow", false)
	p.Picture("workflow-dark", true)
	p.Click(".actions .danger")
	p.Until("it asks", "document.getElementById('ask').open && document.getElementById('ask-no').innerText === 'Keep waiting'")
	p.Click("#ask-no")
	p.Until("it goes on waiting", "!document.getElementById('ask').open && document.querySelector('.actions .danger')")
	p.Click(".actions .danger")
	p.Do(chromedp.WaitVisible("#ask"))
	p.Click("#ask-yes")
	p.Until("it is cancelled", "document.querySelector('.workflow .badge').innerText === 'cancelled' && !document.querySelector('.actions')")
	p.To("#/workflows/none")
	p.Until("one that is not there is said not to be", "document.getElementById('view').innerText.includes('This workflow no longer exists.')")
}

func TestWorkflowsAreRefreshed(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f, p := furnished(t, "", "#/workflows", 1100, 760)
	p.Until("those that wait are listed", "document.querySelectorAll('[data-workflow]').length === 2")
	p.Do(chromedp.Focus("[data-workflow=w2]"))
	one := func(id string) object {
		return f.views.workflows[slices.IndexFunc(f.views.workflows, func(w object) bool { return w["id"] == id })]
	}
	f.set(func() { one("w1")["state"], one("w2")["summary"] = "resolved", "Something else." })
	p.Until("one that is over is gone", "document.querySelectorAll('[data-workflow]').length === 1 && document.querySelector('[data-workflow=w2]')?.innerText.includes('Something else.')")
	p.Until("the keyboard is where it was", "document.activeElement.dataset.workflow === 'w2'")
	p.Press("Enter")
	p.Until("it waits", "document.querySelector('.workflow .badge')?.innerText === 'waiting'")
	f.set(func() { one("w2")["state"], one("w2")["detail"] = "cancelled", "Not needed." })
	p.Until("it is over", "document.querySelector('.workflow .badge').innerText === 'cancelled' && document.querySelector('.workflow').innerText.includes('Not needed.')")
	p.Until("nothing is left to cancel", "!document.querySelector('.actions')")
}
