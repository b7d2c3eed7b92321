package webui_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

// answered adds a conversation with a question, an answer and a request in the given state.
func answered(f *fake, state string) {
	f.conversation("Talk")
	f.set(func() {
		f.messages = []object{
			{"id": "m0", "requestId": "web:s1:m0", "role": "user", "content": "Where do *dandelions* grow?", "createdAt": 1_760_000_000_000},
			{"id": "a0", "requestId": "web:s1:m0", "role": "assistant", "content": "In **meadows**.", "createdAt": 1_760_000_060_000},
		}
		f.requests = []object{{"id": "web:s1:m0", "sessionId": "s1", "state": state, "detail": "unavailable: The model is overloaded.", "createdAt": 1_760_000_000_000, "endedAt": 1_760_000_060_000}}
	})
}

// The stream contains only a part of a long tool output. A link leads to the rest.
func TestTruncatedToolOutputLinksToTheTimeline(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const r = "web:s1:m0"
	f, p := talk(t)
	f.listened()
	f.emit("stream.start", object{"requestId": r})
	for id, truncated := range map[string]bool{"c1": true, "c2": false} {
		f.emit("stream.tool_call", object{"requestId": r, "toolCallId": id, "name": "bash", "args": object{"command": "seq 9999"}, "status": "start"})
		end := object{"requestId": r, "toolCallId": id, "name": "bash", "status": "end", "ok": true, "output": strings.Repeat("1\n", 2048) + "…"}
		if truncated {
			end["truncated"] = true
		}
		f.emit("stream.tool_call", end)
	}
	p.Until("both have ended", "document.querySelectorAll('.tool[data-status=good]').length === 2")
	p.Until("the short one says nothing", "!document.querySelector('[data-tool=c2] .quiet')")
	p.Click("[data-tool=c1] summary")
	p.Shows("[data-tool=c1] .quiet", "Only the beginning is shown. For the complete output, see the timeline of the request.")
	p.Picture("long-output", false)
	p.Click("[data-tool=c1] .quiet a")
	p.Until("it leads to the whole", "location.hash === '#/requests/' + encodeURIComponent('"+r+"')")
}

func TestMessagesShowTheirTime(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	answered(f, "done")
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	const shown = "[...document.querySelectorAll('#transcript time')].map(e => [e.dateTime, /^Oct \\d+, 2025, \\d\\d:\\d\\d$/.test(e.innerText), e.title.startsWith('Oct ') && e.title.includes(':')].join()).join(' ')"
	p.Until("both have a time, a day and the whole date", shown+" === '2025-10-09T08:53:20.000Z,true,true 2025-10-09T08:54:20.000Z,true,true'")
	p.Say("and now?")
	f.until("it was sent", func() bool { return len(f.prompts) == 1 })
	f.emit("session.message_applied", object{"messageId": "m1", "requestId": "web:s1:m1", "queue": "prompt"})
	f.text("web:s1:m1", "Nowhere.", 0)
	f.emit("stream.completed", object{"requestId": "web:s1:m1", "content": "Nowhere.", "usage": nil})
	p.Until("what is said now has one, too, of today alone", "/^\\d\\d:\\d\\d$/.test(document.querySelectorAll('#transcript .under time')[1]?.innerText) && document.querySelectorAll('#transcript .about time').length === 2")
	p.Picture("times", false)
}

// The notes about a fallback also stand below an answer of the past.
func TestNotesStandBelowEarlierAnswers(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	answered(f, "done")
	f.set(func() { f.requests[0]["notes"] = "b continued for a: It is down.\nc continued for b: It is slow." })
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	p.Until("they are shown", "[...document.querySelectorAll('#transcript .note')].map((n) => n.innerText).join('|') === 'b continued for a: It is down.|c continued for b: It is slow.'")
}

// A page that is loaded over plain HTTP from another machine has no clipboard API, so the page falls back
// to another method. If the browser denies that too, the page says so.
func TestAnAnswerIsCopied(t *testing.T) {
	t.Parallel()
	const (
		modern  = "Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (text) => { window.taken = text; } } });"
		old     = "Object.defineProperty(navigator, 'clipboard', { value: undefined }); document.addEventListener('copy', () => { window.taken = document.activeElement.value; });"
		refused = "Object.defineProperty(navigator, 'clipboard', { value: { writeText: async () => { throw new Error('no'); } } }); document.execCommand = () => false;"
	)
	const watch = "window.said = []; new MutationObserver(() => { const e = document.querySelector('.about button'); if (e) window.said.push(e.textContent); }).observe(document, { childList: true, subtree: true, characterData: true });"
	for name, way := range map[string]string{"modern": modern, "old": old, "refused": refused} {
		f := newFake(t)
		answered(f, "done")
		p := webuitest.Open(t, "about:blank", 360, 700)
		p.Before(watch+way, f.url("#/s/s1"))
		p.Until("it is offered", "document.querySelector('.about button')?.textContent === 'Copy the answer'")
		p.Do(chromedp.Focus(".about button"))
		p.Press("Enter")
		if name == "refused" {
			p.Shows("#problem", "The browser does not allow this page to copy. Select the text and press Ctrl+C.")
			continue
		}
		p.Until(name+": it is taken as it was written", "window.taken === 'In **meadows**.'")
		p.Until(name+": it is said, and the keyboard is where it was", "document.getElementById('live').textContent === 'The answer was copied to the clipboard.' && window.said.includes('Copied the answer') && document.activeElement.matches('.about button') && !document.querySelector('body > textarea')")
		p.Picture("copied-"+name, false)
		p.Until(name+": it can be done again", "document.querySelector('.about button').textContent === 'Copy the answer'")
	}
}

// The word on the button is all that one sees of it, so a screen reader says it.
func TestACopyOfCodeIsAnnounced(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	for way, heard := range map[string]string{"Promise.resolve()": "The code was copied to the clipboard.", "Promise.reject()": "The browser does not allow this page to copy."} {
		f := newFake(t)
		answered(f, "done")
		f.set(func() { f.messages[1]["content"] = "```\nx := 1\n```" })
		p := webuitest.Open(t, "about:blank", 1000, 700)
		p.Before("navigator.clipboard.writeText = () => "+way+"; document.execCommand = () => false;", f.url("#/s/s1"))
		p.Click(".code-head button")
		p.Until("it is heard", fmt.Sprintf("document.getElementById('live').textContent === %q", heard))
	}
}

func TestFailedRequestCanBeRetried(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	answered(f, "failed")
	p := webuitest.Open(t, f.url("#/s/s1"), 360, 700)
	const button = "#transcript .foot > button"
	p.Shows(button, "Try again")
	p.Picture("try-again", false)
	p.Picture("try-again-dark", true)
	p.Do(chromedp.Focus(button))
	p.Press("Enter")
	f.until("the same was asked once more", func() bool {
		return len(f.prompts) == 1 && f.prompts[0]["content"] == "Where do *dandelions* grow?" && f.prompts[0]["queue"] == "prompt"
	})
	p.Until("it is asked once, and the keyboard can go on", fmt.Sprintf("!document.querySelector(%q) && document.activeElement.id === 'text'", button))

	// A message from a program, or one with files, cannot be sent again by a user.
	for _, asked := range []object{
		{"id": "env-af2/3", "requestId": "web:s1:m0", "role": "user", "content": "Process event: build.done", "createdAt": 2},
		{"id": "m0", "requestId": "web:s1:m0", "role": "user", "createdAt": 2, "content": []object{{"type": "text", "text": "look"}, {"type": "file", "filename": "a.txt", "mediaType": "text/plain"}}},
	} {
		f.set(func() { f.messages = slices.Concat([]object{asked}, f.messages[1:]) })
		p.Do(chromedp.Reload())
		p.Until("it has failed, and is not offered", fmt.Sprintf("document.querySelector('.note.bad') && !document.querySelector(%q)", button))
	}
}
