package session_test

import (
	"context"
	"testing"

	"lilac/internal/agent/tool"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// A refused request ends at its next step, together with the queued requests that the refusal names.
// Their texts and costs stay separate.
func TestARefusalEndsTheRequestAndItsQueuedRequests(t *testing.T) {
	for name, quiet := range map[string]bool{"people are told": false, "people were told": true} {
		t.Run(name, func(t *testing.T) {
			hold := make(chan struct{})
			var more chat.Usage
			r := newRig(t, rigOptions{do: loops, tools: []tool.Tool{&counter{}}, change: func(o *session.Options) {
				o.Policy = fakePolicy{admit: func(requestID string, m chat.Usage) *session.Refusal {
					more = m
					if requestID != "env:s1:r1" || len(modelCalls(t, o, requestID)) < 2 {
						return nil
					}
					<-hold
					return &session.Refusal{Reason: "Enough of it.", Quiet: quiet, Drop: []string{"env:s1:r2", "env:s1:none"}, DropReason: "No more."}
				}}
			}})
			r.publish("cmd:m1", "env:s1:r1", event.RequestMessage{Queue: event.Prompt, MessageID: "m1", Messages: []chat.Message{chat.Text(chat.User, "go")}})
			r.publish("cmd:m2", "env:s1:r2", event.RequestMessage{Queue: event.Prompt, MessageID: "m2", Messages: []chat.Message{chat.Text(chat.User, "go")}})
			r.notify("env:s1:r3", "m3")
			waitUntil(t, "both wait", func() bool { return len(r.states("env:s1:r3")) == 1 })
			close(hold)
			r.waitForEnd("env:s1:r3")
			first, second := r.waitForEnd("env:s1:r1"), r.waitForEnd("env:s1:r2")
			want, kind := event.StateFailed, fault.LimitReached
			if quiet {
				want, kind = event.StateCancelled, ""
			}
			if first.State != want || first.ErrorKind != kind || first.Detail != "Enough of it." || first.Steps != 2 || first.Usage.InputTokens != 20 {
				t.Errorf("the first: %+v", first)
			}
			if second.State != event.StateCancelled || second.Detail != "No more." || second.Usage != (chat.Usage{}) {
				t.Errorf("the second: %+v", second)
			}
			r.checkFinalOutput("env:s1:r1", r.events(event.OutputTopic("env:s1:r1")))
			if _, final := r.output("env:s1:r2"); final != "" {
				t.Errorf("the second said %q", final)
			}
			if more != (chat.Usage{}) {
				t.Errorf("%+v was not recorded before the step", more)
			}
			r.checkPaired()
		})
	}
}

// modelCalls returns the model calls in the journal of a request.
func modelCalls(t *testing.T, o *session.Options, requestID string) (calls []session.StoryEntry) {
	t.Helper()
	err := o.DB.Read(context.Background(), func(q db.Queryer) error {
		all, err := o.Tables.Journal.Journal(q, requestID)
		for _, e := range all {
			if e.Kind == "model" {
				calls = append(calls, e)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return calls
}

// A message that was accepted for a session must not recreate the session after a user deleted it. A
// message that was not accepted beforehand, for example one from a chat platform, does (control).
func TestADeletedSessionIsNotCreatedAgain(t *testing.T) {
	for name, promised := range map[string]bool{"promised": true, "control: not promised": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rigOptions{})
			if promised {
				if err := r.db.Update(t.Context(), func(tx *db.Tx) error { return r.store.Mailbox.Accept(tx, sid, "m1") }); err != nil {
					t.Fatal(err)
				}
			}
			r.send("web:s1:r1", "m1", event.Prompt, "are you there?")
			if promised {
				waitUntil(t, "the message is taken", func() (taken bool) {
					r.read(func(q db.Queryer) error {
						return q.QueryRow(`SELECT NOT EXISTS (SELECT 1 FROM session_accepted)`).Scan(&taken)
					})
					return taken
				})
			} else {
				r.waitForEnd("web:s1:r1")
			}
			err := r.db.Read(t.Context(), func(q db.Queryer) error { _, err := r.store.Sessions.Session(q, sid); return err })
			if (fault.KindOf(err) == fault.NotFound) != promised {
				t.Errorf("the session: %v", err)
			}
		})
	}
}
