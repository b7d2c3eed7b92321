package e2e_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

var loginLink = regexp.MustCompile(`http://\S+/login\?code=\S+`)

const (
	lastAnswer = "[...document.querySelectorAll('#transcript .request')].at(-1)?.querySelector('.answer:last-of-type')?.innerText"
	lastState  = "[...document.querySelectorAll('#transcript .request')].at(-1)?.dataset.state"
)

// countTo returns the demo model's answer when it is asked to count.
func countTo(n int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprint(i + 1)
	}
	return strings.Join(words, " ")
}

// askToCount sends the prompt and waits until the newest request shows it.
func askToCount(p *webuitest.Tab, n int) {
	question := fmt.Sprintf("count to %d", n)
	p.Say(question)
	p.Until("the question is read", fmt.Sprintf("[...document.querySelectorAll('#transcript .request')].at(-1)?.querySelector('.words')?.innerText === %q", question))
}

// reached waits until the last answer contains a number.
func reached(p *webuitest.Tab, n int) {
	p.Until(fmt.Sprintf("the count reaches %d", n), fmt.Sprintf(`(%s ?? '').trim().split(/\s+/).includes('%d')`, lastAnswer, n))
}

// counted waits for the end and checks that the answer counts to n exactly once.
func counted(t *testing.T, p *webuitest.Tab, n int) {
	t.Helper()
	p.Until("the answer is over", lastState+" === 'done'")
	if got := strings.Join(strings.Fields(webuitest.Eval[string](p, lastAnswer)), " "); got != countTo(n) {
		t.Errorf("the page shows %q, want 1 to %d once", got, n)
	}
}

func loginTo(t *testing.T, s *e2e.Server) *webuitest.Tab {
	t.Helper()
	p := webuitest.Open(t, loginURL(t, s), 1200, 820)
	p.Until("the page is there", "document.querySelector('#text')")
	return p
}

// loginURL returns the newest link that serve has printed.
func loginURL(t *testing.T, s *e2e.Server) string {
	t.Helper()
	var links []string
	// The output comes through a pipe, so it may arrive after the server is ready.
	e2e.Eventually(t, answerWithin, "serve has printed its link", func() bool {
		links = loginLink.FindAllString(s.Log(), -1)
		return len(links) > 0
	})
	return links[len(links)-1]
}

// A new user chats, watches, steers, stops, and reloads during an answer. The program is killed
// during an answer and restarted.
func TestANewUserOnThePage(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	s := e2e.Start(t)
	p := loginTo(t, s)

	p.Say("run ls /")
	p.Until("the conversation has an address", "location.hash.startsWith('#/s/')")
	p.Until("the tool has run", "['good', 'bad'].includes(document.querySelector('.tool')?.dataset.status)")
	p.Until("its output is there, folded", "!document.querySelector('.tool').open && document.querySelector('.tool .fold-body').textContent.includes('usr')")
	p.Until("the answer is over", lastState+" === 'done'")
	p.Until("it is Markdown", "document.querySelector('#transcript .answer .md > *')")

	askToCount(p, 700) // long enough to type the steer on a busy machine
	reached(p, 5)
	p.Until("a message can steer", "document.querySelector('#modes input:checked').value === 'steer' && !document.getElementById('running').hidden")
	p.Say("hello from the middle")
	p.Shows("#outbox .fate", "Waiting for the next step…")
	p.Picture("page", false)
	p.Until("it says what became of it", "document.querySelector('#transcript .fate:not([hidden])')?.innerText.includes('Added to the answer')")
	p.Until("the answer is over", lastState+" === 'done'")
	if n := webuitest.Eval[int](p, "[...document.querySelectorAll('#transcript .words')].filter(e => e.innerText === 'hello from the middle').length"); n != 1 {
		t.Errorf("the steer is shown %d times", n)
	}

	askToCount(p, 2000)
	reached(p, 8)
	p.Click("#stop")
	p.Until("it is stopped", lastState+" === 'cancelled' && document.getElementById('running').hidden")
	p.Shows("#transcript .note", "Stopped.")

	askToCount(p, 100)
	reached(p, 20)
	p.Do(chromedp.Reload())
	reached(p, 50)
	counted(t, p, 100)

	askToCount(p, 110)
	reached(p, 30)
	s.Kill()
	p.Shows("#link", "reconnecting…")
	s.Restart()
	counted(t, p, 110)
	p.Until("the connection is back", "document.getElementById('link').innerText === ''")
	p.Do(chromedp.Reload())
	counted(t, p, 110)
	if n := webuitest.Eval[int](p, "[...document.querySelectorAll('#transcript .words')].filter(e => e.innerText === 'count to 110').length"); n != 1 {
		t.Errorf("the question is shown %d times after a restart", n)
	}
	if n := webuitest.Eval[int](p, "document.querySelectorAll('#transcript .request').length"); n != 5 {
		t.Errorf("there are %d requests, want 5", n)
	}
}

// The other views of the page show the data of a real request.
func TestTheViewsTellOfARealRequest(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	s := e2e.Start(t)
	p := loginTo(t, s)
	p.Say("run ls /")
	p.Until("the answer is over", lastState+" === 'done'")
	p.Until("there is a way to its story", "document.querySelector('.about a')")
	talk := webuitest.Eval[string](p, "location.hash")

	p.Click(".about a")
	p.Until("what woke it is told", "document.querySelector('[data-kind=input]')?.innerText.includes('run ls /')")
	p.Until("so are the tool and the end", "document.querySelector('[data-kind=tool_start]') && document.querySelector('[data-kind=end]')?.innerText.includes('Done')")
	p.Click("[data-kind=tool_start] details:last-of-type summary")
	p.Until("the tool's output is there", "document.querySelector('[data-kind=tool_start] details[open] pre').innerText.includes('usr')")
	p.Picture("timeline-real", false)

	p.Do(chromedp.Evaluate[chromedp.Void]("location.hash = '#/events'"))
	p.Until("the request is one line", "document.querySelector('.events > .group')?.innerText.includes('run ls /')")
	p.Click(".events > .group summary")
	p.Until("its events are there", "['user_query', 'stream.start', 'stream.tool_call', 'stream.completed'].every(t => [...document.querySelectorAll('.event .type')].some(e => e.innerText === t))")
	p.Click(".group-lines > .event:last-child summary")
	p.Click(".group-lines > .event:last-child .links a")
	p.Until("it has an address", "location.hash.startsWith('#/events/')")
	p.Do(chromedp.Reload())
	p.Until("a link to an event works without the page's memory", "document.querySelector('.one-event pre')?.innerText.includes('stream.')")

	p.Do(chromedp.Evaluate[chromedp.Void]("location.hash = '#/search?q=run%20ls'"))
	// The answer may contain the words too: "run" is also a directory.
	asked := "[...document.querySelectorAll('.result .excerpt')].find(e => e.innerText === 'run ls /')"
	p.Until("what was said is found", asked)
	p.Do(chromedp.Evaluate[chromedp.Void](asked + ".click()"))
	p.Until("and leads there", fmt.Sprintf("location.hash.startsWith(%q) && document.activeElement.innerText.includes('run ls /')", talk+"/m/"))

	p.Do(chromedp.Evaluate[chromedp.Void]("location.hash = '#/health'"))
	p.Shows(".state h2", "Lilac is ready.")
	p.Until("its parts and consumers are told", "document.querySelector('.parts li') && document.querySelector('.table tbody tr')")
	p.Picture("health-real", false)
	p.Do(chromedp.Evaluate[chromedp.Void]("location.hash = '#/settings'"))
	p.Until("where a setting comes from is told", "document.querySelector('[data-setting=dataDir] .badge') && document.querySelector('[data-setting=\"limits.request.steps\"] .badge')?.innerText === 'default'")
	p.Picture("settings-real", false)
	p.Do(chromedp.Evaluate[chromedp.Void]("location.hash = '#/dead'"))
	p.Until("there are no dead letters", "document.getElementById('view').innerText.includes('No dead letters')")
}

// Control: with a broken event stream, the same page must not reach the end. So the test above
// observes the stream.
func TestControlWithoutTheServerNothingArrives(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	s := e2e.Start(t)
	p := loginTo(t, s)
	askToCount(p, 2000)
	reached(p, 10)
	s.Kill()
	// The page has noticed the end of its stream, so it has read everything and receives nothing
	// more.
	p.Shows("#link", "reconnecting…")
	if state := webuitest.Eval[string](p, lastState); state != "running" {
		t.Errorf("without a server the answer is %s", state)
	}
}
