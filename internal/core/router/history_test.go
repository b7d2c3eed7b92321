package router_test

import (
	"slices"
	"strings"
	"testing"

	"lilac/internal/core/router"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/store"
)

func TestAMentionBeginsARequestWithItsReplyChain(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.say("1", "7", "the build is red", surface.Facts{})
	w.say("2", "8", "<@900> why?", surface.Facts{MentionsBot: true, ReplyToMessageID: "1"})
	w.say("3", "8", "<@900> !int stop", mentioned)
	w.expect(
		sent{event.Prompt, "discord:10:2", []string{line("7", "1", "the build is red"), line("8", "2", "why?")}},
		sent{event.Interrupt, "discord:10:2", []string{line("8", "3", "stop")}},
	)
}

// However it is written, what interrupts does not reach the model with the word.
func TestTheInterruptCommandIsRemoved(t *testing.T) {
	w := newWorld(t)
	w.start()
	dm := surface.Facts{IsDMBased: true}
	w.say("1", "7", "what is there?", dm)
	w.settled()
	w.say("2", "7", "!int the attic", dm)
	w.say("3", "7", "<@900>, !int\nthe cellar", surface.Facts{IsDMBased: true, MentionsBot: true})
	w.expect(
		sent{event.Prompt, "discord:10:1", []string{line("7", "1", "what is there?")}},
		sent{event.Interrupt, "discord:10:1", []string{line("7", "2", "the attic")}},
		sent{event.Interrupt, "discord:10:1", []string{line("7", "3", "the cellar")}},
	)
}

func TestMessagesInTheHistoryAreNotForwardedAgain(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.say("1", "7", "<@900> one", mentioned)
	w.say("2", "7", "<@900> two", surface.Facts{MentionsBot: true, ReplyToMessageID: "1"})
	w.expect(
		sent{event.Prompt, "discord:10:1", []string{line("7", "1", "one")}},
		sent{event.Prompt, "discord:10:2", []string{line("7", "2", "(in reply to name7: \"<@900> one\")\ntwo")}},
	)
}

// What the history holds of an answer of ours is not said again; of one that is
// no part of it, because the session was deleted, the text is.
func TestAnAnswerOfOursIsForwardedIfTheHistoryLacksIt(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world)
		want   []string
	}{
		"held":    {func(*world) {}, []string{line("7", "3", "(in reply to lilac: \"All is well.\")\nand now?")}},
		"deleted": {func(w *world) { w.deleteSession() }, []string{line("7", "1", "how is it?"), "All is well.", line("7", "3", "and now?")}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.start()
			w.say("1", "7", "<@900> how is it?", mentioned)
			w.settled()
			w.answer("discord:10:1", "2", "1", "All is well.")
			w.lifecycle("discord:10:1", event.StateDone)
			w.settled()
			c.change(w)
			w.say("3", "7", "and now?", surface.Facts{ReplyToBot: true, ReplyToMessageID: "2"})
			w.settled()
			if got := w.sent(); len(got) != 2 || !slices.Equal(got[1].Texts, c.want) {
				t.Errorf("the runner received %q", got)
			}
		})
	}
}

// The platform tells of a message before it answers the call that made it, and
// a reply may come in between: nothing has said yet that it is an output.
func TestAReplyToACachedAnswerJoinsItsRequest(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.say("1", "7", "<@900> how is it?", mentioned)
	w.settled()
	w.answer("discord:10:1", "2", "1", "All is")
	w.say("3", "7", "and here?", surface.Facts{ReplyToBot: true, ReplyToMessageID: "2"})
	w.say("4", "7", "<@900> only here", surface.Facts{ReplyToBot: true, MentionsBot: true, ReplyToMessageID: "2"})
	w.expect(
		sent{event.Prompt, "discord:10:1", []string{line("7", "1", "how is it?")}},
		sent{event.FollowUp, "discord:10:1", []string{line("7", "3", "and here?")}},
		sent{event.Steer, "discord:10:1", []string{line("7", "4", "only here")}},
	)
}

// Also while a request runs: what the history holds of that is named, the rest
// is said. In the answer that it joins nothing needs a name.
func TestAMessageThatJoinsARequestQuotesItsTarget(t *testing.T) {
	w := newWorld(t)
	w.mode = router.Active
	w.start()
	w.say("1", "7", "<@900> the roof leaks", mentioned)
	w.settled()
	w.lifecycle("discord:10:1", event.StateDone)
	w.settled()
	w.say("2", "8", "<@900> how is the cellar?", mentioned)
	w.settled()
	// A message that the gate has skipped is in the cache alone.
	w.put(surface.Message{Platform: "discord", ChannelID: "10", ID: "3", AuthorID: "9", AuthorName: "name9", Text: "the chimney fell"})
	w.say("4", "7", "what does that cost?", surface.Facts{ReplyToMessageID: "1"})
	w.say("5", "7", "<@900> who pays?", surface.Facts{MentionsBot: true, ReplyToMessageID: "3"})
	w.say("6", "7", "<@900> !int and for this?", surface.Facts{MentionsBot: true, ReplyToMessageID: "3"})
	w.answer("discord:10:2", "7", "2", "It is dry.")
	w.say("8", "8", "continue", surface.Facts{ReplyToBot: true, ReplyToMessageID: "7"})
	w.expect(
		sent{event.Prompt, "discord:10:1", []string{line("7", "1", "the roof leaks")}},
		sent{event.Prompt, "discord:10:2", []string{line("8", "2", "how is the cellar?")}},
		sent{event.FollowUp, "discord:10:2", []string{line("7", "4", "(in reply to name7: \"<@900> the roof leaks\")\nwhat does that cost?")}},
		sent{event.Steer, "discord:10:2", []string{line("9", "3", "the chimney fell"), line("7", "5", "who pays?")}},
		sent{event.Interrupt, "discord:10:2", []string{line("7", "6", "(in reply to name9: \"the chimney fell\")\nand for this?")}},
		sent{event.FollowUp, "discord:10:2", []string{line("8", "8", "continue")}},
	)
}

func TestAskingAboutAMessageInTheHistoryQuotesIt(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.say("1", "7", "<@900> how is it?", mentioned)
	w.settled()
	w.answer("discord:10:1", "2", "1", "All is well.")
	var m surface.Message
	if err := w.db.Read(t.Context(), func(q db.Queryer) (err error) {
		m, err = (store.SurfaceCache{}).Message(q, "discord", "10", "2")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.db.Update(t.Context(), func(tx *db.Tx) error { return w.svc.Ask(tx, m, surface.User{ID: "8", Name: "bob"}) }); err != nil {
		t.Fatal(err)
	}
	got := w.sent()
	if len(got) != 2 || len(got[1].Texts) != 1 || !strings.Contains(got[1].Texts[0], "(in reply to lilac: \"All is well.\")") {
		t.Errorf("the runner received %q", got)
	}
}
