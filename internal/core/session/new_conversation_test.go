package session_test

import (
	"context"
	"strings"
	"testing"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

// recall answers with everything that the model sees.
func recall(_ context.Context, req llm.Request, say func(string)) (chat.Message, error) {
	var all []string
	for _, m := range req.Messages {
		all = append(all, m.Text())
	}
	answer := "I see " + strings.Join(all, " | ")
	say(answer)
	return chat.Text(chat.Assistant, answer), nil
}

func (r *rig) begin() error {
	r.t.Helper()
	return r.db.Update(r.t.Context(), func(tx *db.Tx) error { return r.svc.NewConversation(tx, sid, "@ada") })
}

func TestANewConversationHidesTheOldOneFromTheModelAndKeepsIt(t *testing.T) {
	r := newRig(t, rigOptions{do: recall})
	if err := r.begin(); err != nil {
		t.Fatalf("a session without messages: %v", err)
	}
	r.send("web:s1:r1", "m1", event.Prompt, "the key is under the mat")
	r.waitForEnd("web:s1:r1")
	r.send("web:s1:r2", "m2", event.Prompt, "where is it?")
	r.waitForEnd("web:s1:r2")
	if text, _ := r.output("web:s1:r2"); !strings.Contains(text, "under the mat") {
		t.Fatalf("control: without a new conversation the model sees %q", text)
	}
	if err := r.begin(); err != nil {
		t.Fatal(err)
	}
	r.send("web:s1:r3", "m3", event.Prompt, "and now?")
	r.waitForEnd("web:s1:r3")
	if text, _ := r.output("web:s1:r3"); text != "I see and now?" {
		t.Errorf("the model still sees the old conversation: %q", text)
	}
	kept := strings.Join(r.texts(), "\n")
	for _, want := range []string{"the key is under the mat", "@ada began a new conversation here", "and now?"} {
		if !strings.Contains(kept, want) {
			t.Errorf("%q is not in the list of messages:\n%s", want, kept)
		}
	}
}

// A summary that a compaction wrote belongs to the conversation that it summarises.
func TestANewConversationLeavesTheSummaryBehind(t *testing.T) {
	r := newRig(t, rigOptions{do: recall})
	r.send("web:s1:r1", "m1", event.Prompt, "one")
	r.waitForEnd("web:s1:r1")
	if err := r.db.Update(t.Context(), func(tx *db.Tx) error {
		return r.store.History.AddCompaction(tx, session.Compaction{SessionID: sid, RequestID: "web:s1:r1", Summary: chat.Text(chat.User, "the summary"), KeptFrom: 2})
	}); err != nil {
		t.Fatal(err)
	}
	if err := r.begin(); err != nil {
		t.Fatal(err)
	}
	r.send("web:s1:r2", "m2", event.Prompt, "two")
	r.waitForEnd("web:s1:r2")
	if text, _ := r.output("web:s1:r2"); text != "I see two" {
		t.Errorf("the model sees %q", text)
	}
}

func TestANewConversationWaitsForTheAnswerInProgress(t *testing.T) {
	hold, started := make(chan struct{}), make(chan struct{})
	r := newRig(t, rigOptions{do: func(ctx context.Context, req llm.Request, say func(string)) (chat.Message, error) {
		close(started)
		<-hold
		return recall(ctx, req, say)
	}})
	r.send("web:s1:r1", "m1", event.Prompt, "one")
	<-started
	if err := r.begin(); fault.KindOf(err) != fault.Conflict {
		t.Errorf("while an answer is in progress: %v", err)
	}
	close(hold)
	r.waitForEnd("web:s1:r1")
	if err := r.begin(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// The conversation may be damaged or too long. The error names the way out, and that works.
func TestTheErrorOfALostConversationNamesTheCommand(t *testing.T) {
	r := newRig(t, rigOptions{do: recall, change: func(o *session.Options) { o.Surfaces = fakeSurfaces{relay: true} }})
	r.send("web:s1:r1", "m1", event.Prompt, "one")
	r.waitForEnd("web:s1:r1")
	if err := r.db.Update(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(`UPDATE history SET checksum = checksum + 1`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	r.send("web:s1:r2", "m2", event.Prompt, "two")
	if req := r.waitForEnd("web:s1:r2"); req.State != event.StateFailed || !strings.Contains(req.Detail, "/new") {
		t.Fatalf("control: ended as %s: %s", req.State, req.Detail)
	}
	if err := r.begin(); err != nil {
		t.Fatal(err)
	}
	r.send("web:s1:r3", "m3", event.Prompt, "three")
	if req := r.waitForEnd("web:s1:r3"); req.State != event.StateDone {
		t.Errorf("after /new it ended as %s: %s", req.State, req.Detail)
	}
}

func TestTheErrorOfATooLongConversationNamesTheCommand(t *testing.T) {
	r := newRig(t, rigOptions{change: func(o *session.Options) { o.Surfaces = fakeSurfaces{relay: true} }, do: func(ctx context.Context, req llm.Request, say func(string)) (chat.Message, error) {
		if lastUser(req) == "two" {
			return chat.Message{}, &fault.Error{Kind: fault.Invalid, Code: llm.CodeContextLength, Message: "The prompt is too long."}
		}
		return echo(ctx, req, say)
	}})
	r.send("web:s1:r1", "m1", event.Prompt, "one")
	r.waitForEnd("web:s1:r1")
	r.send("web:s1:r2", "m2", event.Prompt, "two")
	if req := r.waitForEnd("web:s1:r2"); req.State != event.StateFailed || !strings.Contains(req.Detail, "use /new") {
		t.Errorf("ended as %s: %s", req.State, req.Detail)
	}
}
