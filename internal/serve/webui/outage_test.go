package webui_test

import (
	"testing"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

// A server can be reachable and still be unable to read its events. The page then shows the reason.
func TestAServerThatCannotReadItsEventsSaysWhy(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.conversation("Counting")
	const why = "Redis cannot be reached"
	f.set(func() { f.trouble = why })
	p := webuitest.Open(t, f.url("#/s/s1"), 360, 720)
	p.Shows("#link", "reconnecting…")
	p.Shows("#problem", why)
	f.set(func() { f.trouble = "" })
	p.Until("nothing is wrong any more", "document.getElementById('link').innerText === '' && document.getElementById('problem').hidden")
}

// The stored messages of a conversation are shown even while newer events cannot be read.
func TestAConversationIsOpenedWhileTheEventsCannotBeRead(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.furnish("")
	const why = "Redis cannot be reached"
	f.set(func() { f.trouble = why })
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	p.Until("what is stored is there", "document.getElementById('transcript').innerText.includes('In meadows, and in gardens.') && document.getElementById('loading').hidden")
	p.Shows("#link", "reconnecting…")
	p.Shows("#problem", why)
	p.Picture("away", false)
	f.set(func() {
		f.messages = append(f.messages, object{"id": "a9", "requestId": "web:s1:m2", "role": "assistant", "content": "In winter they sleep.", "createdAt": 6})
		f.trouble = ""
	})
	p.Until("what came since is there, once", "document.getElementById('transcript').innerText.split('In winter they sleep.').length === 2 && document.getElementById('problem').hidden")
	p.Until("what was there is there once", "document.getElementById('transcript').innerText.split('In meadows, and in gardens.').length === 2")
}

// An open but silent stream can mean that the server is stuck. A user who waits for an answer is told the
// reason, and messages can still be sent.
func TestPageShowsWhyNoAnswerComes(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	const why = "Redis at this address cannot do its work: it has no memory left"
	held := make(chan struct{})
	f.set(func() {
		f.held = held // messages cannot be loaded while Redis is unavailable
		f.views.notReady = object{"status": "not_ready", "parts": []object{
			{"name": "surface", "status": "failed", "message": "Discord is away"}, {"name": "log", "status": "failed", "message": why, "needed": true},
		}}
	})
	p := webuitest.Open(t, "about:blank", 360, 720)
	p.Before("const real = setInterval; setInterval = (f, ms) => real(f, ms / 50)", f.url(""))
	f.streaming()
	p.Say("hello")
	p.Shows("#outbox .words", "hello")
	f.until("it was sent", func() bool { return len(f.prompts) == 1 })
	p.Shows("#link", why)
	p.Until("the conversation is listed", "!document.getElementById('rename').hidden")
	p.Until("nothing is wider than the screen", "document.documentElement.scrollWidth <= 360")
	p.Picture("stuck", false)
	close(held)
	f.set(func() { f.views.notReady = nil })
	p.Until("it says nothing more", "document.getElementById('link').innerText === ''")
}
