package webui_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"lilac/internal/webuitest"
)

func TestMain(m *testing.M) { os.Exit(webuitest.Main(m)) }

const answer = "Here is **what I found**:\n\n1. `README.md`, the *front door*\n2. `cmd/lilac`, one command\n\n```go\nfunc main() {\n\tprintln(\"hello\")\n}\n```\n\nA [link](https://example.org) and <b>no markup</b> of the model's."

func TestAnAnswerArrivesAndAMessageSteersIt(t *testing.T) {
	f := newFake(t)
	p := webuitest.Open(t, f.url(""), 1200, 800)
	p.Picture("empty", false)
	p.Say("What is in this directory?")
	p.Until("the conversation has an address", "location.hash === '#/s/s1'")
	p.Shows(".outbox .words, #outbox .words", "What is in this directory?")
	const r = "web:s1:m1"
	f.emit("stream.start", object{"requestId": r})
	f.emit("session.message_applied", object{"messageId": "m1", "requestId": r, "queue": "prompt"})
	p.Shows("#transcript .words", "What is in this directory?")
	f.emit("stream.reasoning", object{"requestId": r, "content": "They want a list. I look."})
	f.text(r, "I look.", 0)
	f.emit("stream.tool_call", object{"requestId": r, "toolCallId": "c1", "name": "bash", "args": object{"command": "ls -1"}, "status": "start"})
	p.Until("the tool runs", "document.querySelector('[data-tool=c1]')?.dataset.status === 'run'")
	p.Until("stop is offered", "!document.getElementById('running').hidden")
	p.Say("only the names, please")
	p.Shows("#outbox .said", "waiting to be read before the next step…")
	p.Picture("running", false)
	f.emit("stream.tool_call", object{"requestId": r, "toolCallId": "c1", "name": "bash", "status": "end", "ok": true, "output": "README.md\ncmd"})
	f.emit("session.message_applied", object{"messageId": "m2", "requestId": r, "queue": "steer"})
	p.Shows("#transcript .said", "Applied as steer to the running answer")
	for i := 0; i < len(answer); i += 7 {
		f.text(r, answer[i:min(i+7, len(answer))], 7+i)
	}
	f.emit("stream.completed", object{"requestId": r, "content": "I look." + answer, "usage": nil})
	p.Until("the answer is rendered", "document.querySelector('#transcript .md pre code')?.innerText.includes('println')")
	p.Until("stop is gone", "document.getElementById('running').hidden")
	p.Until("the order is kept", `[...document.querySelectorAll('.blocks > *')].map(e => e.className.split(' ')[0]).join() === 'user,fold,answer,fold,user,answer'`)
	p.Until("the model's markup is text", "!document.querySelector('.md b') && document.querySelectorAll('.md ol > li').length === 2")
	p.Until("the tool's output is folded", "!document.querySelector('[data-tool=c1]').open && document.querySelector('[data-tool=c1] .fold-body').textContent.includes('README.md')")
	p.Click("[data-tool=c1] summary")
	p.Picture("done", false)
	p.Picture("done-dark", true)
	if got := f.prompts[1]["queue"]; got != "steer" {
		t.Errorf("the second message was sent as %v, want steer", got)
	}
}

func TestARequestAtALimitAsksAndIsAnswered(t *testing.T) {
	const r, question = "web:s1:m0", "50 steps are used. Go on with 50 more? Say continue or stop."
	f, p := talk(t)
	f.listened()
	f.emit("stream.start", object{"requestId": r})
	f.text(r, question, 0)
	f.emit("session.paused", object{"requestId": r, "pause": 1, "question": question, "until": 1_760_000_000_000})
	p.Until("it asks", "document.querySelector('.limit')?.innerText.includes('waits at a limit')")
	p.Until("a screen reader hears the question", fmt.Sprintf("document.getElementById('live').textContent === %q", question))
	p.Shows("#hint", "Lilac waits for your answer: continue or stop. Other words are read when it goes on.")
	p.Picture("limit", false)
	f.set(func() {
		f.running = []string{r}
		f.sessions[0]["activeRequest"], f.sessions[0]["paused"] = r, object{"number": 1, "question": question}
	})
	p.Do(chromedp.Reload())
	p.Until("it asks after a reload too", "document.querySelector('.limit .strong')")
	p.Click(".limit .strong")
	f.until("it was told to go on", func() bool { return slices.Equal(f.answers, []string{"continue " + r}) })
	f.emit("session.resumed", object{"requestId": r, "pause": 1, "answer": "continue"})
	p.Until("it asks no more", "!document.querySelector('.limit') && document.querySelector('.thinking')")
	p.Shows("#hint", "Lilac is answering. It reads this before its next step.")
}

// A message stands where it was read, also when the words before it come later
// than what became of it.
func TestASteerStandsWhereItWasRead(t *testing.T) {
	for _, early := range []bool{true, false} {
		const r = "web:s1:m0"
		f, p := talk(t)
		f.listened()
		f.emit("stream.start", object{"requestId": r})
		f.text(r, "one ", 0)
		p.Shows("#transcript .answer", "one")
		p.Say("hello")
		p.Shows("#outbox .said", "waiting to be read before the next step…")
		applied := func() {
			f.emit("session.message_applied", object{"messageId": "m1", "requestId": r, "queue": "steer", "offset": 8})
		}
		if early {
			applied()
		}
		f.text(r, "two three", 4)
		if !early {
			applied()
		}
		f.text(r, " four", 13)
		p.Until("it stands there", "[...document.querySelectorAll('.blocks > *')].map(e => (e.querySelector('.words') ?? e).innerText.trim()).join('|') === 'one two|hello|three four'")
	}
}

func TestAServerThatGoesAwayCostsNothing(t *testing.T) {
	f := newFake(t)
	f.conversation("Counting")
	const r = "web:s1:m0"
	f.set(func() {
		f.messages = []object{
			{"id": "m0", "requestId": r, "role": "user", "content": "count", "createdAt": 1},
			{"id": "a0", "requestId": r, "role": "assistant", "content": []object{{"type": "text", "text": "one "}}, "createdAt": 1},
		}
		f.running = []string{r}
	})
	f.emit("stream.start", object{"requestId": r})
	f.text(r, "one ", 0)
	p := webuitest.Open(t, f.url("#/s/s1"), 360, 720)
	p.Shows("#transcript .answer", "one")
	f.text(r, "two ", 4)
	p.Shows("#transcript .answer", "one two")
	f.down()
	p.Shows("#link", "reconnecting…")
	p.Picture("reconnecting", false)
	f.text(r, "three ", 8)
	f.text(r, "thr", 8) // the step is repeated after a crash
	f.text(r, "ee four", 11)
	f.up()
	p.Shows("#transcript .answer", "one two three four")
	p.Until("it says that it is connected", "document.getElementById('link').innerText === ''")
	p.Do(chromedp.Reload())
	p.Shows("#transcript .answer", "one two three four")
	f.set(func() { f.running = nil })
	f.emit("stream.completed", object{"requestId": r, "content": "one two three four", "usage": nil})
	p.Until("it is over", "document.querySelector('.request').dataset.state === 'done'")
	p.Shows("#transcript .answer", "one two three four")
	if users := webuitest.Eval[int](p, "document.querySelectorAll('#transcript .user').length"); users != 1 {
		t.Errorf("the question is there %d times", users)
	}
	p.Picture("mobile", false)
	p.Until("nothing is wider than the screen", "document.documentElement.scrollWidth <= 360")
	p.Click("#side-open")
	p.Until("the list is open", "document.activeElement.closest('#side')")
	p.Picture("mobile-list", true)
}

func TestAPageThatMissedSomethingAsksForIt(t *testing.T) {
	const r = "web:s1:m0"
	f, p := talk(t)
	f.listened()
	f.emit("stream.start", object{"requestId": r})
	f.text(r, "one ", 0)
	p.Shows("#transcript .answer", "one")
	f.set(func() {
		f.messages = []object{
			{"id": "m0", "requestId": r, "role": "user", "content": "count", "createdAt": 1},
			{"id": "a0", "requestId": r, "role": "assistant", "content": "one two three", "createdAt": 1},
		}
	})
	f.text(r, "three", 8) // what stands before never came
	p.Shows("#transcript .answer", "one two three")
	p.Shows("#transcript .words", "count")
}

// Words that are gone are said to be; what follows them is shown, and the whole
// text in the end.
func TestMissingWordsAreSaid(t *testing.T) {
	const r = "web:s1:m0"
	f, p := talk(t)
	f.listened()
	f.emit("stream.start", object{"requestId": r})
	f.emit("stream.gap", object{"requestId": r, "topic": "out.req." + r, "message": "gone"})
	f.text(r, "three ", 8)
	f.text(r, "four", 14)
	p.Shows("#transcript .answer", "three four")
	p.Shows("#transcript .note", "Some of what was written is missing here until the answer is complete.")
	f.set(func() {
		f.messages = []object{
			{"id": "m0", "requestId": r, "role": "user", "content": "count", "createdAt": 1},
			{"id": "a0", "requestId": r, "role": "assistant", "content": "one two three four", "createdAt": 1},
		}
	})
	f.emit("stream.completed", object{"requestId": r, "content": "one two three four"})
	p.Shows("#transcript .answer", "one two three four")
	p.Until("nothing is missing any more", "!document.querySelector('#transcript .note')")
}

func TestALongAnswerIsRenderedInPiecesAndAtTheEndAsAWhole(t *testing.T) {
	const r = "web:s1:m0"
	f, p := talk(t)
	f.listened()
	f.emit("stream.start", object{"requestId": r})
	var said strings.Builder
	for i := range 90 {
		text := fmt.Sprintf("Paragraph **number %d** of many, with é and ünïcode to be counted in bytes.\n\n", i)
		if i%30 == 29 {
			text = fmt.Sprintf("```\ncode %d\n\nA line after a blank one\n```\n\n", i)
		}
		f.text(r, text, said.Len())
		said.WriteString(text)
		if i == 50 {
			p.Until("it is cut into pieces", "document.querySelectorAll('.md .piece').length > 1 && document.querySelectorAll('.md strong').length > 10")
		}
	}
	f.emit("stream.completed", object{"requestId": r, "content": said.String(), "usage": nil})
	p.Until("it is one", "!document.querySelector('.md .piece') && document.querySelectorAll('.md strong').length === 87 && document.querySelectorAll('.md pre').length === 3")
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.loads != 1 {
		t.Errorf("the messages were asked for %d times, want once", f.loads)
	}
}

func TestALostAnswerToAPromptIsAskedForAgainAndAcceptedOnce(t *testing.T) {
	f := newFake(t)
	f.conversation("Talk")
	f.set(func() { f.dropAnswers = 2 })
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	p.Say("hello")
	p.Shows("#outbox .said", "waiting…")
	f.set(func() {
		if len(f.prompts) != 1 || f.dropAnswers != 0 {
			t.Errorf("%d prompts were accepted, %d answers were still to be lost", len(f.prompts), f.dropAnswers)
		}
	})
	p.Do(chromedp.Reload())
	p.Shows("#outbox .words", "hello")
}

func TestFailuresAreSaidInPlainWords(t *testing.T) {
	f := newFake(t)
	f.conversation("Talk")
	const r = "web:s1:m9"
	f.set(func() {
		f.messages = []object{{"id": "m9", "requestId": r, "role": "user", "content": "do it", "createdAt": 1}}
		f.requests = []object{{"id": r, "state": "failed", "detail": "unavailable: The model is overloaded. Try again later."}}
	})
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	p.Shows(".note.bad", "The model is overloaded. Try again later.")
	p.Say("refuse me")
	p.Shows("#outbox .said", "Content is not liked today.")
	p.Picture("failures", true)
	p.Click("#outbox button")
	p.Until("the words come back", "document.getElementById('text').value === 'refuse me' && !document.querySelector('#outbox > *')")
	f.set(func() { f.signedOut = true })
	p.Do(chromedp.Reload())
	p.Until("how to sign in is said", "document.getElementById('problem').innerText.includes('lilac serve')")
}

func TestAConversationIsDeletedAfterAQuestionAndWithTheKeyboard(t *testing.T) {
	f := newFake(t)
	f.conversation("Old things")
	f.conversation("New things")
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	p.Until("the list is there", "document.querySelectorAll('#list a').length === 2")
	p.Until("the open one is marked", "document.querySelector('#list [aria-current=page]').innerText === 'Old things'")
	p.Do(chromedp.Focus("#list li:first-child a"))
	p.Do(chromedp.KeyEvent(kb.ArrowDown))
	p.Until("the next one has the focus", "document.activeElement.innerText === 'New things'")
	p.Do(chromedp.KeyEvent(kb.Delete))
	p.Until("it asks", "document.getElementById('ask').open")
	p.Picture("delete", false)
	p.Click("#ask button[value=no]")
	p.Until("it is kept", "!document.getElementById('ask').open && document.querySelectorAll('#list a').length === 2")
	p.Do(chromedp.Evaluate[chromedp.Void]("document.querySelector('#list li button').click()"))
	p.Click("#ask button[value=yes]")
	p.Until("it is gone", "document.querySelectorAll('#list a').length === 1 && location.hash === '#/'")
}

// A conversation that is loaded does not take the keyboard from who went on
// meanwhile, only from who opened it.
func TestTheKeyboardStaysInTheListWhileAConversationIsLoaded(t *testing.T) {
	f := newFake(t)
	f.conversation("Talk")
	f.conversation("Another talk")
	held := make(chan struct{})
	f.set(func() {
		f.messages = []object{{"id": "m0", "requestId": "web:s1:m0", "role": "user", "content": "hello", "createdAt": 1}}
		f.held = held
	})
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	p.Until("the list is there", "document.querySelectorAll('#list a').length === 2")
	p.Do(chromedp.Evaluate[chromedp.Void]("document.querySelector('#list li:last-child a').focus()"))
	close(held)
	p.Shows("#transcript .words", "hello")
	p.Until("the keyboard is in the list", "document.activeElement.innerText === 'Another talk'")
	p.Press("Enter")
	p.Until("the keyboard goes into what was opened", "location.hash === '#/s/s2' && document.activeElement.id === 'text'")
}

func TestFilesGoWithTheMessage(t *testing.T) {
	f, p := talk(t)
	file := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(file, []byte("hello"), 0o644); err != nil {
		t.Fatal(err)
	}
	p.Do(chromedp.SetUploadFiles("#picker", []string{file}))
	p.Until("the file is listed", "document.querySelector('#files li')?.innerText.includes('notes.txt')")
	p.Say("read this")
	p.Until("the message shows it", "document.querySelector('#outbox .sent')?.innerText.includes('notes.txt')")
	p.Shows("#outbox .said", "waiting…")
	got, _ := json.Marshal(f.prompts[0]["attachments"])
	if want := `[{"dataBase64":"aGVsbG8=","filename":"notes.txt","mimeType":"text/plain"}]`; string(got) != want {
		t.Errorf("the attachments were %s, want %s", got, want)
	}
	if strings.Contains(string(got), "path") {
		t.Error("a path left the machine")
	}
}
