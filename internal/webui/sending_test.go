package webui_test

import (
	"fmt"
	"slices"
	"testing"

	"lilac/internal/webuitest"
)

// written says whether the message box has exactly this text.
func written(text string) string {
	return fmt.Sprintf("document.getElementById('text').value === %q", text)
}

// What is said in a new conversation arrives there, whatever is looked at while
// it is made.
func TestTheFirstMessageArrivesInItsConversationAlsoWhenAnotherOneIsOpened(t *testing.T) {
	for _, elsewhere := range []string{"#/s/s1", "#/requests"} {
		f := newFake(t)
		f.conversation("Boss")
		made := make(chan struct{})
		f.set(func() { f.making = made })
		p := webuitest.Open(t, f.url(""), 1000, 700)
		f.streaming()
		p.Say("my secret")
		p.Say("and one more")
		p.To(elsewhere)
		p.Until("it is elsewhere", "document.getElementById('title').innerText !== 'New conversation'")
		close(made)
		f.until("both were sent", func() bool { return len(f.prompts) == 2 })
		f.set(func() {
			for _, answer := range f.keys {
				if answer["sessionId"] != "s2" {
					t.Errorf("%s: it was said in %s", elsewhere, answer["sessionId"])
				}
			}
			if f.prompts[0]["content"] != "my secret" || len(f.sessions) != 2 {
				t.Errorf("%s: prompts %v in %d conversations", elsewhere, f.prompts, len(f.sessions))
			}
		})
		p.Until("nobody was taken elsewhere, and nothing stands in the box", fmt.Sprintf("location.hash === %q && !document.querySelector('#outbox > *') && ", elsewhere)+written(""))
		p.To("#/s/s2")
		p.Until("it stands where it was said", "[...document.querySelectorAll('#outbox .words')].map(e => e.innerText).join() === 'my secret,and one more'")
	}
}

// What could not be said because no conversation could be made comes back to
// the box of a new one, and to no other.
func TestAFirstMessageThatCannotBeSentComesBackToANewConversation(t *testing.T) {
	f := newFake(t)
	f.conversation("Boss")
	p := webuitest.Open(t, "about:blank", 1000, 700)
	p.Before(gateJS, f.url(""))
	f.streaming()
	made := shut(p, "POST /sessions$", false)
	p.Say("my secret")
	p.To("#/s/s1")
	p.Shows("#title", "Boss")
	f.set(func() { f.signedOut = true })
	made.release()
	p.Until("how to sign in is said", "document.getElementById('problem').innerText.includes('lilac serve')")
	p.Until("nothing stands in the box", written(""))
	p.To("#/")
	p.Until("it is there again", written("my secret"))
}

// Who stops an answer means the one that is shown, however late it is heard.
func TestStopNamesTheRequestThatIsShown(t *testing.T) {
	const first, second = "web:s1:m1", "web:s1:m2"
	f := newFake(t)
	f.conversation("Talk")
	p := webuitest.Open(t, "about:blank", 1000, 700)
	p.Before(gateJS, f.url("#/s/s1"))
	f.listened()
	p.Say("one")
	p.Shows("#outbox .said", "waiting…")
	p.Click("#stop")
	f.until("what waits is stopped", func() bool { return slices.Equal(f.cancels, []string{first}) })
	f.emit("stream.start", object{"requestId": first})
	p.Until("it runs", "document.querySelector('.request[data-state=running]')")
	stop := shut(p, "/cancel", false)
	p.Click("#stop")
	f.emit("stream.completed", object{"requestId": first, "content": ""})
	f.emit("stream.start", object{"requestId": second})
	p.Until("the next one runs", "document.querySelectorAll('.request')[1]?.dataset.state === 'running'")
	stop.release()
	f.until("the first is stopped", func() bool { return slices.Equal(f.cancels, []string{first, first}) })
	p.Click("#stop")
	f.until("now the second is", func() bool { return slices.Equal(f.cancels, []string{first, first, second}) })
}
