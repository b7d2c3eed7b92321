package session_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/model/llm"
	"lilac/internal/testkit/dbtest"
)

const notice = "The rule ci has stopped."

func (r *rig) notify(requestID, messageID string) {
	r.publish("cmd:"+messageID, requestID, event.RequestMessage{
		Queue: event.Prompt, MessageID: messageID, Messages: []chat.Message{chat.Text(chat.Assistant, notice)},
	})
}

// A notice from the program to the users of a session is a request like any other, but its text is
// given, so it calls no model.
func TestAnAssistantMessageIsOutputWithoutAModelCall(t *testing.T) {
	hold := make(chan struct{})
	r := newRig(t, rigOptions{do: func(ctx context.Context, req llm.Request, say func(string)) (chat.Message, error) {
		<-hold
		return echo(ctx, req, say)
	}})
	r.send("web:s1:r1", "m1", event.Prompt, "one")
	r.notify("env:s1:n1", "n1") // queued after the running request
	r.send("web:s1:r2", "m2", event.Prompt, "two")
	waitUntil(t, "both wait", func() bool { return len(r.states("web:s1:r2")) == 1 })
	close(hold)
	r.waitForEnd("web:s1:r2")
	text, _ := r.output("env:s1:n1")
	if req := r.waitForEnd("env:s1:n1"); req.State != event.StateDone || req.Steps != 0 || req.Usage != (chat.Usage{}) || text != notice {
		t.Errorf("it said %q: %+v", text, req)
	}
	if diff := cmp.Diff([]string{"user: one", "assistant: echo: one", "assistant: " + notice, "user: two", "assistant: echo: two"}, r.texts()); diff != "" {
		t.Error(diff)
	}
	if n := r.model.count(); n != 2 {
		t.Errorf("the model was called %d times, want 2", n)
	}
}

// Clients send such messages, too, and of any length.
func TestALongNoticeIsOutputInParts(t *testing.T) {
	const maxDelta = 64 << 10
	said := strings.Repeat("漢字🌸", 40_000)
	r := newRig(t, rigOptions{})
	r.publish("cmd:n1", "env:s1:n1", event.RequestMessage{Queue: event.Prompt, MessageID: "n1", Messages: []chat.Message{chat.Text(chat.Assistant, said)}})
	r.waitForEnd("env:s1:n1")
	if text, _ := r.output("env:s1:n1"); text != said {
		t.Errorf("%d of %d bytes were output", len(text), len(said))
	}
	for _, e := range r.events(event.OutputTopic("env:s1:n1")) {
		p, err := event.Decode(e)
		if err != nil {
			t.Fatal(err)
		}
		if delta, ok := p.(event.TextDelta); ok && len(delta.Delta) > maxDelta {
			t.Errorf("a part has %d bytes; want at most %d", len(delta.Delta), maxDelta)
		}
	}
}

func TestANoticeSurvivesACrashAtEveryCommit(t *testing.T) {
	dbtest.FileOnly(t) // it copies the file after every commit
	snap := &snapshots{t: t, root: t.TempDir(), src: t.TempDir()}
	r := newRig(t, rigOptions{dir: snap.src, onCommit: snap.commit})
	snap.set(true)
	r.notify("env:s1:n1", "n1")
	r.waitForEnd("env:s1:n1")
	snap.set(false)
	r.stop()
	for _, dir := range snap.dirs {
		r := newRig(t, rigOptions{dir: dir})
		r.notify("env:s1:n1", "n1") // send it again, because the first snapshot may precede its acceptance
		if req := r.waitForEnd("env:s1:n1"); req.State != event.StateDone {
			t.Errorf("%s: %+v", dir, req)
		}
		text, _ := r.output("env:s1:n1")
		if diff := cmp.Diff([]string{"assistant: " + notice}, r.texts()); diff != "" || text != notice || r.model.count() > 0 {
			t.Errorf("%s: it said %q with %d calls of the model\n%s", dir, text, r.model.count(), diff)
		}
		r.stop()
	}
	if len(snap.dirs) < 2 {
		t.Errorf("%d commits were looked at", len(snap.dirs))
	}
}
