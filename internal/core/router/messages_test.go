package router_test

import (
	"slices"
	"testing"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/store"
)

// An edit that adds the mention begins exactly one request, however often the
// message is edited afterwards, and even if its mention is removed and added
// again.
func TestAnEditThatAddsAMentionBeginsOneRequest(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.say("1", "7", "one", surface.Facts{})
	w.settled()
	w.expect()
	added := surface.Facts{MentionsBot: true, MentionAdded: true}
	w.editWith("1", "7", "<@900> one", 5, added)
	w.settled()
	w.expect(sent{event.Prompt, "discord:10:1", []string{line("7", "1", "one")}})
	w.lifecycle("discord:10:1", event.StateRunning)
	w.settled()
	w.editWith("1", "7", "one", 6, surface.Facts{})
	w.editWith("1", "7", "<@900> one", 7, added)
	w.settled()
	w.expect(sent{event.Prompt, "discord:10:1", []string{line("7", "1", "one")}})
}

// A claimed reply begins no request, but can be routed later.
func TestAClaimedReplyBeginsNoRequest(t *testing.T) {
	for name, takes := range map[string]bool{"taken": true, "the control": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var asked []string
			w.claim = func(_ *db.Tx, m surface.Message) (bool, error) {
				asked = append(asked, m.ID+" to "+m.ReplyTo+" by "+m.AuthorID)
				return takes, nil
			}
			toUs := surface.Facts{ReplyToBot: true, ReplyToMessageID: "5"}
			program, ours := toUs, toUs
			program.AuthorIsBot, ours.AuthorIsSelf = true, true
			w.start()
			w.say("6", "7", "Tuesday", toUs)
			w.say("7", "8", "beep", program)
			w.say("8", self, "and?", ours)
			w.say("9", "7", "just talk", surface.Facts{})
			w.settled()
			if want := []string{"6 to 5 by 7"}; !slices.Equal(asked, want) {
				t.Errorf("asked about %q, not %q", asked, want)
			}
			if got := len(w.sent()); got != map[bool]int{true: 0, false: 1}[takes] {
				t.Errorf("%d requests", got)
			}
			takes = false
			if err := w.db.Update(t.Context(), func(tx *db.Tx) error {
				m, err := (store.SurfaceCache{}).Message(tx, "discord", "10", "6")
				if err != nil {
					return err
				}
				return w.svc.Route(tx, m)
			}); err != nil {
				t.Fatal(err)
			}
			w.expect(sent{event.Prompt, "discord:10:6", []string{line("7", "6", "Tuesday")}})
		})
	}
}
