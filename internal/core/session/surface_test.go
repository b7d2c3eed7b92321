package session_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

// The relay receives one event when a request starts, and the session has the title that its surface
// provides.
func TestARelayIsStartedForARequestOfItsSurface(t *testing.T) {
	instructed := make(chan string, 1)
	r := newRig(t, rigOptions{
		do: func(ctx context.Context, req llm.Request, say func(string)) (chat.Message, error) {
			instructed <- req.System
			return echo(ctx, req, say)
		},
		change: func(o *session.Options) {
			o.Settings.System = "Be brief."
			o.Surfaces = fakeSurfaces{
				relay:        true,
				title:        func(client, sessionID string) string { return "#" + sessionID + " on " + client },
				instructions: func(operators, client string) string { return operators + " You are on " + client + "." },
			}
		},
	})
	r.send("web:s1:r1", "m1", event.Prompt, "one")
	r.waitForEnd("web:s1:r1")
	var told, running int
	for _, e := range r.events(event.TopicRequest) {
		switch p, err := event.Decode(e); p := p.(type) {
		case event.RequestReply:
			if told++; running == 0 || err != nil {
				t.Errorf("told before it ran (%v)", err)
			}
		case event.RequestLifecycle:
			if p.State == event.StateRunning {
				running++
			}
		}
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}
	if got := <-instructed; got != "Be brief. You are on web." {
		t.Errorf("the model is told %q", got)
	}
	var s session.Session
	if err := r.db.Read(t.Context(), func(q db.Queryer) (err error) { s, err = r.store.Sessions.Session(q, sid); return err }); err != nil || s.Title != "#s1 on web" {
		t.Errorf("the session is called %q (%v)", s.Title, err)
	}
}

func TestAMessageBeyondTheMaximumFailsVisibly(t *testing.T) {
	r := newRig(t, rigOptions{change: func(o *session.Options) { o.Surfaces = fakeSurfaces{relay: true} }})
	var crowd session.State
	crowd.Queue = []session.QueuedRequest{{RequestID: "web:s1:full", Client: "web", Messages: make([]session.PendingMessage, 2*session.MaxWaiting)}}
	err := r.db.Update(t.Context(), func(tx *db.Tx) error { return r.store.States.SaveState(tx, sid, crowd) })
	if err != nil {
		t.Fatal(err)
	}
	r.send("web:s1:r1", "m1", event.Prompt, "hello")
	if req := r.waitForEnd("web:s1:r1"); req.State != event.StateFailed || !strings.Contains(req.Detail, "Too many messages are waiting") {
		t.Errorf("r1 ended as %s %q", req.State, req.Detail)
	}
	r.output("web:s1:r1")
	// The relay must start before the request ends.
	var shown []string
	for _, e := range r.events(event.TopicRequest) {
		if e.Headers.RequestID() == "web:s1:r1" {
			shown = append(shown, string(e.Type))
		}
	}
	if want := []string{"evt.request.reply", "evt.request.lifecycle.changed"}; !slices.Equal(shown, want) {
		t.Errorf("a surface is told %q, want %q", shown, want)
	}
	if got := r.texts(); len(got) != 0 {
		t.Errorf("the history has %q", got)
	}
}

func TestANoReplyAnswerIsMarkedAsSkipped(t *testing.T) {
	for text, want := range map[string]string{"NO_REPLY": "skip", " NO_REPLY\n": "skip", "NO_REPLY, he said": "", "NO_REPLY\n\nNO_REPLY": "skip", "Hello.\n\nNO_REPLY": "", "\n\n": ""} {
		r := newRig(t, rigOptions{do: func(_ context.Context, _ llm.Request, say func(string)) (chat.Message, error) {
			say(text)
			return chat.Text(chat.Assistant, text), nil
		}})
		r.send("web:s1:r1", "m1", event.Prompt, "one")
		r.waitForEnd("web:s1:r1")
		events := r.events(event.OutputTopic("web:s1:r1"))
		p, err := event.Decode(events[len(events)-1])
		if final, ok := p.(event.FinalText); err != nil || !ok || final.Delivery != want {
			t.Errorf("%q ends as %+v (%v)", text, p, err)
		}
		r.checkFinalOutput("web:s1:r1", events)
	}
}

func TestAFileIsAddedToTheOutputOfARunningRequest(t *testing.T) {
	var svc *session.Service
	given := make(chan error, 2)
	r := newRig(t, rigOptions{do: func(ctx context.Context, _ llm.Request, say func(string)) (chat.Message, error) {
		for range 2 { // twice, as after a crash
			given <- svc.AddFile(ctx, "web:s1:r1", event.BinaryOutput{BinaryID: "call/0", MimeType: "text/plain", Filename: "a", Blob: "blob:x"})
		}
		say("here")
		return chat.Text(chat.Assistant, "here"), nil
	}})
	svc = r.svc
	r.send("web:s1:r1", "m1", event.Prompt, "one")
	r.waitForEnd("web:s1:r1")
	if err := <-given; err != nil {
		t.Fatal(err)
	}
	files := 0
	events := r.events(event.OutputTopic("web:s1:r1"))
	for i, e := range events {
		if p, err := event.Decode(e); err != nil {
			t.Fatal(err)
		} else if f, ok := p.(event.BinaryOutput); ok {
			if files++; f.Filename != "a" || i == len(events)-1 {
				t.Errorf("%+v at %d of %d", f, i, len(events))
			}
		}
	}
	if files != 1 {
		t.Errorf("the file is %d times in the output", files)
	}
	r.checkFinalOutput("web:s1:r1", events)
	if err := svc.AddFile(t.Context(), "web:s1:r1", event.BinaryOutput{BinaryID: "late"}); fault.KindOf(err) != fault.Gone {
		t.Errorf("after the end: %v", err)
	}
}

// AddFile waits for a busy database without a timeout, because the tool has its own time limit.
func TestAFileWaitsForASlowDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *rig
		given := make(chan error, 1)
		r = newRig(t, rigOptions{do: func(ctx context.Context, _ llm.Request, _ func(string)) (chat.Message, error) {
			busy := make(chan struct{})
			go func() {
				_ = r.db.Update(context.Background(), func(*db.Tx) error { close(busy); time.Sleep(20 * time.Second); return nil })
			}()
			<-busy
			given <- r.svc.AddFile(ctx, "web:s1:r1", event.BinaryOutput{BinaryID: "call/0", MimeType: "text/plain", Filename: "a", Blob: "blob:x"})
			return chat.Text(chat.Assistant, "here"), nil
		}})
		defer func() { r.stop() }()
		r.send("web:s1:r1", "m1", event.Prompt, "one")
		if err := <-given; err != nil {
			t.Error(err)
		}
		r.waitForEnd("web:s1:r1")
	})
}
