package webui_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

func TestARequestAtALimitAsksAndIsAnswered(t *testing.T) {
	t.Parallel()
	const r, question = "web:s1:m0", "50 steps are used. Go on with 50 more? Say continue or stop."
	f, p := talk(t)
	f.listened()
	f.emit("stream.start", object{"requestId": r})
	f.text(r, question, 0)
	f.emit("session.paused", object{"requestId": r, "pause": 1, "question": question, "until": 1_760_000_000_000})
	p.Until("it asks", "document.querySelector('.limit')?.innerText.includes('Paused at a limit')")
	p.Until("a screen reader hears the question", fmt.Sprintf("document.getElementById('live').textContent === %q", question))
	p.Shows("#hint", "Lilac waits for your answer: continue or stop. It reads other messages when it continues.")
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
	p.Shows("#hint", "Lilac is working. It reads your message at the next step.")
}

// paused opens a conversation whose request r is paused. The response that has the question is sent
// when late is closed.
func paused(t *testing.T, r string) (f *fake, p *webuitest.Tab, late chan struct{}) {
	f, late = newFake(t), make(chan struct{})
	f.conversation("Talk")
	f.set(func() {
		f.running = []string{r}
		f.sessions[0]["activeRequest"], f.sessions[0]["paused"] = r, object{"number": 1, "question": "Go on?", "until": 1_760_000_000_000}
		f.sessions[0]["branch"] = object{"of": "s0", "at": "m0"}
		f.late = map[string]chan struct{}{"GET /sessions/{id}": late}
	})
	f.emit("stream.start", object{"requestId": r})
	p = webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	f.until("the conversation is asked for", func() bool { return f.waiting == 1 })
	return f, p, late
}

// A question that a background task asks meanwhile does not hide that of the conversation's request.
func TestALateAnswerBringsItsQuestion(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f, p, late := paused(t, "web:s1:m0")
	f.emit("session.paused", object{"requestId": "sub:sub-1:t1", "pause": 1, "question": "The task asks.", "until": 1_760_000_000_000})
	p.Until("the task's question has come", "document.getElementById('live').textContent === 'The task asks.'")
	close(late)
	p.Until("the request asks", "document.querySelector('#transcript .limit')?.innerText.includes('Paused at a limit')")
}

// An answer of the server that is older than an event does not bring a question back.
func TestALateAnswerBringsNoQuestionBack(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const r = "web:s1:m0"
	f, p, late := paused(t, r)
	f.emit("session.paused", object{"requestId": r, "pause": 1, "question": "Go on?", "until": 1_760_000_000_000})
	p.Until("it asks", "document.querySelector('.limit')")
	f.emit("session.resumed", object{"requestId": r, "pause": 1, "answer": "continue"})
	p.Until("it asks no more", "!document.querySelector('.limit')")
	close(late)
	p.Until("the late answer is there", "document.querySelector('#branches').children.length > 0")
	f.text(r, "It goes on.", 0)
	p.Until("the page has drawn since", "document.querySelector('.answer')?.innerText.includes('It goes on.')")
	if webuitest.Eval[bool](p, "Boolean(document.querySelector('.limit'))") {
		t.Error("the page asks again, although the question was answered")
	}
}

func TestACallThatNeedsApprovalIsShownAndAnswered(t *testing.T) {
	const r = "web:s1:m0"
	f, p := talk(t)
	f.listened()
	f.emit("stream.start", object{"requestId": r})
	f.emit("session.paused", object{
		"requestId": r, "pause": 1, "kind": "approval", "question": "May I call bash?", "until": 1_760_000_000_000,
		"call": object{"tool": "bash", "input": `{"command":"<b>ls</b>"}`, "bytes": 23, "hash": "abc123"},
	})
	p.Until("it shows the call", "document.querySelector('.limit pre')?.innerText.includes('<b>ls</b>') && document.querySelector('.limit').innerText.includes('abc123')")
	p.Shows("#hint", "Lilac waits for your answer: once, always here or no. It reads other messages when it continues.")
	p.Click(".limit .danger")
	f.until("it was told no", func() bool { return slices.Equal(f.answers, []string{"no " + r}) })
	f.emit("session.resumed", object{"requestId": r, "pause": 1, "answer": "no"})
	f.emit("session.paused", object{"requestId": r, "pause": 2, "kind": "question", "question": "Which color?", "choices": []string{"red", "blue"}, "until": 1_760_000_000_000})
	p.Until("it asks", "document.querySelector('.limit .asked')?.innerText === 'Which color?'")
	p.Click(".limit .actions button:nth-child(2)")
	f.until("it was told the choice", func() bool { return slices.Equal(f.answers, []string{"no " + r, "reply " + r + " blue"}) })
}

// A background task's question is in the conversation that started the task, also after a reload.
func TestATaskAsksInItsConversation(t *testing.T) {
	t.Parallel()
	const r = "sub:sub-1:t1"
	f, p := talk(t)
	f.listened()
	asked := object{"taskId": "t1", "description": "the <b>tests</b>", "requestId": r, "paused": object{
		"number": 1, "kind": "approval", "question": "May I call write?", "until": 1_760_000_000_000, "call": object{"tool": "write", "input": `{"path":"f.txt"}`, "bytes": 16, "hash": "abc123"},
	}}
	f.set(func() { f.sessions[0]["questions"] = []object{asked} })
	f.emit("session.paused", object{"requestId": r, "pause": 1, "kind": "approval", "question": "The task asks: May I call write?", "until": 1_760_000_000_000})
	p.Until("it asks", "document.querySelector('#asks .limit pre')?.innerText.includes('f.txt') && document.querySelector('#asks a').innerText === 'the <b>tests</b>'")
	p.Picture("task-asks", false)
	p.Do(chromedp.Reload())
	p.Until("it asks after a reload too", "document.querySelector('#asks a')?.hash === '#/tasks/t1'")
	p.Click("#asks .strong")
	f.until("it was told once", func() bool { return slices.Equal(f.answers, []string{"once " + r}) })
	f.set(func() { delete(f.sessions[0], "questions") })
	f.emit("session.resumed", object{"requestId": r, "pause": 1, "answer": "once"})
	p.Until("it asks no more", "!document.querySelector('#asks .limit')")
}
