package webui_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

// attach chooses a file for the message.
func attach(t *testing.T, p *webuitest.Tab, name string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.Do(chromedp.SetUploadFiles("#picker", []string{path}))
	p.Until("the file is listed", fmt.Sprintf("document.querySelector('#files').innerText.includes(%q)", name))
}

// Unsent drafts survive a reload, also in conversations that are not shown.
func TestADraftIsThereAfterAReload(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.conversation("Old things")
	f.conversation("New things")
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	f.listened()
	p.Do(chromedp.SendKeys("#text", "half a novel"))
	p.To("#/s/s2")
	p.Until("nothing was written there", "document.getElementById('title').innerText === 'New things' && "+written(""))
	p.Do(chromedp.SendKeys("#text", "a poem"))
	p.Do(chromedp.Reload())
	p.Until("it is there again", written("a poem"))
	p.To("#/s/s1")
	p.Until("so is the other one", written("half a novel"))
	p.Do(chromedp.Focus("#text"))
	p.Press("Enter")
	f.until("it was sent", func() bool { return len(f.prompts) == 1 })
	p.Do(chromedp.Reload())
	p.Shows("#outbox .words", "half a novel")
	p.Until("what was sent is no draft", written(""))
	p.To("#/")
	p.Do(chromedp.SendKeys("#text", "a new one"))
	p.Do(chromedp.Reload())
	p.Until("so is what begins a conversation", written("a new one"))
}

// The number of stored drafts is bounded. The oldest draft is removed first.
func TestFiftyDraftsAreKept(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const n = 52
	f := newFake(t)
	for i := range n {
		f.conversation(fmt.Sprint("Talk ", i))
	}
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	for i := 1; i <= n; i++ {
		p.To(fmt.Sprint("#/s/s", i))
		p.Shows("#title", fmt.Sprint("Talk ", i-1))
		p.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.getElementById('text').value = 'draft %d'", i)))
	}
	p.Do(chromedp.Reload())
	p.Until("the newest is there", written(fmt.Sprint("draft ", n)))
	if got := webuitest.Eval[string](p, "JSON.parse(sessionStorage.getItem('lilac.drafts')).map(([id]) => id).join()"); !strings.HasPrefix(got, "s3,") || strings.Count(got, ",") != 49 {
		t.Errorf("drafts are kept of %s", got)
	}
}

// A message that was refused stays with its conversation, even after a reload.
func TestARefusedMessageIsThereAfterAnotherConversationAndAReload(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f, p := talk(t)
	f.conversation("Another one")
	f.listened()
	f.set(func() { f.signedOut = true })
	p.Say("remember the milk")
	p.Until("it was refused", "document.querySelector('#outbox .fate')?.innerText.includes('lilac serve')")
	attach(t, p, "list.txt")
	p.Say("and these")
	p.Until("so was one with a file", "document.querySelectorAll('#outbox .failed').length === 2")
	f.set(func() { f.signedOut = false })
	p.Do(chromedp.Reload())
	p.Until("both are there, and what has to be done again is said", "[...document.querySelectorAll('#outbox .words')].map(e => e.innerText).join() === 'remember the milk,and these' && document.querySelector('#outbox > :last-child .fate').innerText.includes('lilac serve')")
	p.To("#/s/s2")
	p.Until("it is elsewhere", "document.getElementById('title').innerText === 'Another one' && !document.querySelector('#outbox > *') && "+written(""))
	p.Do(chromedp.Reload())
	p.Shows("#title", "Another one")
	p.To("#/s/s1")
	p.Until("they can be sent again", "document.getElementById('text').value.includes('remember the milk') && document.getElementById('text').value.includes('and these') && "+listed+" === 'list.txt ✕'")
}

// Sending a message while the conversation is loading must not lose earlier unsent messages.
func TestAMessageThatIsSentWhileMessagesAreLoadedLosesNoOther(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f, p := talk(t)
	f.listened()
	p.Say("refuse me")
	p.Shows("#outbox .fate", "Content is not liked today.")
	held := make(chan struct{})
	f.set(func() { f.held = held })
	p.Do(chromedp.Reload())
	f.until("they are asked for", func() bool { return f.waiting == 1 })
	p.Say("hello")
	p.Shows("#outbox .fate", "Queued, next in line")
	close(held)
	p.Until("both are there", "[...document.querySelectorAll('#outbox .words')].map(e => e.innerText).sort().join() === 'hello,refuse me'")
}

// A message that cannot be stored is not accepted. It stays in the message box.
func TestTheFiftyFirstUnreadMessageIsNotSent(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f, p := talk(t)
	f.listened()
	f.set(func() { f.signedOut = true })
	say := func(n int) {
		p.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.getElementById('text').value = 'note %d'; document.getElementById('composer').requestSubmit()", n)))
	}
	for i := range 50 {
		say(i)
	}
	const fifty = "document.querySelectorAll('#outbox > .failed').length === 50"
	p.Until("fifty were refused", fifty) // each of them shows its reason in the same place
	say(50)
	p.Shows("#problem", "50 messages are already waiting in this conversation. Send this one again when there are fewer.")
	p.Until("the last one is in the box", written("note 50"))
	f.set(func() { f.signedOut = false })
	p.Do(chromedp.Reload())
	p.Until("all are there after a reload", fifty+" && "+written("note 50"))
}

// If the user leaves while a message with files is being sent that the browser does not keep, the page reports what it knows: that the
// message arrived, if it has received the event, and otherwise that it may have arrived.
func TestUnconfirmedMessageWithFilesIsNotReportedAsLost(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	for _, known := range []bool{true, false} {
		f := newFake(t)
		f.conversation("Talk")
		p := webuitest.Open(t, "about:blank", 1000, 700)
		p.Before(gateJS+refusedFiles, f.url("#/s/s1"))
		f.listened()
		attach(t, p, "notes.txt")
		answer := shut(p, "/prompt", true)
		p.Say("read this")
		answer.holds(1)
		const r = "web:s1:m1"
		if known {
			f.emit("user_query", object{"messageId": "m1", "requestId": r, "content": "read this", "queue": "prompt"})
			heard(p, "user_query")
		}
		f.set(func() {
			f.messages = []object{
				{"id": "m1", "requestId": r, "role": "user", "content": "read this", "createdAt": 1},
				{"id": "a1", "requestId": r, "role": "assistant", "content": "I did.", "createdAt": 2},
			}
		})
		p.Do(chromedp.Reload())
		p.Shows("#transcript .answer", "I did.")
		if known {
			p.Until("it is there once", "!document.querySelector('#outbox > *') && document.querySelectorAll('.bubble').length === 1")
			continue
		}
		const why = "The page was closed before the server confirmed this message. Check whether it appears above. Attach its files again."
		p.Shows("#outbox .fate", why)
		p.Do(chromedp.Reload())
		p.Shows("#outbox .fate", why)
		p.Click("#outbox button")
		p.Until("it can be sent again", written("read this"))
	}
}

// A message from another tab is shown if it was read while this tab was sending a message, whatever happens
// to this tab's message.
func TestMessageOfAnotherTabIsShownWhileSending(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	for fate, ours := range map[string]struct {
		words string
		is    func(*fake)
	}{
		"taken":     {words: "mine", is: func(*fake) {}},
		"refused":   {words: "refuse me", is: func(*fake) {}},
		"put off":   {words: "mine", is: func(f *fake) { f.busy = 1_000_000 }},
		"not known": {words: "mine", is: func(f *fake) { f.dropAnswers = 1_000_000 }},
	} {
		t.Run(fate, func(t *testing.T) {
			const r = "web:s1:m0"
			f := newFake(t)
			f.conversation("Talk")
			p := webuitest.Open(t, "about:blank", 1000, 700)
			p.Before(gateJS, f.url("#/s/s1"))
			f.listened()
			f.emit("stream.start", object{"requestId": r})
			f.text(r, "one", 0)
			p.Shows("#transcript .answer", "one")
			sent := shut(p, "POST .*/prompt", false)
			p.Say(ours.words)
			sent.holds(1)
			f.set(func() {
				f.running = []string{r}
				f.messages = []object{
					{"id": "m0", "requestId": r, "role": "user", "content": "go", "createdAt": 1},
					{"id": "a1", "requestId": r, "role": "assistant", "content": "one", "createdAt": 1},
					{"id": "m9", "requestId": r, "role": "user", "content": "theirs", "createdAt": 1},
				}
			})
			f.emit("session.message_applied", object{"messageId": "m9", "requestId": r, "queue": "steer", "offset": 3})
			heard(p, "session.message_applied")
			f.set(func() { ours.is(f) })
			sent.release()
			p.Until("it stands there", order+" === 'go|one|theirs'")
			p.Shows("#outbox .words", ours.words)
		})
	}
}
