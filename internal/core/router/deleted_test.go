package router_test

import (
	"context"
	"testing"
	"time"

	"lilac/internal/core/router"
	"lilac/internal/core/surface"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
)

// What was deleted before it could be said begins nothing that the next message
// could be taken to join, and moves no answer.
func TestAMessageThatIsDeletedFirstIsNotForwarded(t *testing.T) {
	w := newWorld(t)
	dm := surface.Facts{IsDMBased: true}
	w.say("1", "7", "one", dm)
	w.delete("1")
	w.start()
	w.settled()
	w.say("2", "7", "two", dm)
	w.settled()
	w.stop()
	w.say("3", "7", "<@900> !int three", surface.Facts{IsDMBased: true, MentionsBot: true})
	w.delete("3")
	w.start()
	w.settled()
	w.expect(sent{event.Prompt, "discord:10:2", []string{line("7", "2", "two")}})
	if moved, err := w.bus.Fetch(t.Context(), event.TopicCmdSurface, "", 10); err != nil || len(moved) > 0 {
		t.Errorf("the answer was moved: %v (%v)", moved, err)
	}
}

func TestABurstThatIsDeletedDuringTheGateIsDropped(t *testing.T) {
	w := newWorld(t)
	judging, verdict := make(chan []chat.Message, 1), make(chan struct{}, 1)
	w.mode, w.gate = router.Active, func(_ context.Context, m []chat.Message) (router.Verdict, error) {
		judging <- m
		<-verdict
		return router.Verdict{Forward: true}, nil
	}
	t.Cleanup(func() { close(verdict) })
	asked := func(want string) {
		t.Helper()
		w.settled()
		w.stop()
		w.now.Add(time.Hour.Milliseconds())
		w.start()
		w.eventually(func() bool { return len(judging) > 0 })
		if m := <-judging; len(m) != 1 || m[0].Text() != want {
			t.Errorf("the gate was asked about %v", m)
		}
	}
	w.start()
	w.say("1", "7", "anyone?", surface.Facts{})
	asked(line("7", "1", "anyone?"))
	w.delete("1")
	w.settled()
	verdict <- struct{}{}
	w.judged()
	w.say("2", "8", "nice weather", surface.Facts{})
	asked(line("8", "2", "nice weather"))
	verdict <- struct{}{}
	w.judged()
	w.expect(sent{event.Prompt, "discord:10:b4", []string{line("8", "2", "nice weather")}})
}

// Whoever edits or deletes a question that waits has the new one answered, or
// none; what runs was told already.
func TestAQueuedQuestionCanStillBeChanged(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.say("1", "7", "<@900> what is there?", mentioned)
	w.settled()
	w.lifecycle("discord:10:1", event.StateRunning)
	w.settled()
	w.say("2", "8", "<@900> delete the file A", mentioned)
	w.say("3", "8", "<@900> my password is hunter2", mentioned)
	w.settled()
	now := w.now.Load()
	w.edit("2", "8", "<@900> delete the file B", now+1)
	w.settled()
	w.edit("2", "8", "<@900> delete the file C", now+2)
	w.edit("1", "7", "<@900> who is there?", now+3)
	w.delete("3")
	w.delete("1")
	edited := "(this message was edited, and counts as it is now)\n"
	w.settled()
	w.expect(
		sent{event.Prompt, "discord:10:1", []string{line("7", "1", "what is there?")}},
		sent{event.Prompt, "discord:10:2", []string{line("8", "2", "delete the file A")}},
		sent{event.Prompt, "discord:10:3", []string{line("8", "3", "my password is hunter2")}},
		sent{event.Prompt, "discord:10:2", []string{line("8", "2", edited+"delete the file B")}},
		sent{event.Prompt, "discord:10:2", []string{line("8", "2", edited+"delete the file C")}},
		sent{"cancel", "discord:10:3", nil},
	)
}
