package webui_test

import (
	"fmt"
	"testing"
)

// What ran when it was listed is seen to end, also when so much came after it
// that it is not among the newest any more.
func TestWhatIsBehindTheNewestIsSeenToEnd(t *testing.T) {
	f, p := furnished(t, "", "#/tasks", 1100, 760)
	p.Until("it runs", "document.querySelector('[data-key=t2] .badge')?.innerText === 'running'")
	f.set(func() {
		var later []object
		for i := range 60 {
			later = append(later, object{"id": fmt.Sprint("later", i), "sessionId": "s1", "kind": "command", "description": "more", "state": "completed", "createdAt": 1_760_000_001_000, "endedAt": 1_760_000_002_000})
		}
		f.views.tasks[0]["state"], f.views.tasks[0]["endedAt"] = "completed", 1_760_000_009_000
		f.views.tasks = append(later, f.views.tasks...)
	})
	p.Until("it has ended", "document.querySelector('[data-key=t2] .badge')?.innerText === 'done'")

	f.set(func() { f.requests[0]["state"], f.requests[0]["detail"], f.requests[0]["endedAt"] = "running", "", 0 })
	p.To("#/requests")
	p.Until("it runs", "document.querySelector('[data-key=\"web:s1:m2\"] .badge')?.innerText === 'running'")
	f.set(func() {
		ended := object{"id": "web:s1:m2", "sessionId": "s1", "asked": "And in winter?", "state": "done", "createdAt": 1_760_000_100_000, "startedAt": 1_760_000_100_100, "endedAt": 1_760_000_103_000, "usage": object{}}
		f.views.stories["web:s1:m2"] = ended
		var later []object
		for i := range 60 {
			later = append(later, object{"id": fmt.Sprint("web:s1:later", i), "sessionId": "s1", "asked": "more", "state": "done", "createdAt": 1_760_000_200_000, "startedAt": 1_760_000_200_000, "endedAt": 1_760_000_201_000, "usage": object{}})
		}
		f.requests = append(later, f.requests...)
	})
	f.streaming()
	f.emit("stream.completed", object{"requestId": "web:s1:m2"})
	p.Until("it has ended", "document.querySelector('[data-key=\"web:s1:m2\"] .badge')?.innerText === 'done'")
}

// An event may have been stored with a time that is none.
func TestAnEventWithAnOddTimeIsShown(t *testing.T) {
	f, p := furnished(t, "", "#/events", 1100, 760)
	f.streaming()
	f.set(func() {
		f.events = append(f.events, object{"id": "odd", "type": "custom.odd", "timestamp": 1_795_445_793_638_000_000, "metadata": object{}, "payload": object{}})
	})
	f.happen(1, "stream.text")
	p.Until("both are listed", "[...document.querySelectorAll('.event .type')].map(e => e.innerText).join() === 'stream.text,custom.odd'")
}
