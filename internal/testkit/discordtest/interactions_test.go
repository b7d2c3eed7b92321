//go:build !race

package discordtest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/disgoorg/disgo/discord"
	"github.com/disgoorg/disgo/gateway"
	"github.com/google/go-cmp/cmp"

	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/effort"
)

// interaction waits for the n-th interaction that the client receives.
func (c *client) interaction(n int) (i discord.Interaction) {
	c.t.Helper()
	c.await("an interaction", func(events []event) bool {
		var all []discord.Interaction
		for _, e := range events {
			if told, ok := e.data.(gateway.EventInteractionCreate); ok {
				all = append(all, told.Interaction)
			}
		}
		if len(all) > n {
			i = all[n]
		}
		return i != nil
	})
	return i
}

// sendButton sends a message with the button "stop:1".
func (c *client) sendButton(channel string) *discord.Message {
	c.t.Helper()
	m := safe("thinking")
	m.Components = []discord.LayoutComponent{discord.NewActionRow(discord.NewDangerButton("Stop", "stop:1"))}
	sent, err := c.CreateMessage(id(channel), m)
	if err != nil {
		c.t.Fatal(err)
	}
	return sent
}

func TestAButtonIsPressedAndAnswered(t *testing.T) {
	inFakeTime(t, discordtest.Options{}, func(t *testing.T, s *discordtest.Server) {
		ann := s.User("ann")
		channel := s.Channel(s.Guild("home", ann), "general")
		c := connect(t, s)
		sent := c.sendButton(channel)
		acknowledge := discord.InteractionResponse{Type: discord.InteractionResponseTypeDeferredUpdateMessage}
		pressed := s.Press(channel, sent.ID.String(), ann.ID, "stop:1")
		i, fine := c.interaction(0).(discord.ComponentInteraction)
		if !fine || i.Data.CustomID() != "stop:1" || i.User().ID.String() != ann.ID || i.Message.ID != sent.ID ||
			i.Member().Permissions&discord.PermissionManageMessages == 0 {
			t.Fatalf("interaction %+v", i)
		}
		if err := c.CreateInteractionResponse(i.ID(), i.Token(), acknowledge); err != nil {
			t.Fatal(err)
		}
		if got := s.AwaitInteraction(t, pressed); got.Kind != 6 {
			t.Errorf("interaction %+v", got)
		}
		if err := c.CreateInteractionResponse(i.ID(), i.Token(), acknowledge); err == nil {
			t.Error("it was answered twice")
		} else if _, code := codeOf(t, err); code != 40060 {
			t.Error(err)
		}
		late := s.Press(channel, sent.ID.String(), ann.ID, "stop:1")
		again := c.interaction(1)
		time.Sleep(4 * time.Second)
		if err := c.CreateInteractionResponse(again.ID(), again.Token(), acknowledge); err == nil {
			t.Error("it was answered after three seconds")
		} else if _, code := codeOf(t, err); code != 10062 || s.Interaction(late).Acked {
			t.Error(err)
		}
		synctest.Wait()
	})
}

// A person cannot use a command before the bot has registered it.
func TestACommandIsUsedOnceItIsRegistered(t *testing.T) {
	inFakeTime(t, discordtest.Options{}, func(t *testing.T, s *discordtest.Server) {
		ann := s.User("ann")
		channel := s.Channel(s.Guild("home", ann), "general")
		c := connect(t, s)
		used := make(chan string, 1)
		go func() { used <- s.Slash(channel, ann.ID, "status", nil) }()
		synctest.Wait()
		select {
		case <-used:
			t.Fatal("a command was used that is not registered")
		default:
		}
		if _, err := c.SetGlobalCommands(id(s.Self().ID), []discord.ApplicationCommandCreate{
			discord.SlashCommandCreate{Name: "status", Description: "Shows what runs."},
		}); err != nil {
			t.Fatal(err)
		}
		if given := c.interaction(0); given.ID().String() != <-used {
			t.Errorf("the bot got the interaction %s", given.ID())
		}
	})
}

func TestCommandsAreGivenAndAnswered(t *testing.T) {
	effort.SkipSlow(t)
	s, channel, ann := place(t, discordtest.Options{AnswerWithin: time.Minute})
	c := connect(t, s)
	app := id(s.Self().ID)
	if _, err := c.SetGlobalCommands(app, []discord.ApplicationCommandCreate{
		discord.SlashCommandCreate{Name: "status", Description: "Shows what runs."}, discord.MessageCommandCreate{Name: "Ask about this"},
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"status", "Ask about this"}, s.Commands()); diff != "" {
		t.Error(diff)
	}
	given := s.Slash(channel, ann.ID, "status", map[string]string{"of": "all"})
	i, fine := c.interaction(0).(discord.ApplicationCommandInteraction)
	if !fine || i.SlashCommandInteractionData().String("of") != "all" || i.Channel().ID().String() != channel {
		t.Fatalf("interaction %+v", i)
	}
	reply := safe("Nothing runs.")
	reply.Flags = discord.MessageFlagEphemeral
	if err := c.CreateInteractionResponse(i.ID(), i.Token(), discord.InteractionResponse{
		Type: discord.InteractionResponseTypeCreateMessage, Data: reply,
	}); err != nil {
		t.Fatal(err)
	}
	if got := s.AwaitInteraction(t, given); !got.Ephemeral || len(got.Messages) != 1 || got.Messages[0].Content != "Nothing runs." || len(s.Ours(channel)) != 0 {
		t.Errorf("interaction %+v", got)
	}

	private := s.DM(ann)
	said := s.Say(private, ann, "what is this?", discordtest.SayOptions{})
	asked := s.Menu(private, said, ann.ID, "Ask about this")
	menu, fine := c.interaction(1).(discord.ApplicationCommandInteraction)
	if !fine || menu.MessageCommandInteractionData().TargetMessage().Content != "what is this?" || menu.User().ID.String() != ann.ID {
		t.Fatalf("interaction %+v", menu)
	}
	if err := c.CreateInteractionResponse(menu.ID(), menu.Token(), discord.InteractionResponse{Type: discord.InteractionResponseTypeDeferredCreateMessage}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.UpdateInteractionResponse(app, menu.Token(), discord.MessageUpdate{Content: ptr("a question"), AllowedMentions: nobody()}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateFollowupMessage(app, menu.Token(), safe("and more")); err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, m := range s.Interaction(asked).Messages {
		shown = append(shown, m.Content)
	}
	if diff := cmp.Diff([]string{"a question", "and more"}, shown); diff != "" || len(s.Ours(private)) != 2 {
		t.Error(diff)
	}
}

func TestEventsOfTheWorldAreTold(t *testing.T) {
	effort.SkipSlow(t)
	s, channel, ann := place(t, discordtest.Options{})
	guild := s.Guild("other", ann)
	c := connect(t, s, gateway.WithIntents(gateway.IntentGuildMembers, gateway.IntentGuildMessageTyping))
	s.AwaitConnected(t)
	said := s.Say(channel, ann, "hello", discordtest.SayOptions{})
	more := s.Say(channel, ann, "more", discordtest.SayOptions{})
	last := s.Say(channel, ann, "last", discordtest.SayOptions{})
	s.Edit(channel, said, "hello!")
	s.React(channel, said, ann, "👍")
	s.Unreact(channel, said, ann, "👍")
	s.Delete(channel, said)
	s.Delete(channel, more, last)
	s.Type(channel, ann)
	thread := s.Thread(channel, "talk")
	s.RenameChannel(thread, "talks")
	s.DeleteChannel(thread)
	fresh := s.Channel(guild, "fresh")
	s.RenameChannel(fresh, "older")
	s.DeleteChannel(fresh)
	s.Join(guild, s.User("bob"), "bobby")
	s.Rename(guild, ann.ID, "annie")
	want := []gateway.EventType{
		"READY", "GUILD_CREATE", "GUILD_CREATE", "MESSAGE_CREATE", "MESSAGE_CREATE", "MESSAGE_CREATE", "MESSAGE_UPDATE",
		"MESSAGE_REACTION_ADD", "MESSAGE_REACTION_REMOVE", "MESSAGE_DELETE", "MESSAGE_DELETE_BULK", "TYPING_START",
		"THREAD_CREATE", "THREAD_UPDATE", "THREAD_DELETE", "CHANNEL_CREATE", "CHANNEL_UPDATE", "CHANNEL_DELETE",
		"GUILD_MEMBER_ADD", "GUILD_MEMBER_UPDATE",
	}
	var got []gateway.EventType
	c.await("all events", func(events []event) bool {
		got = nil
		for _, e := range events {
			got = append(got, e.kind)
		}
		return len(got) >= len(want)
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTheWorldCanBeRead(t *testing.T) {
	s, channel, ann := place(t, discordtest.Options{})
	c := restOnly(t, s)
	thread := s.Thread(channel, "talk")
	got, err := c.GetChannel(id(thread))
	if err != nil || got.Name() != "talk" || got.Type() != discord.ChannelTypeGuildPublicThread {
		t.Errorf("thread %+v, %v", got, err)
	}
	parent, err := c.GetChannel(id(channel))
	if err != nil {
		t.Fatal(err)
	}
	guild := parent.(discord.GuildChannel).GuildID()
	if g, err := c.GetGuild(guild, false); err != nil || g.Name != "home" || len(g.Roles) != 1 {
		t.Errorf("guild %+v, %v", g, err)
	}
	if m, err := c.GetMember(guild, id(ann.ID)); err != nil || m.User.Username != "ann" {
		t.Errorf("member %+v, %v", m, err)
	}
	if list, err := c.GetGuildChannels(guild); err != nil || len(list) != 1 {
		t.Errorf("channels %v, %v", list, err)
	}
	if b, err := c.GetGatewayBot(); err != nil || b.URL != s.GatewayURL || b.SessionStartLimit.Remaining != 1000 {
		t.Errorf("gateway %+v, %v", b, err)
	}
	if dm, err := c.CreateDMChannel(id(ann.ID)); err != nil || dm.ID().String() != s.DM(ann) {
		t.Errorf("private channel %+v, %v", dm, err)
	}
}

// Most libraries ask for the message that a response made or changed ("with_response").
func TestAResponseIsDescribedWhereTheClientAsksForThat(t *testing.T) {
	inFakeTime(t, discordtest.Options{}, func(t *testing.T, s *discordtest.Server) {
		ann := s.User("ann")
		channel := s.Channel(s.Guild("home", ann), "general")
		c := connect(t, s)
		sent := c.sendButton(channel)
		for n, want := range []string{"told", "changed"} {
			response := discord.InteractionResponse{Type: discord.InteractionResponseTypeCreateMessage, Data: safe(want)}
			if want == "changed" {
				response = discord.InteractionResponse{Type: discord.InteractionResponseTypeUpdateMessage, Data: discord.MessageUpdate{
					Content: &want, AllowedMentions: &discord.AllowedMentions{Parse: []discord.AllowedMentionType{}},
				}}
			}
			s.Press(channel, sent.ID.String(), ann.ID, "stop:1")
			i := c.interaction(n)
			got, err := c.CreateInteractionResponseWithCallback(i.ID(), i.Token(), response)
			if err != nil {
				t.Fatal(err)
			}
			if got.Interaction.ID != i.ID() || got.Resource == nil || got.Resource.Message == nil || got.Resource.Message.Content != want {
				t.Errorf("%s: the response is %+v", want, got)
			}
		}
	})
}
