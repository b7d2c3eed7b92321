package router_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/mark"
	"lilac/internal/core/router"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/store"
)

// A locked thread accepts no answer: nothing begins there, and each person who asks is told once.
func TestInALockedThreadNothingBegins(t *testing.T) {
	s, said := router.State{}, 0
	say := func(m router.Message, want ...router.Effect) {
		t.Helper()
		said++
		m.Mode = router.Mention
		var got []router.Effect
		s, got = decided(s, router.Input{Event: m, Rules: rules}, at(0))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("message %d: -want +got\n%s", said, diff)
		}
	}
	say(router.Message{ID: "1", Closed: "locked", UserID: "7"})
	say(router.Message{ID: "2", Closed: "locked", UserID: "7", Mentions: true}, router.Refuse{MessageID: "2", UserID: "7", Reason: "locked"})
	say(router.Message{ID: "2a", Closed: "locked", UserID: "7", Mentions: true})
	say(router.Message{ID: "3", Closed: "locked", UserID: "8", Mentions: true}, router.Refuse{MessageID: "3", UserID: "8", Reason: "locked"})
	say(router.Message{ID: "3a", Closed: "locked", UserID: "8", Mentions: true})
	if s.Empty() {
		t.Error("the state forgets that somebody was told")
	}
	say(router.Message{ID: "4", RequestID: fresh, UserID: "7", Mentions: true}, forward(event.Prompt, fresh, "4"))
	s.Requests = nil
	say(router.Message{ID: "5", Closed: "locked", UserID: "7", ReplyTo: "4", ReplyToUs: true}, router.Refuse{MessageID: "5", UserID: "7", Reason: "locked"})
}

// The members of an active thread talk to each other, so only those who ask the agent are told.
func TestInALockedActiveThreadOnlyQuestionsAreRefused(t *testing.T) {
	var s router.State
	s, got := decided(s, router.Input{Event: router.Message{ID: "1", Mode: router.Active, Closed: "locked"}, Rules: rules}, at(0))
	if len(got) != 0 || len(s.Buffer) != 0 {
		t.Errorf("talk: %v, %+v", got, s)
	}
	if _, got = decided(s, router.Input{Event: router.Message{ID: "2", Mode: router.Active, Closed: "locked", Mentions: true}, Rules: rules}, at(0)); len(got) != 1 {
		t.Errorf("a question: %v", got)
	}
}

// Where we may not write, nothing begins, and the operator is told. A thread has the permissions of its channel.
func TestWhereWeMayNotWriteNothingBegins(t *testing.T) {
	for name, c := range map[string]struct {
		session, parent surface.Session
		begins          bool
	}{
		"a channel":                         {session: surface.Session{Kind: surface.Channel, Muted: true}},
		"a thread":                          {session: surface.Session{Kind: surface.Thread, ParentChannelID: "11"}, parent: surface.Session{ThreadsMuted: true}},
		"a thread of an announcement":       {session: surface.Session{Kind: surface.Thread, ParentChannelID: "11"}, parent: surface.Session{Muted: true}, begins: true},
		"a channel whose threads are muted": {session: surface.Session{Kind: surface.Channel, ThreadsMuted: true}, begins: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.session.ChannelID, c.parent.ChannelID, c.parent.Kind = "10", "11", surface.Channel
			put(t, w, c.session, c.parent)
			w.start()
			w.say("1", "7", "<@900> one", mentioned)
			w.say("2", "7", "<@900> two", mentioned)
			w.settled()
			ask := w.db.Update(t.Context(), func(tx *db.Tx) error {
				return w.svc.Ask(tx, surface.Message{ChannelID: "10", ID: "1"}, surface.User{ID: "7"})
			})
			w.stop()
			if begun := len(w.sent()) > 0; begun != c.begins || (fault.KindOf(ask) == fault.Conflict) == c.begins {
				t.Errorf("begun: %v, asked: %v", begun, ask)
			}
			if told := len(w.muted) == 1; told == c.begins {
				t.Errorf("the operator was told about %q", w.muted)
			}
		})
	}
}

// notices records what people are told in private.
type notices struct{ told []string }

func (*notices) Show(*db.Tx, event.MessageRef, string, *mark.Notice) error { return nil }
func (*notices) Remove(*db.Tx, event.MessageRef, string) error             { return nil }

func (n *notices) Tell(_ *db.Tx, ref event.MessageRef, told mark.Notice) error {
	n.told = append(n.told, ref.MessageID+" "+told.UserID+" "+told.Text)
	return nil
}

// A burst that waits when its session is closed costs no call of a model. Everybody who took part is told once.
func TestABurstThatWaitsWhenItsSessionIsClosedIsRefused(t *testing.T) {
	w := newWorld(t)
	private := &notices{}
	w.mode, w.marks = router.Active, private
	w.gate = func(context.Context, []chat.Message) (router.Verdict, error) {
		t.Error("the gate was asked")
		return router.Verdict{}, nil
	}
	w.start()
	w.say("1", "7", "anyone?", surface.Facts{})
	w.say("2", "8", "yes", surface.Facts{})
	w.say("3", "7", "good", surface.Facts{})
	w.settled()
	w.stop()
	w.now.Add(time.Hour.Milliseconds())
	put(t, w, surface.Session{ChannelID: "10", Kind: surface.Channel, Title: "lounge", Muted: true})
	w.start()
	w.eventually(func() bool {
		var s router.State
		if err := w.db.Read(t.Context(), func(q db.Queryer) (err error) { s, err = tables{}.RouterState(q, "discord", "10"); return err }); err != nil {
			t.Fatal(err)
		}
		return s.Empty()
	})
	w.stop()
	const text = " I could not answer you in #lounge. The bot lacks a permission there: an administrator of the server can allow it to send messages."
	if diff := cmp.Diff([]string{"1 7" + text, "2 8" + text}, private.told); diff != "" || len(w.sent()) != 0 || len(w.muted) != 1 {
		t.Errorf("sent %v, the operator was told about %v; the people: -want +got\n%s", w.sent(), w.muted, diff)
	}
}

func put(t *testing.T, w *world, sessions ...surface.Session) {
	t.Helper()
	if err := w.db.Update(t.Context(), func(tx *db.Tx) error {
		for _, s := range sessions {
			s.Platform = "discord"
			if err := (store.SurfaceCache{}).PutSession(tx, s); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
