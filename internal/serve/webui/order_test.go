package webui_test

import (
	"maps"
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

// order returns the contents of the newest request, from top to bottom.
const order = "[...[...document.querySelectorAll('.request')].at(-1)?.querySelectorAll('.blocks > *') ?? []].map(e => (e.querySelector('.words') ?? e.querySelector('summary') ?? e).innerText.replace(/\\s+/g, ' ').trim()).join('|')"

// If a model fails in the middle of a step, the retry can produce less text than before. A message that was
// read after that text stays in its place, even after the page is reloaded.
func TestMessageIsAfterRepeatedText(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const r = "web:s1:m0"
	f := newFake(t)
	f.conversation("Failures")
	f.set(func() {
		f.running = []string{r}
		f.messages = []object{
			{"id": "m0", "requestId": r, "role": "user", "content": "go", "createdAt": 1},
			{"id": "a1", "requestId": r, "role": "assistant", "content": "one two", "createdAt": 1},
			{"id": "m1", "requestId": r, "role": "user", "content": "hello", "createdAt": 1},
		}
	})
	f.emit("stream.start", object{"requestId": r})
	f.text(r, "one two three four", 0)
	f.text(r, "", 0)
	f.text(r, "one two", 0)
	f.text(r, "\n\nfive", 7)
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	p.Until("it stands there", order+" === 'go|one two|hello|five'")
}

// The event that a message was read can arrive before the event of a tool that ran earlier, and even before
// the text before that tool.
func TestMessageIsAfterATool(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	for name, spoken := range map[string]bool{"its words were here": true, "nothing was": false} {
		t.Run(name, func(t *testing.T) {
			const r = "web:s1:m0"
			f, p := talk(t)
			f.listened()
			f.emit("stream.start", object{"requestId": r})
			p.Until("it runs", "!document.getElementById('running').hidden")
			if spoken {
				f.text(r, "one", 0)
				p.Shows("#transcript .answer", "one")
			}
			p.Say("hello")
			p.Shows("#outbox .fate", "Waiting for the next step…")
			f.set(func() {
				f.running = []string{r}
				f.messages = []object{
					{"id": "m0", "requestId": r, "role": "user", "content": "go", "createdAt": 1},
					{"id": "a1", "requestId": r, "role": "assistant", "createdAt": 1, "content": []object{
						{"type": "text", "text": "one"},
						{"type": "tool-call", "toolCallId": "c1", "toolName": "bash", "input": object{"command": "ls"}},
					}},
					{"id": "t1", "requestId": r, "role": "tool", "createdAt": 1, "content": []object{
						{"type": "tool-result", "toolCallId": "c1", "toolName": "bash", "output": object{"type": "text", "value": "a.txt"}},
					}},
					{"id": "m1", "requestId": r, "role": "user", "content": "hello", "createdAt": 1},
				}
			})
			f.emit("session.message_applied", object{"messageId": "m1", "requestId": r, "queue": "steer", "offset": 3})
			if spoken {
				p.Until("it was read", "document.querySelector('#transcript .fate')")
			} else {
				p.Until("it was read", "!document.querySelector('#outbox .fate')")
				f.text(r, "one", 0)
			}
			f.emit("stream.tool_call", object{"requestId": r, "toolCallId": "c1", "name": "bash", "status": "start", "display": "bash: ls"})
			f.emit("stream.tool_call", object{"requestId": r, "toolCallId": "c1", "name": "bash", "status": "end", "ok": true})
			f.text(r, "\n\ntwo", 3)
			p.Until("it stands there", order+".replace(/✓.*?\\|/, 'tool|') === 'go|one|tool|hello|two'")
		})
	}
}

// A tool call that was stopped before it started is only in the stored messages. A message that was read
// after it does not wait for it, and the call is shown in the end.
func TestMessageIsAfterAToolThatNeverRan(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const r = "web:s1:m0"
	f := newFake(t)
	f.conversation("Stops")
	call := func(id string) object {
		return object{"type": "tool-call", "toolCallId": id, "toolName": "bash", "input": object{"command": "ls"}}
	}
	result := func(id string) object {
		return object{"type": "tool-result", "toolCallId": id, "toolName": "bash", "output": object{"type": "error-text", "value": "stopped"}}
	}
	f.set(func() {
		f.running = []string{r}
		f.messages = []object{
			{"id": "m0", "requestId": r, "role": "user", "content": "go", "createdAt": 1},
			{"id": "a1", "requestId": r, "role": "assistant", "createdAt": 1, "content": []object{{"type": "text", "text": "one"}, call("c1"), call("c2")}},
			{"id": "t1", "requestId": r, "role": "tool", "createdAt": 1, "content": []object{result("c1"), result("c2")}},
			{"id": "m1", "requestId": r, "role": "user", "content": "hello", "createdAt": 1},
		}
	})
	f.emit("stream.start", object{"requestId": r})
	f.text(r, "one", 0)
	f.emit("stream.tool_call", object{"requestId": r, "toolCallId": "c1", "name": "bash", "status": "start", "display": "ls"})
	f.emit("stream.tool_call", object{"requestId": r, "toolCallId": "c1", "name": "bash", "status": "end", "ok": false, "display": "ls"})
	f.text(r, "\n\ntwo", 3)
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	const tools = order + ".replace(/✕[^|]*/g, 'tool')"
	p.Until("it stands there", tools+" === 'go|one|tool|hello|two'")
	f.set(func() {
		f.running = nil
		f.messages = append(f.messages, object{"id": "a2", "requestId": r, "role": "assistant", "content": "two", "createdAt": 1})
	})
	f.emit("stream.completed", object{"requestId": r, "content": "one\n\ntwo"})
	p.Until("so does the call", tools+" === 'go|one|tool|tool|hello|two'")
}

// The stream reports a tool call that was stopped before it started only by its end. The page shows it as
// it does after a reload, and messages that were read after it are shown below it.
func TestToolCallThatNeverRanIsShownAsAfterAReload(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const r = "web:s1:m0"
	f, p := talk(t)
	f.listened()
	told := func(id, status string, more object) {
		e := object{"requestId": r, "toolCallId": id, "name": "bash", "status": status, "args": object{"command": "ls"}, "display": "bash: ls"}
		maps.Copy(e, more)
		f.emit("stream.tool_call", e)
	}
	f.emit("user_query", object{"messageId": "m0", "requestId": r, "content": "go", "queue": "prompt"})
	f.emit("session.message_applied", object{"messageId": "m0", "requestId": r, "queue": "prompt", "offset": 0})
	f.emit("stream.start", object{"requestId": r})
	f.text(r, "one", 0)
	told("c1", "start", nil)
	stopped := object{"ok": false, "output": "stopped", "error": "stopped"}
	told("c1", "end", stopped)
	told("c2", "end", stopped)
	f.emit("user_query", object{"messageId": "m1", "requestId": r, "content": "hello", "queue": "interrupt"})
	f.emit("session.message_applied", object{"messageId": "m1", "requestId": r, "queue": "interrupt", "offset": 3})
	f.text(r, "\n\ntwo", 3)
	const tools = order + ".replace(/✕[^|]*/g, 'tool')"
	const inside = "[...document.querySelectorAll('.tool')].map(e => e.textContent + e.dataset.status).join('|')"
	p.Until("both calls are there", tools+" === 'go|one|tool|tool|hello|two'")
	live := webuitest.Eval[string](p, inside)
	call := func(id string) object {
		return object{"type": "tool-call", "toolCallId": id, "toolName": "bash", "input": object{"command": "ls"}}
	}
	result := func(id string) object {
		return object{"type": "tool-result", "toolCallId": id, "toolName": "bash", "output": object{"type": "error-text", "value": "stopped"}}
	}
	f.set(func() {
		f.messages = []object{
			{"id": "m0", "requestId": r, "role": "user", "content": "go", "createdAt": 1},
			{"id": "a1", "requestId": r, "role": "assistant", "createdAt": 1, "content": []object{{"type": "text", "text": "one"}, call("c1"), call("c2")}},
			{"id": "t1", "requestId": r, "role": "tool", "createdAt": 1, "content": []object{result("c1"), result("c2")}},
			{"id": "m1", "requestId": r, "role": "user", "content": "hello", "createdAt": 1},
			{"id": "a2", "requestId": r, "role": "assistant", "content": "two", "createdAt": 1},
		}
	})
	p.Do(chromedp.Reload())
	p.Until("they are after a reload", tools+" === 'go|one|tool|tool|hello|two'")
	if stored := webuitest.Eval[string](p, inside); stored != live {
		t.Errorf("live it was %q, after a reload it is %q", live, stored)
	}
}

// Messages that were read at the same point keep the order in which they were read, even if the page learns
// last which of them started the request.
func TestMessagesKeepTheOrderInWhichTheyWereApplied(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const r = "web:s1:m0"
	f := newFake(t)
	f.conversation("Talk")
	p := webuitest.Open(t, "about:blank", 1000, 700)
	p.Before(gateJS, f.url("#/s/s1"))
	f.listened()
	f.emit("stream.start", object{"requestId": r})
	f.text(r, "one", 0)
	p.Shows("#transcript .answer", "one")
	sent := shut(p, "POST .*/prompt", true)
	p.Say("first")
	sent.holds(1)
	for i, id := range []string{"m1", "m2", "m3"} {
		if i > 0 {
			f.emit("user_query", object{"messageId": id, "requestId": r, "content": "then " + id, "queue": "steer"})
		}
		f.emit("session.message_applied", object{"messageId": id, "requestId": r, "queue": "steer", "offset": 3})
	}
	p.Until("the others were read", order+" === 'one|then m2|then m3'")
	// The page does not know that the first one is its own. It waits for the answer to it.
	p.Do(chromedp.Evaluate[chromedp.Void]("window.read = performance.now(); 0"))
	p.Until("a reload of the messages would have begun", "performance.now() > window.read + 600")
	sent.release()
	p.Until("the first stands before them", order+" === 'one|first|then m2|then m3'")
	f.text(r, "\n\ntwo", 3)
	p.Until("the answer goes on behind them", order+" === 'one|first|then m2|then m3|two'")
	f.set(func() {
		if f.loads != 1 {
			t.Errorf("the messages were loaded %d times; want once", f.loads)
		}
	})
}

// A message that was read after the messages were stored is shown below them. It waits for the text before
// it.
func TestMessageIsAfterStoredMessages(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const r = "web:s1:m0"
	f := newFake(t)
	f.conversation("Talk")
	f.set(func() {
		f.running = []string{r}
		f.messages = []object{
			{"id": "m0", "requestId": r, "role": "user", "content": "go", "createdAt": 1},
			{"id": "a1", "requestId": r, "role": "assistant", "content": "one", "createdAt": 1},
			{"id": "m1", "requestId": r, "role": "user", "content": "first", "createdAt": 1},
		}
	})
	f.emit("stream.start", object{"requestId": r})
	f.text(r, "one", 0)
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	f.listened()
	p.Until("the words are there", order+".startsWith('go|one')")
	f.emit("user_query", object{"messageId": "m2", "requestId": r, "content": "then", "queue": "steer"})
	f.emit("session.message_applied", object{"messageId": "m2", "requestId": r, "queue": "steer", "offset": 3})
	p.Until("both are there", order+" === 'go|one|first|then'")
	f.text(r, "\n\ntwo", 3)
	p.Until("the answer goes on behind them", order+" === 'go|one|first|then|two'")
}

// Text can arrive before the page knows which message it answers. It is shown below that message, even if
// the text is retracted and repeated.
func TestFirstMessageIsAboveRepeatedText(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const r = "web:s1:m1"
	f, p := talk(t)
	f.listened()
	p.Say("hello")
	p.Shows("#outbox .fate", "Queued, next in line")
	f.emit("stream.start", object{"requestId": r})
	f.text(r, "I", 0)
	p.Shows("#transcript .answer", "I")
	f.emit("session.message_applied", object{"messageId": "m1", "requestId": r, "queue": "prompt", "offset": 0})
	p.Until("it stands above", order+" === 'hello|I'")
	f.text(r, "", 0)
	f.text(r, "I am here", 0)
	p.Until("it still does", order+" === 'hello|I am here'")
}
