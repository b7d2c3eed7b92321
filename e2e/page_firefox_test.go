package e2e_test

import (
	"strings"
	"testing"

	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

// The tests of the page run in Chromium. This one does what people do most in an engine that has
// nothing in common with it: they follow an answer through kill -9, run a tool, reload, and look at
// the views.
func TestThePageInFirefox(t *testing.T) {
	effort.SkipLong(t, "Firefox, which is not the default browser,")
	t.Parallel()
	s := e2e.Start(t)
	p := webuitest.OpenFirefox(t, loginURL(t, s), 1200, 820)
	p.Until("the page is there, at its own address", "document.querySelector('#text') && location.search === ''")
	p.Say("count to 300")
	p.Until("the count has begun", "("+lastAnswer+" ?? '').includes('1 2 3 4 5')")
	s.Kill()
	p.Until("the page says that it reconnects", "document.body.innerText.includes('reconnect')")
	s.Restart()
	p.Until("the answer is over", lastState+" === 'done'")
	if got := strings.Join(strings.Fields(p.Text(lastAnswer)), " "); got != countTo(300) {
		t.Errorf("the page shows %q, want 1 to 300 once", got)
	}

	p.Say("run ls /")
	p.Until("the tool has run", "document.querySelector('.tool')?.dataset.status === 'good'")
	p.Until("the answer is over", lastState+" === 'done'")
	p.Click(".tool summary")
	p.Until("its output unfolds", "document.querySelector('.tool').open && document.querySelector('.tool .fold-body').innerText.includes('usr')")
	p.Until("there is a scrollbar", "document.querySelector('.scroll').offsetWidth > document.querySelector('.scroll').clientWidth")
	if messages, box := p.Text(leftOf(".scroll .column")), p.Text(leftOf(".composer .column")); messages != box {
		t.Errorf("the messages begin at %s, the message box at %s", messages, box)
	}
	p.Picture("tool")

	p.Reload()
	p.Until("everything is there again", "document.querySelectorAll('#transcript .request').length === 2 && "+lastState+" === 'done'")
	p.Until("the end is shown", "(({ scrollHeight, scrollTop, clientHeight }) => scrollHeight - scrollTop - clientHeight < 2)(document.querySelector('.scroll'))")

	for hash, heading := range map[string]string{
		"#/requests": "Requests", "#/tasks": "Tasks", "#/workflows": "Workflows", "#/rules": "Rules", "#/usage": "Usage",
		"#/health": "Health", "#/events": "Events", "#/dead": "Dead letters", "#/people": "People", "#/settings": "Settings", "#/setup": "Set up",
	} {
		p.Text("location.hash = '" + hash + "'")
		p.Until(heading+" is shown", "[...document.querySelectorAll('h1, h2')].some((e) => e.checkVisibility() && e.innerText.trim() === '"+heading+"')")
	}
	p.Picture("setup")
}

func leftOf(selector string) string {
	return "document.querySelector('" + selector + "').getBoundingClientRect().left"
}
