package discord_test

import (
	"context"
	"strings"
	"testing"

	"lilac/internal/foundation/fault"
	"lilac/internal/surfaces/discord"
	"lilac/internal/testkit/discordtest"
)

func TestASurveyListsServersChannelsAndTheInvitation(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	o := w.options()
	o.AllowedGuildIDs = nil
	s, err := discord.InspectBot(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if s.Bot == "" || !strings.Contains(s.Invite, "oauth2/authorize?client_id=") || len(s.Servers) != 1 || len(s.Servers[0].Channels) == 0 || advice(s.Findings) != "" {
		t.Errorf("the survey is %+v", s)
	}
	if c := s.Servers[0].Channels[0]; c.ID != w.channel || c.Missing != "" {
		t.Errorf("the first channel is %+v, want %s", c, w.channel)
	}
	w.server.Deny(w.channel, w.server.Self().ID, discordtest.SendMessages)
	if s, err = discord.InspectBot(context.Background(), o); err != nil || !strings.Contains(s.Servers[0].Channels[0].Missing, "Send Messages") {
		t.Errorf("without a permission, the survey is %+v, error %v", s, err)
	}
	o.Token = "wrong"
	if _, err := discord.InspectBot(context.Background(), o); fault.KindOf(err) != fault.Unauthenticated {
		t.Errorf("a wrong token: %v", err)
	}
}
