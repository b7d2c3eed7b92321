//go:build !race

package discordtest_test

import (
	"testing"

	"github.com/disgoorg/disgo/discord"
	"github.com/disgoorg/disgo/gateway"
	"github.com/google/go-cmp/cmp"

	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/effort"
)

func TestTheRealLibraryConnectsHearsAndAnswers(t *testing.T) {
	effort.SkipSlow(t)
	s := discordtest.New(t, discordtest.Options{})
	ann := s.User("ann")
	guild := s.Guild("home", ann)
	channel := s.Channel(guild, "general")
	c := connect(t, s)
	s.AwaitConnected(t)
	c.await("the guild", func(events []event) bool { return count(events, gateway.EventTypeGuildCreate) == 1 })

	asked := s.Say(channel, ann, s.Self().Mention()+" hello", discordtest.SayOptions{})
	c.await("the message", func(events []event) bool { return len(texts(events)) == 1 })
	if got := c.texts()[0]; got != s.Self().Mention()+" hello" {
		t.Errorf("text %q", got)
	}
	sent, err := c.CreateMessage(id(channel), discord.MessageCreate{
		Content: "hi " + ann.Mention(), Nonce: "n1", EnforceNonce: true, AllowedMentions: &discord.AllowedMentions{Parse: []discord.AllowedMentionType{}},
		MessageReference: &discord.MessageReference{MessageID: ptr(id(asked))},
	})
	if err != nil {
		t.Fatal(err)
	}
	edited := "better"
	if _, err := c.UpdateMessage(id(channel), sent.ID, discord.MessageUpdate{
		Content: &edited, AllowedMentions: &discord.AllowedMentions{Parse: []discord.AllowedMentionType{}},
	}); err != nil {
		t.Fatal(err)
	}
	m := s.AwaitMessage(t, channel, "the edit", func(m discordtest.Message) bool { return m.Content == "better" })
	if diff := cmp.Diff([]string{"hi " + ann.Mention()}, m.History); diff != "" || m.ReplyTo != asked || len(m.Pings) != 0 {
		t.Errorf("message %+v: %s", m, diff)
	}
	c.await("the own message", func(events []event) bool {
		return count(events, gateway.EventTypeMessageCreate) == 2 && count(events, gateway.EventTypeMessageUpdate) == 1
	})
}
