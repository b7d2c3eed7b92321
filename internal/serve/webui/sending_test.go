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

// written returns a condition that holds if the message box contains exactly this text.
func written(text string) string {
	return fmt.Sprintf("document.getElementById('text').value === %q", text)
}

// The first message of a new conversation arrives in it, whatever the user opens while the conversation is
// being created.
func TestTheFirstMessageArrivesInItsConversationAlsoWhenAnotherOneIsOpened(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
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

// If a conversation cannot be created, the message returns to the message box of a new conversation and to
// no other.
func TestAFirstMessageThatCannotBeSentComesBackToANewConversation(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
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

// The message box shows all lines of a draft also after the window became narrower, the text larger, or
// a message came back while another view was shown.
func TestTheMessageBoxShowsTheWholeDraft(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	p := webuitest.Open(t, "about:blank", 1000, 700)
	p.Before(gateJS, f.url(""))
	f.streaming()
	const whole = "(({ clientHeight, scrollHeight }) => clientHeight > 20 && clientHeight >= scrollHeight)(document.getElementById('text'))"
	p.Do(chromedp.Focus("#text"), chromedp.SendKeys("#text", strings.Repeat("some words ", 3)))
	p.Until("the box has one line", whole+" && document.getElementById('text').clientHeight < 50")
	p.Resize(390, 700)
	p.Until("it has more lines", whole+" && document.getElementById('text').clientHeight > 50")
	p.Do(chromedp.Evaluate[chromedp.Void]("document.documentElement.dataset.text = 'largest'"))
	p.Until("it has room for larger ones", whole+" && document.getElementById('text').clientHeight > 70")

	made := shut(p, "POST /sessions$", false)
	p.Press("Enter")
	p.To("#/health")
	p.Shows("#title", "Health")
	f.set(func() { f.signedOut = true })
	made.release()
	p.Until("the message came back", "document.getElementById('text').value")
	p.To("#/")
	p.Until("it is shown", whole)
}

// The stop button stops the request that is shown when the user presses it, however late the server
// receives the call.
func TestStopNamesTheRequestThatIsShown(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const first, second = "web:s1:m1", "web:s1:m2"
	f := newFake(t)
	f.conversation("Talk")
	p := webuitest.Open(t, "about:blank", 1000, 700)
	p.Before(gateJS, f.url("#/s/s1"))
	f.listened()
	p.Say("one")
	p.Shows("#outbox .fate", "Queued, next in line")
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

// A text that exceeds the message limit is not truncated. It stays in the box, and the page says what to
// do.
func TestALongTextIsNotCut(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f, p := talk(t)
	f.listened()
	const long = "document.getElementById('text').value.length === (1 << 20) + 1"
	p.Until("nothing is cut", "document.getElementById('text').maxLength === -1")
	// Hidden text needs no layout, which would take a long time.
	p.Do(chromedp.Evaluate[chromedp.Void]("document.getElementById('text').style.display = 'none'; document.getElementById('text').value = 'x'.repeat((1 << 20) + 1); document.getElementById('composer').requestSubmit()"))
	p.Shows("#problem", "A message has at most 1 MB of text. Attach longer text as a file.")
	p.Until("it is there", long)
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.prompts) > 0 {
		t.Error("it was sent")
	}
}

// A truncated title ends between characters as the user sees them (grapheme clusters).
func TestATitleIsNotCutInsideAnEmoji(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	for said, want := range map[string]string{
		strings.Repeat("a", 58) + "👩‍👩‍👧 and more": strings.Repeat("a", 58) + "…",
		strings.Repeat("b", 61):                    strings.Repeat("b", 59) + "…",
		strings.Repeat("c", 60):                    strings.Repeat("c", 60),
	} {
		f := newFake(t)
		p := webuitest.Open(t, f.url(""), 1000, 700)
		p.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.getElementById('text').value = %q; document.getElementById('composer').requestSubmit()", said)))
		p.Shows("#list a", want)
	}
}

// readJS holds back the reading of files until the test calls read() or fail().
const readJS = `{
	const real = FileReader.prototype.readAsDataURL;
	const waiting = [];
	FileReader.prototype.readAsDataURL = function (file) { waiting.push([() => real.call(this, file), () => this.onerror()]); };
	window.read = () => waiting.splice(0).forEach(([read]) => read());
	window.fail = () => waiting.splice(0).forEach(([, fail]) => fail());
}`

// A file belongs to the message and conversation for which it was chosen, even if reading it takes a while.
func TestMessageWaitsForItsFilesToLoad(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.conversation("One")
	f.conversation("Two")
	p := webuitest.Open(t, "about:blank", 1000, 700)
	p.Before(readJS, f.url("#/s/s1"))
	f.listened()
	read := func(how string) { p.Do(chromedp.Evaluate[chromedp.Void]("window." + how + "()")) }
	attach(t, p, "secret.txt")
	p.Shows("#files em", "loading…")
	p.To("#/s/s2")
	p.Until("it is not in another conversation", "document.getElementById('title').innerText === 'Two' && !document.querySelector('#files li')")
	read("read")
	attach(t, p, "other.txt") // files are read in order, so this also reads the first one
	read("read")
	p.Until("only the second one is there", "[...document.querySelectorAll('#files li')].map(e => e.innerText.trim().replace(/\\s*✕/, '')).join() === 'other.txt'")
	p.To("#/s/s1")
	p.Until("the first one is where it was chosen", "document.querySelector('#files').innerText.includes('secret.txt') && !document.querySelector('#files em')")
	attach(t, p, "late.txt")
	p.Say("see both")
	p.Shows("#outbox .fate", "Sending…")
	read("read")
	f.until("it was sent", func() bool { return len(f.prompts) == 1 })
	f.set(func() {
		if files, _ := f.prompts[0]["attachments"].([]any); len(files) != 2 {
			t.Errorf("it was sent with %v", files)
		}
	})
	attach(t, p, "gone.txt")
	p.Say("and this")
	read("fail")
	p.Shows("#outbox .fate", "The file “gone.txt” cannot be read. Attach it again.")
	attach(t, p, "gone.txt")
	read("fail")
	p.Shows("#files em", "unreadable")
}

// A message that is withdrawn before the agent reads it is no longer queued. That holds for a prompt, whose
// request is stopped, and for a follow-up, which ends with its request.
func TestWithdrawnMessageLeavesTheQueue(t *testing.T) {
	t.Parallel()
	const r = "web:s1:m0"
	f, p := talk(t)
	f.listened()
	f.emit("stream.start", object{"requestId": r})
	f.text(r, "one", 0)
	p.Shows("#transcript .answer", "one")
	f.emit("user_query", object{"messageId": "m1", "requestId": r, "content": "after it", "queue": "followUp"})
	f.emit("user_query", object{"messageId": "m2", "requestId": "web:s1:m2", "content": "apart", "queue": "prompt"})
	p.Until("both wait", "document.querySelectorAll('#outbox > *').length === 2")
	f.set(func() {
		f.requests = []object{{"id": "web:s1:m2", "state": "cancelled"}, {"id": r, "state": "running"}}
	})
	f.emit("stream.completed", object{"requestId": "web:s1:m2", "content": "", "cancelled": true})
	p.Until("the prompt waits no more", "document.querySelector('#outbox').innerText.includes('after it') && document.querySelectorAll('#outbox > *').length === 1")
	f.set(func() {
		f.requests = []object{{"id": "web:s1:m2", "state": "cancelled"}, {"id": r, "state": "cancelled"}}
	})
	f.emit("stream.completed", object{"requestId": r, "content": "one", "cancelled": true})
	p.Until("nor does what was for the other", "!document.querySelector('#outbox > *')")
}
