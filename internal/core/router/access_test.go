package router_test

import (
	"context"
	"testing"

	"lilac/internal/core/router"
	"lilac/internal/core/surface"
	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

// forwarded returns the messages for the runner by their id.
func (w *world) forwarded() map[string]event.RequestMessage {
	w.t.Helper()
	out := map[string]event.RequestMessage{}
	after := bus.Position("")
	for {
		found, err := w.bus.Fetch(context.Background(), event.TopicCmdRequest, after, 100)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(found) == 0 {
			return out
		}
		for _, d := range found {
			after = d.Position
			if p, err := event.Decode(d.Event); err == nil {
				if m, is := p.(event.RequestMessage); is {
					out[m.MessageID] = m
				}
			}
		}
	}
}

// Ann has the role 10, Bob has none. The last message is everybody's, to see that the ones
// before it were handled.
func TestWhoMayTalkAndForWhomTheAgentActs(t *testing.T) {
	const ann, bob, last = "1", "2", "3"
	people := func(allow ...string) surface.People { return surface.People{Allow: append(allow, "user:"+last)} }
	for name, c := range map[string]struct {
		talk, act      surface.People
		heard, actsFor string // of "ab"
	}{
		"control: everybody":     {surface.People{}, surface.People{}, "ab", "ab"},
		"only a person talks":    {people("user:" + bob), surface.People{}, "b", "b"},
		"only a role talks":      {people("role:10"), surface.People{}, "a", "a"},
		"a person does not talk": {surface.People{Deny: []string{"user:" + ann}}, surface.People{}, "b", "b"},
		"only for a role":        {surface.People{}, people("role:10"), "ab", "a"},
		"not for a person":       {surface.People{}, surface.People{Deny: []string{"user:" + ann}}, "ab", "b"},
		"both":                   {people("role:10"), people("user:" + bob), "a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.talk, w.act, w.mode = c.talk, c.act, router.Mention
			w.roles = map[string][]string{ann: {"10"}, bob: {}, last: {}}
			w.start()
			mention := surface.Facts{MentionsBot: true}
			w.say("11", ann, "<@"+self+"> do it", mention)
			w.say("12", bob, "<@"+self+"> do it", mention)
			w.say("13", last, "<@"+self+"> do it", mention)
			w.eventually(func() bool { _, handled := w.forwarded()["13"]; return handled })
			got := w.forwarded()
			heard, actsFor := "", ""
			for id, letter := range map[string]string{"11": "a", "12": "b"} {
				m, ok := got[id]
				if !ok {
					continue
				}
				heard += letter
				if m.Grant.Allows("bash") {
					actsFor += letter
				}
				if !m.Grant.Allows("read") {
					t.Errorf("a request of %s may not even read", letter)
				}
			}
			if sorted(heard) != c.heard || sorted(actsFor) != c.actsFor {
				t.Errorf("heard %q, acts for %q; want %q and %q", heard, actsFor, c.heard, c.actsFor)
			}
			asks := w.db.Update(t.Context(), func(tx *db.Tx) error {
				return w.svc.Ask(tx, surface.Message{Platform: "discord", ChannelID: "10", ID: "13"}, surface.User{ID: ann, Roles: []string{"10"}})
			})
			if (asks == nil) != (c.heard == "ab" || c.heard == "a") {
				t.Errorf("asking about a message: %v", asks)
			}
		})
	}
}

func sorted(letters string) string {
	if letters == "ba" {
		return "ab"
	}
	return letters
}
