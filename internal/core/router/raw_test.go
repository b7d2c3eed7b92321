package router_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/router"
	"lilac/internal/core/surface"
	"lilac/internal/foundation/event"
)

// raws returns the facts of the runner's inputs.
func (w *world) raws() (out []router.RequestFacts) {
	w.t.Helper()
	w.eachInput(func(_ string, p event.Payload) {
		m, ok := p.(event.RequestMessage)
		if !ok {
			return
		}
		var raw map[string]router.RequestFacts
		if err := json.Unmarshal(m.Raw, &raw); err != nil {
			w.t.Fatalf("raw is %s: %v", m.Raw, err)
		}
		out = append(out, raw["discord"])
	})
	return out
}

// The runner's input says why the message reaches the agent, who wrote it, and how the session
// listens.
func TestARequestSaysWhyItWasMade(t *testing.T) {
	facts := func(trigger router.Trigger, mode router.Mode, author string, ids ...string) router.RequestFacts {
		return router.RequestFacts{MessageIDs: ids, Trigger: trigger, Mode: mode, UserID: author, UserName: "name" + author}
	}
	for name, c := range map[string]struct {
		mode router.Mode
		do   func(w *world)
		want []router.RequestFacts
	}{
		"a mention": {router.Mention, func(w *world) { w.say("1", "7", "<@900> hello", mentioned) }, []router.RequestFacts{facts(router.TriggerMention, router.Mention, "7", "1")}},
		"a reply": {router.Mention, func(w *world) {
			w.put(surface.Message{Platform: "discord", ChannelID: "10", ID: "1", AuthorID: self, AuthorName: "lilac", FromSelf: true, Text: "hi"})
			w.say("2", "7", "why?", surface.Facts{ReplyToBot: true, ReplyToMessageID: "1"})
		}, []router.RequestFacts{facts(router.TriggerReply, router.Mention, "7", "1", "2")}},
		"a mention in a reply": {router.Mention, func(w *world) {
			w.put(surface.Message{Platform: "discord", ChannelID: "10", ID: "1", AuthorID: self, AuthorName: "lilac", FromSelf: true, Text: "hi"})
			w.say("2", "7", "<@900> why?", surface.Facts{MentionsBot: true, ReplyToBot: true, ReplyToMessageID: "1"})
		}, []router.RequestFacts{facts(router.TriggerMention, router.Mention, "7", "1", "2")}},
		"a private message": {router.Mention, func(w *world) {
			w.say("1", "7", "hello", surface.Facts{IsDMBased: true})
		}, []router.RequestFacts{facts(router.TriggerDM, router.Direct, "7", "1")}},
		"an active session": {router.Active, func(w *world) {
			w.say("1", "7", "hello", surface.Facts{})
			w.settled()
			w.say("2", "8", "<@900> hello", mentioned)
		}, []router.RequestFacts{facts(router.TriggerMention, router.Active, "8", "1", "2")}},
		"an interruption": {router.Mention, func(w *world) {
			w.say("1", "7", "<@900> hello", mentioned)
			w.settled()
			w.lifecycle("discord:10:1", event.StateRunning)
			w.settled()
			w.say("2", "8", "<@900> !int stop", mentioned)
		}, []router.RequestFacts{facts(router.TriggerMention, router.Mention, "7", "1"), facts(router.TriggerCommand, router.Mention, "8", "2")}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.mode = c.mode
			w.start()
			c.do(w)
			w.eventually(func() bool { return len(w.raws()) == len(c.want) })
			if diff := cmp.Diff(c.want, w.raws()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
