package router_test

import (
	"context"
	"testing"
	"time"

	"lilac/internal/core/router"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/store"
)

// ask does what the adapter does for "Ask about this".
func (w *world) ask(id string) {
	w.t.Helper()
	if err := w.db.Update(w.t.Context(), func(tx *db.Tx) error {
		m, err := (store.SurfaceCache{}).Message(tx, "discord", "10", id)
		if err != nil {
			return err
		}
		return w.svc.Ask(tx, m, surface.User{ID: "8", Name: "name8"})
	}); err != nil {
		w.t.Fatal(err)
	}
}

// later restarts the router after the time of a burst.
func (w *world) later() {
	w.t.Helper()
	w.settled()
	w.stop()
	w.now.Add(time.Hour.Milliseconds())
	w.start()
}

// After a reconnect, a reply arrives before the message that it replies to, which is
// backfilled.
func TestAQuestionIsDeliveredOnceIfAReplyToItArrivesFirst(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.put(surface.Message{Platform: "discord", ChannelID: "10", ID: "1", AuthorID: "7", AuthorName: "name7", Text: "<@900> what is in the attic?"})
	reply := surface.Facts{MentionsBot: true, ReplyToMessageID: "1"}
	w.say("2", "8", "<@900> and in the cellar?", reply)
	w.settled()
	w.say("1", "7", "<@900> what is in the attic?", mentioned)
	w.settled()
	both := sent{event.Prompt, "discord:10:2", []string{line("7", "1", "what is in the attic?"), line("8", "2", "and in the cellar?")}}
	w.expect(both)
	// Withdrawn, the reply takes only itself with it.
	w.delete("2")
	w.settled()
	w.expect(both, sent{"cancel", "discord:10:2", nil}, sent{event.Prompt, "discord:10:1", []string{line("7", "1", "what is in the attic?")}})
}

// Asking about a message of a burst delivers it; the rest of the burst stays.
func TestAskingAboutAMessageRemovesItFromItsBurst(t *testing.T) {
	w := newWorld(t)
	w.mode = router.Active
	w.start()
	w.say("1", "8", "it rains", surface.Facts{})
	w.say("2", "7", "anyone?", surface.Facts{})
	w.settled()
	w.ask("2")
	w.later()
	once := []sent{
		{event.Prompt, "discord:10:2", []string{line("7", "2", "anyone?"), line("8", "a1", "I ask you about this message.")}},
		{event.Prompt, "discord:10:b2", []string{line("8", "1", "it rains")}},
	}
	w.expect(once...)
	w.ask("2")
	w.expect(append(once, sent{event.Prompt, "discord:10:2", []string{line("8", "a3", "(in reply to name7: \"anyone?\")\nI ask you about this message.")}})...)
}

// The same while the gate thinks about the burst: its yes is for nothing then.
func TestAskingAboutAMessageDuringTheGateDeliversItOnce(t *testing.T) {
	w := newWorld(t)
	judging, verdict := make(chan []chat.Message, 1), make(chan struct{}, 1)
	t.Cleanup(func() { close(verdict) })
	w.mode, w.gate = router.Active, func(_ context.Context, m []chat.Message) (router.Verdict, error) {
		judging <- m
		<-verdict
		return router.Verdict{Forward: true}, nil
	}
	w.start()
	w.say("1", "7", "anyone?", surface.Facts{})
	w.later()
	<-judging
	w.ask("1")
	verdict <- struct{}{}
	w.judged()
	w.expect(sent{event.Prompt, "discord:10:1", []string{line("7", "1", "anyone?"), line("8", "a2", "I ask you about this message.")}})
}

// What joins a request brings along a message of the burst that waits beside it.
func TestAReplyThatJoinsARequestRemovesItsTargetFromTheBurst(t *testing.T) {
	w := newWorld(t)
	w.mode = router.Active
	w.start()
	w.say("1", "7", "anyone?", surface.Facts{})
	w.settled()
	w.lifecycle("wf:1:1", event.StateRunning)
	w.settled()
	w.say("2", "8", "me", surface.Facts{ReplyToMessageID: "1"})
	w.later()
	w.judged()
	w.expect(sent{event.FollowUp, "wf:1:1", []string{line("7", "1", "anyone?"), line("8", "2", "me")}})
}
