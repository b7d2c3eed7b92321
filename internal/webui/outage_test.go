package webui_test

import (
	"testing"

	"lilac/internal/webuitest"
)

// A server may be there and unable to read its events: it says why.
func TestAServerThatCannotReadItsEventsSaysWhy(t *testing.T) {
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

// A stream that is open and says nothing may be one of a server that cannot get
// on: who waits for an answer is told why, and what is said is sent.
func TestWhoWaitsIsToldWhyNothingComes(t *testing.T) {
	f := newFake(t)
	const why = "Redis at this address cannot do its work: it has no memory left"
	held := make(chan struct{})
	f.set(func() {
		f.held = held // as long as Redis is away, the messages cannot be loaded
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
