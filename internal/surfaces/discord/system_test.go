package discord_test

import (
	"testing"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/discordtest"
)

// A message that Discord itself wrote, such as one about a pin, is nobody's words. The control is
// the same text of a person.
func TestSystemMessagesAreNoMessages(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	w.connected(w.options())
	for _, kind := range []int{6, 7, 8, 12, 18} {
		w.server.Say(w.channel, w.ann, "written by Discord", discordtest.SayOptions{Rich: discordtest.Rich{System: kind}})
	}
	w.server.Say(w.channel, w.ann, "written by Ann", discordtest.SayOptions{})
	w.hears("written by Ann")
	w.hearsOnly("written by Ann")
}

// An update that has only the changed fields is completed: the event names the author, and knows
// what the message replies to.
func TestAPartialUpdateOfAReplyIsCompleted(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	a, _ := w.connected(w.options())
	self, _ := a.Self()
	first := w.server.Say(w.channel, w.bob, "who is on call?", discordtest.SayOptions{})
	reply := w.server.Say(w.channel, w.ann, "nobody", discordtest.SayOptions{ReplyTo: first})
	w.hears("nobody")
	w.server.EditPart(w.channel, reply, "<@"+self.ID+"> knows")
	w.await("the edit", func() bool { return len(w.published(event.AdapterMessageUpdated)) == 1 })
	m := w.published(event.AdapterMessageUpdated)[0].(event.AdapterMessage)
	if m.UserID != w.ann.ID || m.UserName != "Ann" || m.Text != "<@"+self.ID+"> knows" {
		t.Errorf("the event is %+v", m)
	}
	cached, err := w.cached(w.channel, reply)
	if err != nil || cached.AuthorID != w.ann.ID || cached.ReplyTo != first || cached.EditedAt == 0 {
		t.Errorf("the cache has %+v, %v", cached, err)
	}
}
