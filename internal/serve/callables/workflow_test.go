package callables_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"lilac/internal/core/workflow"
	"lilac/internal/serve/toolserver"
)

// What each caller is answered when it asks for a wait. A want that begins
// with ! must not be there.
func TestWhoMayWaitForWhat(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		name, id, input string
		who             toolserver.Grant
		want            []string
	}{
		{"a reply by the alias", "workflow.wait_for_reply", `{"sessionId":"#ops","messageId":"101","summary":"ask @ann in #ops"}`, inOps, []string{`"kind":"discord.wait_for_reply"`, `"channelId":"10"`, `"messageId":"101"`, `"summary":"ask @ann in #ops"`, `"description":"ask @ann in #ops"`, `"sessionId":"10"`}},
		{"a reply of somebody by name", "workflow.wait_for_reply", `{"messageId":"101","userId":"@ann","summary":"x"}`, inOps, []string{`"userId":"5"`}},
		{"a reply of somebody by mention", "workflow.wait_for_reply", `{"messageId":"101","userId":"<@!6>","summary":"y"}`, inOps, []string{`"userId":"6"`}},
		{"a reply of nobody", "workflow.wait_for_reply", `{"messageId":"101","userId":"@zoe","summary":"x"}`, inOps, []string{"not_found", "@zoe"}},
		{"a reply to what is not there", "workflow.wait_for_reply", `{"messageId":"999","summary":"x"}`, inOps, []string{"not_found"}},
		{"a reply to nothing", "workflow.wait_for_reply", `{"summary":"x"}`, inOps, []string{"invalid", "Set the message whose reply"}},
		{"a reply in a closed channel", "workflow.wait_for_reply", `{"sessionId":"#secret","messageId":"120","summary":"x"}`, inOps, []string{"denied"}},
		{"a reply in a private one of others", "workflow.wait_for_reply", `{"sessionId":"20","messageId":"200","summary":"x"}`, inOps, []string{"denied"}},
		{"an alias of nobody", "workflow.wait_for_reply", `{"sessionId":"#opps","messageId":"101","summary":"x"}`, inOps, []string{"not_found", "Did you mean #ops"}},
		{"the next message on the page", "workflow.wait_for_reply", `{"summary":"x"}`, onWeb, []string{`"kind":"web.wait_for_reply"`, `"way":"message"`, `"channelId":"w1"`}},
		{"of another page", "workflow.wait_for_reply", `{"sessionId":"w2","summary":"x"}`, onWeb, []string{"denied"}},
		{"a reply elsewhere from the page", "workflow.wait_for_reply", `{"sessionId":"ops","messageId":"101","summary":"x"}`, onWeb, []string{`"kind":"discord.wait_for_reply"`, `"origin":{"requestId":"web:w1:1","sessionId":"w1","client":"web"}`, `"resumeTarget":{"sessionId":"w1","client":"web"}`}},

		{"sending", "workflow.send_and_wait", `{"sessionId":"ops","text":"@ann, when?","summary":"x","mention":true,"timeout":"2d"}`, onWeb, []string{`"sending":true`, `"text":"@ann, when?"`, `"mentionUserId":"5"`}},
		{"sending to a closed one", "workflow.send_and_wait", `{"sessionId":"12","text":"x","summary":"x"}`, inOps, []string{"denied"}},
		{"sending to the page", "workflow.send_and_wait", `{"text":"x","summary":"x"}`, onWeb, []string{"denied"}},
		{"sending nothing", "workflow.send_and_wait", `{"text":" ","summary":"x"}`, inOps, []string{"invalid"}},
		{"a time-out that is none", "workflow.send_and_wait", `{"text":"x","summary":"x","timeout":"soon"}`, inOps, []string{`invalid: "soon" is not a duration`}},

		{"a calendar", "workflow.schedule", `{"cron":"0 9 * * mon-fri","timezone":"Europe/Berlin","summary":"x","until":"2099-01-01T00:00:00Z"}`, inOps, []string{`"timezone":"Europe/Berlin"`, `"way":"schedule"`}},
		{"a calendar that is none", "workflow.schedule", `{"cron":"now and then","summary":"x"}`, inOps, []string{"invalid"}},
		{"too often", "workflow.schedule", `{"cron":"@every 5s","summary":"x"}`, inOps, []string{"invalid", "at most once in 1m"}},
		{"an end that is none", "workflow.schedule", `{"cron":"@daily","summary":"x","until":"Christmas"}`, inOps, []string{`invalid: "Christmas" is not a time`}},

		{"several", "workflow.create", `{"summary":"x","completion":"any","tasks":[{"kind":"delay","description":"a","delay":"1d12h"},{"kind":"wait_for_event","description":"b","types":["custom.x"],"if":".payload.ok"},{"kind":"wait_until","description":"c","at":"2026-01-01T00:00:00+01:00"}]}`, inOps, []string{`"completion":"any"`, `"id":"t3"`, `"kind":"wait_for_event"`, `"sessionId":"10","if":".payload.ok"`}},
		{"a wait of a sub-agent", "workflow.create", `{"summary":"x","tasks":[{"kind":"delay","description":"a","delay":"1h"}]}`, asSub, []string{"denied: A sub-agent cannot wait"}},
		{"its calendar", "workflow.schedule", `{"cron":"@hourly","summary":"x"}`, asSub, []string{"denied: A sub-agent"}},
		{"its question", "workflow.send_and_wait", `{"sessionId":"ops","text":"x","summary":"x"}`, asSub, []string{"denied: A sub-agent"}},
		{"its reply", "workflow.wait_for_reply", `{"sessionId":"ops","messageId":"101","summary":"x"}`, asSub, []string{"denied: A sub-agent"}},
		{"its task for another", "workflow.task.create", `{"workflowId":"nope","kind":"delay","description":"a","delay":"1h"}`, asSub, []string{"denied: A sub-agent"}},
		{"its list", "workflow.list", `{}`, asSub, []string{"[]"}},
		{"none", "workflow.create", `{"summary":"x","tasks":[]}`, inOps, []string{"invalid"}},
		{"of a kind that is none", "workflow.create", `{"summary":"x","tasks":[{"kind":"pray","description":"a"}]}`, inOps, []string{"invalid"}},
		{"what nobody knows", "workflow.get", `{"workflowId":"nope"}`, inOps, []string{"not_found"}},
		{"cancel of that", "workflow.cancel", `{"workflowId":"nope"}`, inOps, []string{"not_found"}},
		{"a task for that", "workflow.task.create", `{"workflowId":"nope","kind":"delay","description":"a","delay":"1h"}`, inOps, []string{"not_found"}},
	} {
		got := text(w.call(c.who, c.id, c.input))
		for _, want := range c.want {
			want, absent := strings.CutPrefix(want, "!")
			if strings.Contains(got, want) == absent {
				t.Errorf("%s: %s\nwants %q (absent: %v)", c.name, got, want, absent)
			}
		}
	}
}

func TestWorkflowsBelongToTheirConversation(t *testing.T) {
	w := newWorld(t)
	created := func(key string) workflow.Workflow {
		t.Helper()
		var made workflow.Workflow
		a := w.call(inOps, "workflow.create", `{"summary":"x","key":"`+key+`","tasks":[{"kind":"delay","description":"a","delay":"1h"}]}`)
		if err := json.Unmarshal(a.Value, &made); err != nil {
			t.Fatal(text(a))
		}
		return made
	}
	made, again, other := created(""), created(""), created("2")
	if made.ID != again.ID || made.ID == other.ID {
		t.Errorf("the same call makes %s and %s, another one %s", made.ID, again.ID, other.ID)
	}
	if d := time.UnixMilli(made.Tasks[0].Due).Sub(time.UnixMilli(made.CreatedAt)); d != time.Hour {
		t.Errorf("an hour is %s", d)
	}
	id := `{"workflowId":"` + made.ID + `"}`
	add := `{"workflowId":"` + made.ID + `","kind":"delay","description":"b","delay":"2h"}`
	for _, call := range []string{"workflow.get", "workflow.cancel"} {
		if got := text(w.call(onWeb, call, id)); !strings.HasPrefix(got, "not_found") {
			t.Errorf("%s from elsewhere: %s", call, got)
		}
	}
	if got := text(w.call(onWeb, "workflow.task.create", add)); !strings.HasPrefix(got, "not_found") {
		t.Errorf("a task from elsewhere: %s", got)
	}
	for range 2 {
		if got := text(w.call(inOps, "workflow.task.create", add)); strings.Count(got, `"kind":"delay"`) != 2 {
			t.Errorf("another task: %s", got)
		}
	}
	if got := text(w.call(onWeb, "workflow.list", `{"ended":true}`)); got != "[]" {
		t.Errorf("listed elsewhere: %s", got)
	}
	if got := text(w.call(inOps, "workflow.list", `{}`)); !strings.Contains(got, made.ID) || !strings.Contains(got, other.ID) {
		t.Errorf("listed: %s", got)
	}
	token, err := w.operators.Create(t.Context(), "me", []string{"workflow.*"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if got := text(w.with(token, "workflow.list", `{}`)); !strings.Contains(got, made.ID) {
		t.Errorf("an operator lists %s", got)
	}
	if got := text(w.with(token, "workflow.create", `{"summary":"x","tasks":[{"kind":"delay","description":"a","delay":"1h"}]}`)); !strings.HasPrefix(got, "denied") {
		t.Errorf("an operator makes %s", got)
	}
	for range 2 {
		if got := text(w.with(token, "workflow.cancel", id)); !strings.Contains(got, `"state":"cancelled"`) {
			t.Errorf("an operator cancels: %s", got)
		}
	}
	if got := text(w.call(inOps, "workflow.list", `{}`)); strings.Contains(got, made.ID) {
		t.Errorf("still listed: %s", got)
	}
}

// What a command sends is sent once, and a reply to it is its workflow's.
func TestWhatIsSentAndWaitedForIsSentOnce(t *testing.T) {
	w := newWorld(t)
	ask := `{"sessionId":"ops","text":"@ann, when?","summary":"x"}`
	for range 2 {
		if got := text(w.call(onWeb, "workflow.send_and_wait", ask)); !strings.Contains(got, `"way":"reply"`) {
			t.Fatal(got)
		}
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
		w.platform.mu.Lock()
		sent := len(w.platform.sent)
		w.platform.mu.Unlock()
		if sent > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it is not sent")
		}
	}
	w.platform.mu.Lock()
	defer w.platform.mu.Unlock()
	if len(w.platform.sent) != 1 || !strings.HasSuffix(w.platform.sent[0].Text, "when?") {
		t.Errorf("sent: %+v", w.platform.sent)
	}
}
