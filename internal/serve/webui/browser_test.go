package webui_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

func TestMain(m *testing.M) { os.Exit(webuitest.Main(m)) }

const answer = "Here is **what I found**:\n\n1. `README.md`, the *front door*\n2. `cmd/lilac`, one command\n\n```go\nfunc main() {\n\tprintln(\"hello\")\n}\n```\n\nA [link](https://example.org) and <b>no markup</b> of the model's."

func TestAnAnswerArrivesAndAMessageSteersIt(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	p := webuitest.Open(t, f.url(""), 1200, 800)
	p.Picture("empty", false)
	p.Say("What is in this directory?")
	p.Until("the conversation has an address", "location.hash === '#/s/s1'")
	p.Shows(".outbox .words, #outbox .words", "What is in this directory?")
	f.listened()
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
	p.Shows("#outbox .fate", "Waiting for the next step…")
	p.Picture("running", false)
	f.emit("stream.tool_call", object{"requestId": r, "toolCallId": "c1", "name": "bash", "status": "end", "ok": true, "output": "README.md\ncmd"})
	f.emit("session.message_applied", object{"messageId": "m2", "requestId": r, "queue": "steer"})
	p.Shows("#transcript .fate", "Added to the answer in progress")
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

// A steered message is shown at the point where the agent read it, even if the text before that point
// arrives after the event that reports the message.
func TestSteerIsShownWhereItWasApplied(t *testing.T) {
	t.Parallel()
	for _, early := range []bool{true, false} {
		const r = "web:s1:m0"
		f, p := talk(t)
		f.listened()
		f.emit("stream.start", object{"requestId": r})
		f.text(r, "one ", 0)
		p.Shows("#transcript .answer", "one")
		p.Say("hello")
		p.Shows("#outbox .fate", "Waiting for the next step…")
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

func TestPageSurvivesAnUnreachableServer(t *testing.T) {
	t.Parallel()
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

func TestPageReloadsMissedMessages(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
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
	f.text(r, "three", 8) // the text before this offset never arrived
	p.Shows("#transcript .answer", "one two three")
	p.Shows("#transcript .words", "count")
}

// If text is lost, the page says so. It shows the text that follows and, at the end, the complete text.
func TestMissingTextIsShown(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const r = "web:s1:m0"
	f, p := talk(t)
	f.listened()
	f.emit("stream.start", object{"requestId": r})
	f.emit("stream.gap", object{"requestId": r, "topic": "out.req." + r, "message": "gone"})
	f.text(r, "three ", 8)
	f.text(r, "four", 14)
	p.Shows("#transcript .answer", "three four")
	p.Shows("#transcript .note", "Part of this answer is missing. The complete text appears when the answer ends.")
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

func TestLongAnswerIsRenderedInSectionsAndFinallyAsAWhole(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
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

// A word that follows a space must stay separated from the word before, even before it is rendered.
func TestTrailingSpaceIsKept(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const r = "web:s1:m0"
	f, p := talk(t)
	f.listened()
	f.emit("stream.start", object{"requestId": r})
	f.text(r, "one two ", 0)
	p.Until("it is rendered", "document.querySelector('.md p')")
	p.Until("the space stands at its end", "document.querySelector('.md p').textContent === 'one two '")
}

// A table keeps the column alignment that the model chose and does not break words. A table that is wider
// than the page scrolls.
func TestWideTableScrolls(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.conversation("Talk")
	head, row := "", ""
	for i := range 12 {
		head += fmt.Sprintf("<th>Measurement%d</th>", i)
		row += fmt.Sprintf(`<td align="right">%d</td>`, i)
	}
	f.set(func() {
		f.messages = []object{{
			"id": "a0", "requestId": "web:s1:m0", "role": "assistant", "content": "a table", "createdAt": 1,
			"html": "<table><thead><tr>" + head + "</tr></thead><tbody><tr>" + row + "</tr></tbody></table><table><tr><td>שלום</td></tr></table>",
		}}
	})
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	p.Until("the table is there", "document.querySelector('.md td')")
	p.Until("its words are whole", "[...document.querySelectorAll('.md tr')].every(e => e.clientHeight < 45)")
	p.Until("it is scrolled, and the page is not", "document.querySelector('.md .wide').scrollWidth > document.querySelector('.md .wide').clientWidth && document.getElementById('scroll').scrollWidth <= document.getElementById('scroll').clientWidth")
	p.Until("numbers are aligned", "getComputedStyle(document.querySelector('.md td')).textAlign.endsWith('right') && getComputedStyle(document.querySelector('.md th')).textAlign === 'start'")
	p.Until("one in Hebrew stands at the right", "(t => t.getBoundingClientRect().right === t.parentElement.getBoundingClientRect().right)([...document.querySelectorAll('.md table')].at(-1))")
	p.Picture("table", false)
}

// Arabic and Hebrew text is written from right to left, even while it is streamed. English text beside it
// is written from left to right.
func TestAnswerHasTheDirectionOfItsText(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const r, direction = "web:s1:m0", "getComputedStyle(document.querySelector(%q)).direction === %q"
	f, p := talk(t)
	f.listened()
	p.Say("שלום, world!")
	f.emit("session.message_applied", object{"messageId": "m1", "requestId": r, "queue": "prompt"})
	p.Shows("#transcript .words", "שלום, world!")
	p.Until("the question is written from the right", fmt.Sprintf(direction, "#transcript .words", "rtl"))
	const said = "مرحبا 123!\n\n- أول.\n\nHello.\n\n    # مرحبا"
	f.emit("stream.start", object{"requestId": r})
	f.text(r, said, 0)
	for _, over := range []bool{false, true} {
		if over {
			f.emit("stream.completed", object{"requestId": r, "content": said, "usage": nil})
			p.Until("it is over", "document.querySelector('.request').dataset.state === 'done' && !document.querySelector('.md .piece')")
		}
		p.Until("it is rendered", "document.querySelector('.md pre')")
		for selector, want := range map[string]string{".md p": "rtl", ".md li": "rtl", ".md ul ~ p": "ltr", ".md pre": "ltr"} {
			p.Until(selector+" is "+want, fmt.Sprintf(direction, selector, want))
		}
	}
}

func TestPromptIsRetriedAndAcceptedOnce(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.conversation("Talk")
	f.set(func() { f.dropAnswers = 2 })
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	p.Say("hello")
	p.Shows("#outbox .fate", "Queued, next in line")
	f.set(func() {
		if len(f.prompts) != 1 || f.dropAnswers != 0 {
			t.Errorf("%d prompts were accepted, %d answers were still to be lost", len(f.prompts), f.dropAnswers)
		}
	})
	p.Do(chromedp.Reload())
	p.Shows("#outbox .words", "hello")
}

// A message that was sent after the conversation was opened has a link, too.
func TestMessageThatWasJustSentIsFound(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const r = "web:s1:m1"
	f, p := talk(t)
	f.listened()
	p.Say("hello")
	f.until("it was sent", func() bool { return len(f.prompts) == 1 })
	f.emit("stream.start", object{"requestId": r})
	f.emit("session.message_applied", object{"messageId": "m1", "requestId": r, "queue": "prompt"})
	f.text(r, "Good day.", 0)
	f.emit("stream.completed", object{"requestId": r, "content": "Good day.", "usage": nil})
	p.Click(".about a:nth-of-type(2)")
	p.Until("the question is shown", "location.hash === '#/s/s1/m/m1' && document.activeElement.dataset.message === 'm1'")
	f.set(func() {
		f.messages = []object{
			{"id": "m1", "requestId": r, "role": "user", "content": "hello", "createdAt": 1},
			{"id": "a1", "requestId": r, "role": "assistant", "content": "Good day.", "createdAt": 2},
		}
	})
	p.To("#/s/s1/m/a1")
	p.Until("the answer is shown", "document.activeElement.dataset.message === 'a1'")
	p.Until("nothing is wrong", "document.getElementById('problem').hidden")

	// If a user follows two links quickly, the second one wins.
	const gone = "This message is no longer in the conversation."
	p.Do(chromedp.Evaluate[chromedp.Void]("window.said = []; new MutationObserver(() => window.said.push(document.getElementById('problem').textContent)).observe(document.getElementById('problem'), { childList: true })"))
	held := make(chan struct{})
	f.set(func() { f.held = held })
	p.To("#/s/s1/m/nowhere")
	p.To("#/s/s1/m/gone")
	f.until("both are looked for", func() bool { return f.waiting == 2 })
	close(held)
	p.Shows("#problem", gone)
	p.Until("nothing else is said", fmt.Sprintf("window.said.every(e => !e || e === %q)", gone))
}

func TestFailuresAreShownInPlainWords(t *testing.T) {
	t.Parallel()
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
	p.Shows("#outbox .fate", "Content is not liked today.")
	p.Picture("failures", true)
	p.Click("#outbox button")
	p.Until("the words come back", "document.getElementById('text').value === 'refuse me' && !document.querySelector('#outbox > *')")
	f.set(func() { f.signedOut = true })
	p.Do(chromedp.Reload())
	p.Until("how to sign in is said", "document.getElementById('problem').innerText.includes('lilac serve')")
}

func TestAConversationIsDeletedAfterAQuestionAndWithTheKeyboard(t *testing.T) {
	t.Parallel()
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

// The message that a conversation is busy disappears when the conversation is stopped.
func TestFailedAndRemoteDeletionsAreHandled(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f, p := talk(t)
	f.listened()
	f.set(func() { f.refuseDeletion = "The conversation is at work. Stop it first, then delete it." })
	f.emit("stream.start", object{"requestId": "web:s1:m0"})
	p.Click("#list a[aria-current=page] + button")
	p.Click("#ask-yes")
	p.Shows("#problem", "The conversation is at work. Stop it first, then delete it.")
	p.Click("#stop")
	p.Until("it is stopped, and nothing is wrong", "document.getElementById('problem').hidden")
	f.set(func() { f.sessions = nil })
	f.emit("session.deleted", object{})
	p.Shows("#problem", "This conversation was deleted. Choose another one, or start a new one.")
}

// A conversation takes the keyboard focus when it has loaded only if the user has not moved the focus
// meanwhile.
func TestTheKeyboardStaysInTheListWhileAConversationIsLoaded(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
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

// A draft stays in its conversation when another conversation is shown.
func TestDraftStaysInItsConversation(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.conversation("Old things")
	f.conversation("New things")
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	f.listened()
	written := func(text string) string {
		return fmt.Sprintf("document.getElementById('text').value === %q", text)
	}
	p.Do(chromedp.SendKeys("#text", "only for the old ones"))
	p.To("#/s/s2")
	p.Until("nothing was written in the other one", "document.getElementById('title').innerText === 'New things' && "+written(""))
	p.Say("refuse me")
	p.Shows("#outbox .fate", "Content is not liked today.")
	p.To("#/requests")
	p.To("#/s/s1")
	p.Until("it is there again", written("only for the old ones"))
	p.To("#/s/s2")
	p.Until("what was refused is there again", written("refuse me"))

	const restore = "new MutationObserver((_, all) => { const e = document.getElementById('text'); if (e) { e.value = 'from before'; all.disconnect(); } }).observe(document, { childList: true, subtree: true })"
	p.Before(restore, f.url("?again#/s/s1"))
	p.Shows("#title", "Old things")
	p.Until("what the browser has kept over a reload stays", written("from before"))
}

func TestFilesGoWithTheMessage(t *testing.T) {
	t.Parallel()
	f, p := talk(t)
	file := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(file, []byte("hello"), 0o644); err != nil {
		t.Fatal(err)
	}
	p.Do(chromedp.SetUploadFiles("#picker", []string{file}))
	p.Until("the file is listed", "document.querySelector('#files li')?.innerText.includes('notes.txt')")
	p.Say("read this")
	p.Until("the message shows it", "document.querySelector('#outbox .sent')?.innerText.includes('notes.txt')")
	p.Shows("#outbox .fate", "Queued, next in line")
	got, _ := json.Marshal(f.prompts[0]["attachments"])
	if want := `[{"dataBase64":"aGVsbG8=","filename":"notes.txt","mimeType":"text/plain"}]`; string(got) != want {
		t.Errorf("the attachments were %s, want %s", got, want)
	}
	if strings.Contains(string(got), "path") {
		t.Error("a path left the machine")
	}
}
