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

var wordless = surface.Facts{IsDMBased: true, ForwardOnly: true}

// In a private conversation, a forward and the words about it, which come as two messages, are one question.
func TestAForwardAndItsCommentAreOneQuestion(t *testing.T) {
	w := newWorld(t)
	put(t, w, surface.Session{ChannelID: "10", Kind: surface.Direct})
	w.start()
	w.say("1", "7", "[forwarded message] the disk is full", wordless)
	w.say("2", "7", "why?", surface.Facts{IsDMBased: true, ReplyToMessageID: "1"})
	w.settled()
	w.expect(sent{event.Prompt, "discord:10:2", []string{line("7", "2", "[forwarded message] the disk is full\nwhy?")}})
}

// A forward without a comment is answered after a moment, and no gate is asked.
func TestAForwardAloneIsAnsweredToo(t *testing.T) {
	w := newWorld(t)
	put(t, w, surface.Session{ChannelID: "10", Kind: surface.Direct})
	w.gate = func(context.Context, []chat.Message) (router.Verdict, error) {
		t.Error("the gate was asked")
		return router.Verdict{}, nil
	}
	w.start()
	w.say("1", "7", "[forwarded message] the disk is full", wordless)
	w.settled()
	if got := w.sent(); len(got) != 0 {
		t.Errorf("it does not wait: %v", got)
	}
	w.stop()
	w.now.Add((2 * time.Second).Milliseconds())
	w.start()
	w.expect(sent{event.Prompt, "discord:10:b1", []string{line("7", "1", "[forwarded message] the disk is full")}})
}

// A forward that comes while an answer is in progress joins it at once.
func TestAForwardJoinsTheAnswerInProgress(t *testing.T) {
	s := router.State{Requests: []router.Request{{ID: "r1", Running: true}}}
	_, got := decided(s, router.Input{Event: router.Message{ID: "2", Mode: router.Direct, ForwardOnly: true}, Rules: rules}, at(0))
	if f, ok := got[0].(router.Forward); !ok || f.Queue != event.FollowUp {
		t.Errorf("%v", got)
	}
}
