package webui_test

import (
	"slices"
	"testing"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

// Messages from rules and workflows must not look like messages from a user.
func TestSystemMessagesAreFolded(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.conversation("Talk")
	f.set(func() {
		f.messages = []object{
			{"id": "01m0", "requestId": "web:s1:m0", "role": "user", "content": "wait for it", "createdAt": 1},
			{"id": "env-af2/3", "requestId": "web:s1:m0", "role": "user", "content": "The rule is about the event above.\nProcess event: build.done", "createdAt": 2},
			{"id": "wf-w1-1", "requestId": "wf:w1:1", "role": "system", "content": "You are woken by the workflow w1.", "createdAt": 3},
			{"id": "wf-w1-1/1", "requestId": "wf:w1:1", "role": "user", "content": "The time has come: tea", "createdAt": 3},
		}
	})
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	p.Shows("#transcript .bubble .words", "wait for it")
	p.Until("the others are folded", "document.querySelectorAll('#transcript .bubble').length === 1 && [...document.querySelectorAll('#transcript details:not([open]) .what')].map(e => e.innerText).join('|') === 'The rule is about the event above. Process event: build.done|You are woken by the workflow w1.|The time has come: tea'")
	p.Picture("told", false)
	p.Click("#transcript details summary")
	p.Shows("#transcript details .words", "The rule is about the event above.\nProcess event: build.done")
}

// An event is one quiet line with a link, whatever its rule told the agent. A person who writes
// the same words is shown as a person.
func TestAnEventIsOneLine(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.conversation("Talk")
	event := func(id, rule, kind, result string) []object {
		r := "env:s1:" + id
		return []object{
			{"id": id, "requestId": r, "role": "system", "content": "You are an expert for secrets.", "createdAt": 1},
			{"id": id + "/1", "requestId": r, "role": "user", "content": "Observed event: " + kind + "\nEvent ID: \"x\"\n", "createdAt": 1},
			{"id": id + "/2", "requestId": r, "role": "assistant", "content": []object{{"type": "tool-call", "toolCallId": "c" + id, "toolName": "get_event_info", "input": object{}}}, "createdAt": 1},
			{"id": id + "/3", "requestId": r, "role": "tool", "content": []object{{"type": "tool-result", "toolCallId": "c" + id, "toolName": "get_event_info", "output": object{"type": "text", "value": result}}}, "createdAt": 1},
			{"id": id + "/4", "requestId": r, "role": "user", "content": "The operator's rule " + rule + " is about the event above.\n\nKeep it secret.", "createdAt": 1},
			{"id": id + "a", "requestId": r, "role": "assistant", "content": "Noted.", "createdAt": 1},
		}
	}
	f.set(func() {
		f.messages = slices.Concat(
			event("env-1", `"background_task"`, "background_task.failed", `{"event_type":"background_task.failed","payload":{"description":"the tests"}}`),
			event("env-2", `"a \"b\""`, "webhook.received", "not JSON"),
			[]object{
				{"id": "01m0", "requestId": "web:s1:m0", "role": "user", "content": "Observed event: x", "createdAt": 2},
				{"id": "01m1", "requestId": "web:s1:m0", "role": "user", "content": "The operator's rule \"y\" is mine", "createdAt": 2},
			})
	})
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	p.Until("each event is a line", "[...document.querySelectorAll('#transcript p.note')].map(e => e.innerText).join('|') === 'The task “the tests” failed · rule background task|Event webhook.received · rule a \"b\"'")
	p.Until("it leads to its request", "document.querySelector('#transcript p.note a').getAttribute('href') === '#/requests/env%3As1%3Aenv-1'")
	p.Until("nothing of the prompts is shown", "!['secret', 'Observed event: web', 'get_event_info'].some(w => document.body.innerText.includes(w)) && document.querySelectorAll('#transcript .answer').length === 2")
	p.Until("a person's words are a person's", "document.querySelectorAll('#transcript .bubble').length === 2")
}
