package webui_test

import (
	"fmt"
	"testing"
	"time"

	"lilac/internal/testkit/webuitest"
)

// hostile is text that a user, a model, a tool or an event could contain.
const hostile = `</pre><img src=x onerror="window.hacked=1"><svg onload="window.hacked=1"><a href="javascript:window.hacked=1">x</a>` + "\u202e"

// talk opens an empty conversation.
func talk(t *testing.T) (*fake, *webuitest.Tab) {
	t.Helper()
	f := newFake(t)
	f.conversation("Talk")
	return f, webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
}

// furnished opens a page on which every view has content; see [fake.furnish].
func furnished(t *testing.T, said, hash string, width, height int) (*fake, *webuitest.Tab) {
	t.Helper()
	f := newFake(t)
	f.furnish(said)
	return f, webuitest.Open(t, f.url(hash), width, height)
}

// furnish adds content to every view. Every text from an untrusted source contains said.
func (f *fake) furnish(said string) {
	f.begin(said)
	f.team(said)
	f.conversation("The dandelions " + said)
	f.conversation("Backups")
	const r = "web:s1:m0"
	f.set(func() {
		f.views.said = said
		f.messages = []object{
			{"id": "m0", "requestId": r, "role": "user", "content": "Where do dandelions grow? " + said, "createdAt": 1},
			{"id": "a0", "requestId": r, "role": "assistant", "createdAt": 2, "content": []object{
				{"type": "reasoning", "text": "I look at the notes. " + said},
				{"type": "tool-call", "toolCallId": "c1", "toolName": "bash", "input": object{"command": "grep dandelion notes.txt " + said}},
			}},
			{"id": "t0", "requestId": r, "role": "tool", "createdAt": 3, "content": []object{
				{"type": "tool-result", "toolCallId": "c1", "toolName": "bash", "output": object{"type": "text", "value": "meadow\ngarden " + said}},
			}},
			{"id": "a1", "requestId": r, "role": "assistant", "content": "In meadows, and in gardens. " + said, "createdAt": 4},
			{"id": "m2", "requestId": "web:s1:m2", "role": "user", "content": "And in winter?", "createdAt": 5},
		}
		usage := object{"inputTokens": 2310, "outputTokens": 187, "cacheReadTokens": 1800, "costMicros": 8400}
		f.requests = []object{
			{"id": "web:s1:m2", "sessionId": "s1", "asked": "And in winter? " + said, "state": "failed", "detail": "unavailable: The model is overloaded. " + said, "createdAt": 1_760_000_100_000, "startedAt": 1_760_000_100_100, "endedAt": 1_760_000_103_000, "steps": 1, "usage": object{}, "model": "demo/demo"},
			{"id": r, "sessionId": "s1", "asked": "Where do dandelions grow? " + said, "state": "done", "createdAt": 1_760_000_000_000, "startedAt": 1_760_000_000_120, "endedAt": 1_760_000_009_340, "steps": 2, "recoveries": 1, "usage": usage, "model": "anthropic/claude-sonnet-4-5"},
		}
		f.views.stories = map[string]object{r: story(f.requests[1], said)}
		f.views.tasks = []object{
			{"id": "t2", "sessionId": "s1", "requestId": r, "kind": "command", "description": "all tests " + said, "command": "go test ./... " + said, "state": "running", "createdAt": 1_760_000_000_000, "deadline": 1_760_003_600_000, "result": "ok  	lilac/internal/core/task	0.2s " + said},
			{"id": "t1", "sessionId": "s1", "requestId": r, "kind": "agent", "description": "Look through the notes", "prompt": "Which notes are about dandelions? " + said, "childSession": "sub-t1", "childRequest": "sub:s1:t1", "state": "failed", "reason": "The sub-agent's request failed: no tokens left. " + said, "createdAt": 1_759_999_000_000, "deadline": 1_760_002_600_000, "endedAt": 1_759_999_090_000, "result": "I looked. " + said},
		}
		f.views.letters = []object{{
			"id": "d1", "group": "environment", "reason": "Rule “archive” failed: no such file " + said, "attempts": 5, "at": 1_760_000_000_000,
			"event": object{"id": "e1", "type": "user_query", "payload": object{"content": said}},
		}, {"id": "d2", "group": "session-runner", "reason": "timed out", "attempts": 5, "at": 1_759_000_000_000, "event": object{"id": "e2", "type": "cmd.request.message"}}}
		f.views.settings = []object{
			{"key": "addr", "value": "127.0.0.1:7420", "source": "default", "doc": "The address to listen on."},
			{"key": "model", "value": "anthropic/claude-sonnet-4-5 " + said, "source": "LILAC_MODEL", "doc": "The model that answers, as provider/model."},
			{"key": "limits.request.steps", "value": "80", "source": "the file", "doc": "Calls of the model."},
			{"key": "providers.anthropic.apiKey", "value": "set", "source": "ANTHROPIC_API_KEY", "doc": "Its key."},
		}
		match := func(id, typ, outcome, request string) object {
			return object{"rule": "ci-failed", "eventId": id, "type": typ + said, "sessionId": "s1", "requestId": request, "outcome": outcome, "depth": 1, "at": 1_760_000_000_000}
		}
		f.views.rules = []object{
			{
				"name": "ci-failed", "types": []string{"webhook.received", "build.*" + said}, "enabled": true, "priority": 60, "does": "agent",
				"debounce": "30s", "rate": "1/10m0s", "budget": object{"tokens": 50000, "costMicros": 500000},
				"today": object{"agent": 3, "rate": 17, "budget": 2}, "used": object{"runs": 3, "tokens": 48210, "costMicros": 131400},
				"last": []object{match("w3", "webhook.received", "agent", r), match("w2", "build.failed", "depth", ""), match("w1", "webhook.received", "agent", r)},
			},
			{
				"name": "noise", "types": []string{"file.changed"}, "enabled": true, "priority": 60, "does": "drop", "dryRun": true, "debounce": "1m30s", "rate": "3/1h0m0s",
				"budget": object{}, "today": object{"dryRun": 4}, "used": object{}, "last": []object{},
			},
			{"name": "fallback", "types": []string{"*"}, "enabled": false, "priority": 10, "does": "agent", "budget": object{}, "today": object{}, "used": object{}, "last": []object{}},
			{"name": "user_query", "types": []string{"user_query"}, "enabled": true, "priority": 100, "does": "function", "budget": object{}, "today": object{}, "used": object{}, "last": []object{}},
		}
		wait := func(id, state, kind, description string, wait object) object {
			return object{"id": id, "kind": kind, "description": description + said, "state": state, "wait": wait, "createdAt": 1_760_000_000_000}
		}
		asked := wait("t1", "resolved", "discord.send_and_wait", "Bob says when ", object{"way": "reply", "platform": "discord", "channelId": "10", "messageId": "7", "userId": "5", "text": "When is it? " + said})
		asked["resolvedAt"], asked["result"] = 1_760_000_200_000, object{"outcome": "reply", "message": object{"userName": "bob " + said, "text": "Tuesday " + said}}
		build := wait("t2", "waiting", "wait_for_event", "the build ", object{"way": "event", "types": []string{"custom.build.done"}, "if": ".payload.ok"})
		build["due"] = 1_760_090_000_000
		daily := wait("t1", "waiting", "schedule", "the reviews ", object{"way": "schedule", "cron": "0 9 * * mon-fri", "timezone": "Europe/Berlin"})
		daily["due"], daily["runs"] = 1_760_090_000_000, 3
		workflow := func(id, state, summary string, tasks ...object) object {
			return object{
				"id": id, "state": state, "summary": summary + said, "completion": "all", "tasks": tasks, "createdAt": 1_760_000_000_000,
				"origin": object{"requestId": r, "sessionId": "s1", "client": "web"}, "resumeTarget": object{"sessionId": "s1", "client": "web"}, "resumes": 0,
			}
		}
		open, calendar := workflow("w1", "waiting", "Ann asked when the release is; tell her what Bob says. ", asked, build), workflow("w2", "waiting", "Post the list of open reviews. ", daily)
		open["due"], calendar["due"], calendar["resumes"] = 1_760_090_000_000, 1_760_090_000_000, 3
		failed := workflow("w3", "failed", "Remind Ann. ")
		failed["detail"], failed["endedAt"] = "It has no task to wait for. "+said, 1_760_000_600_000
		f.views.workflows = []object{open, calendar, failed}
		f.views.strangers = []object{
			{"platform": "discord", "userId": "1575198526348984003", "name": "ann" + said, "code": "ABCD-EFGH", "state": "pending", "createdAt": time.Now().UnixMilli()},
			{"platform": "discord", "userId": "1575198526348984004", "name": "bob", "code": "JKLM-NPQR", "state": "pending", "createdAt": time.Now().Add(-time.Hour).UnixMilli()},
			{"platform": "discord", "userId": "1575198526348984005", "name": "too late", "code": "STUV-WXYZ", "state": "pending", "createdAt": time.Now().AddDate(0, 0, -8).UnixMilli()},
			{"platform": "discord", "userId": "1575198526348984006", "name": "eve", "code": "2345-6789", "state": "denied", "createdAt": time.Now().UnixMilli()},
		}
		f.views.groups = []object{
			{"topic": "env", "group": "environment", "mode": "work", "pending": 1, "backlog": 0, "oldestMs": 12, "active": true},
			{"topic": "cmd.request", "group": "old " + said, "mode": "work", "pending": 0, "backlog": 1200, "oldestMs": 7_200_000},
		}
	})
}

func story(request object, said string) object {
	at := func(ms int) int { return 1_760_000_000_000 + ms }
	entry := func(seq, ms, step int, kind string, data object) object {
		return object{"seq": seq, "at": at(ms), "step": step, "kind": kind, "data": data}
	}
	model := func(content any) object {
		return object{"message": object{"role": "assistant", "content": content}, "usage": object{"inputTokens": 1155, "outputTokens": 90, "costMicros": 4200}, "modelMs": 1830, "model": "anthropic/claude-sonnet-4-5"}
	}
	out := object{
		"messages": []object{
			{"messageId": "m0", "queue": "prompt", "state": "applied", "eventId": "e0", "createdAt": at(0), "text": "Where do dandelions grow? " + said},
			{"messageId": "m1", "queue": "steer", "state": "applied", "eventId": "e9", "createdAt": at(4000), "text": "only in my notes, please " + said},
		},
		"entries": []object{
			entry(1, 40, 0, "queued", object{}),
			entry(2, 120, 0, "started", object{}),
			entry(3, 125, 0, "input", object{"messageId": "m0", "queue": "prompt"}),
			entry(4, 900, 1, "model_failed", object{"error": "The provider is overloaded. " + said, "delayMs": 500}),
			entry(5, 3300, 1, "model", model([]object{{"type": "reasoning", "text": "They want a place. " + said}, {"type": "text", "text": "I look at your notes. " + said}, {"type": "tool-call", "toolCallId": "c1", "toolName": "bash", "input": object{}}})),
			entry(6, 3310, 1, "tool_start", object{"toolCallId": "c1", "name": "bash", "args": object{"command": "grep -n dandelion notes.txt " + said}}),
			entry(7, 4120, 1, "recovered", object{"recovery": 1, "charged": true}),
			entry(8, 4200, 1, "input", object{"messageId": "m1", "queue": "steer"}),
			entry(9, 5230, 1, "tool_end", object{"toolCallId": "c1", "name": "bash", "ok": true, "result": object{"type": "tool-result", "output": object{"type": "text", "value": "3: in the meadow\n9: in gardens " + said}}}),
			entry(10, 9300, 2, "model", model("In meadows, and in gardens. "+said)),
			entry(11, 9310, 2, "something_new", object{"why": said}),
			entry(12, 9340, 2, "end", object{"state": "done"}),
		},
		"wokenBy": "e0",
	}
	for k, v := range request {
		out[k] = v
	}
	return out
}

// happen streams n events of a session at once.
func (f *fake) happen(n int, kind string) {
	f.set(func() {
		for range n {
			i := len(f.events)
			f.events = append(f.events, object{
				"id": fmt.Sprint(kind, "-", i), "type": kind, "timestamp": 1_760_000_000_000 + i,
				"metadata": object{"trigger_session_id": "s2"}, "payload": object{"number": i, "content": fmt.Sprint("number ", i)},
			})
		}
	})
}
