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

// waits returns a model that signals on asked when it is called and answers after release.
func waits(asked chan<- struct{}, release <-chan struct{}, answer string) script {
	return func(context.Context, llm.Request, func(string)) (chat.Message, error) {
		asked <- struct{}{}
		<-release
		return chat.Text(chat.Assistant, answer), nil
	}
}

// twoOwners starts a second service that resumes the session while the first service still runs it.
// It then lets the first service write. It returns the journal after that write, and the finished
// request.
func twoOwners(t *testing.T, before func(r *rig)) (journal string, req session.Request) {
	var opt session.Options
	asked, letFirst, letSecond := make(chan struct{}, 2), make(chan struct{}), make(chan struct{})
	r := newRig(t, rigOptions{do: waits(asked, letFirst, "first"), change: func(o *session.Options) { opt = *o }})
	r.send("web:s1:r1", "m1", event.Prompt, "one")
	<-asked
	opt.Model = func(context.Context, session.Session) (llm.Model, error) {
		return &scripted{do: waits(asked, letSecond, "second"), window: 100_000}, nil
	}
	second := session.New(opt)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- second.Run(ctx) }()
	<-asked
	if before != nil {
		before(r)
	}
	close(letFirst)
	waitUntil(t, "the first owner stops", func() bool { return r.svc.Active() == 0 })
	journal = r.journal("web:s1:r1")
	close(letSecond)
	req = r.waitForEnd("web:s1:r1")
	waitUntil(t, "the second owner stops", func() bool { return second.Active() == 0 })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	return journal, req
}

func TestAStaleOwnerCannotWrite(t *testing.T) {
	journal, req := twoOwners(t, nil)
	if strings.Contains(journal, "model") || strings.Contains(journal, "end") {
		t.Errorf("the stale owner wrote: %s", journal)
	}
	if req.State != event.StateDone {
		t.Errorf("ended as %s: %s", req.State, req.Detail)
	}

	t.Run("control: without its epoch it does", func(t *testing.T) {
		journal, _ := twoOwners(t, func(r *rig) {
			err := r.db.Update(t.Context(), func(tx *db.Tx) error {
				s, err := r.store.States.State(tx, sid)
				if err != nil {
					return err
				}
				s.Epoch--
				return r.store.States.SaveState(tx, sid, s)
			})
			if err != nil {
				t.Fatal(err)
			}
		})
		if !strings.Contains(journal, "model") {
			t.Errorf("nothing was noticed: %s", journal)
		}
	})
}

func TestAFailedRequestKeepsItsErrorKind(t *testing.T) {
	r := newRig(t, rigOptions{do: func(context.Context, llm.Request, func(string)) (chat.Message, error) {
		return chat.Message{}, fault.New(fault.Denied, "The key is wrong.")
	}})
	r.send("web:s1:r1", "m1", event.Prompt, "one")
	if req := r.waitForEnd("web:s1:r1"); req.ErrorKind != fault.Denied || req.Detail != "The key is wrong." {
		t.Errorf("ended with %q: %s", req.ErrorKind, req.Detail)
	}
	events := r.events(event.TopicRequest)
	p, err := event.Decode(events[len(events)-1])
	if l, ok := p.(event.RequestLifecycle); err != nil || !ok || l.ErrorKind != fault.Denied {
		t.Errorf("the last event says %+v, %v", p, err)
	}
}
