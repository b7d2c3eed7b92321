package discord_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	"lilac/internal/surfaces/discord"
	"lilac/internal/testkit/discordtest"
)

// advice joins the failed findings with the suggested fixes.
func advice(findings []discord.Finding) string {
	var b strings.Builder
	for _, f := range findings {
		if !f.OK {
			b.WriteString(f.What + ": " + f.Do + "\n")
		}
	}
	return b.String()
}

// withoutRoles removes the roles from servers.
type withoutRoles struct{ http.RoundTripper }

func (t withoutRoles) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(r)
	if err != nil || path.Base(path.Dir(r.URL.Path)) != "guilds" {
		return response, err
	}
	var guild map[string]any
	err = json.NewDecoder(response.Body).Decode(&guild)
	delete(guild, "roles")
	data, _ := json.Marshal(guild) // it was JSON
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	return response, err
}

func TestCheckSaysWhatToClick(t *testing.T) {
	for _, c := range []struct {
		name  string
		world discordtest.Options
		set   func(w *world, o *discord.Options)
		want  []string
	}{
		{"nothing is wrong", discordtest.Options{}, func(*world, *discord.Options) {}, nil},
		{"a wrong token", discordtest.Options{}, func(_ *world, o *discord.Options) { o.Token = "wrong" }, []string{"Reset Token"}},
		{"a missing intent", discordtest.Options{WithoutMessageContent: true}, func(*world, *discord.Options) {}, []string{"Message Content Intent", "/bot"}},
		{"nobody allowed", discordtest.Options{}, func(_ *world, o *discord.Options) { o.AllowedGuildIDs = nil }, []string{"allowedGuildIds"}},
		{
			"a permission that the channel takes away",
			discordtest.Options{},
			func(w *world, _ *discord.Options) {
				w.server.Deny(w.channel, w.server.Self().ID, discordtest.AttachFiles|discordtest.SendMessages)
			},
			[]string{"#general", "“Send Messages”, “Attach Files”", "Edit Channel"},
		},
		{
			"a channel that the bot cannot see",
			discordtest.Options{},
			func(w *world, o *discord.Options) {
				o.AllowedGuildIDs, o.AllowedChannelIDs = nil, []string{w.channel}
				w.server.Deny(w.channel, w.server.Self().ID, discordtest.ViewChannel)
			},
			[]string{"not in the channel", "View Channel"},
		},
		{
			"a server that the bot is not in",
			discordtest.Options{},
			func(_ *world, o *discord.Options) { o.AllowedGuildIDs = []string{"1234567890"} },
			[]string{"oauth2/authorize", "the server 1234567890"},
		},
		{
			"a channel among the servers",
			discordtest.Options{},
			func(w *world, o *discord.Options) { o.AllowedGuildIDs = []string{w.channel} },
			[]string{"not a server but the channel #general", "allowedChannelIds"},
		},
		{
			"a channel that is hidden from others and shown to the bot's role",
			discordtest.Options{},
			func(w *world, o *discord.Options) {
				o.AllowedGuildIDs, o.AllowedChannelIDs = nil, []string{w.channel}
				w.server.Deny(w.channel, w.guild, discordtest.ViewChannel)
				w.server.Allow(w.channel, w.server.Role(w.guild, 0, w.server.Self().ID), discordtest.ViewChannel)
			},
			nil,
		},
		{
			"a thread",
			discordtest.Options{},
			func(w *world, o *discord.Options) {
				o.AllowedGuildIDs, o.AllowedChannelIDs = nil, []string{w.server.Thread(w.channel, "talk")}
				w.server.Deny(w.channel, w.server.Self().ID, discordtest.SendInThreads)
			},
			[]string{"the thread “talk” of #general", "right-click #general", "“Send Messages in Threads”"},
		},
		{
			"a permission in a voice channel, where people write too",
			discordtest.Options{},
			func(w *world, _ *discord.Options) {
				w.server.Deny(w.server.Voice(w.guild, "lounge"), w.server.Self().ID, discordtest.SendMessages|discordtest.SendInThreads)
			},
			[]string{"in #lounge of home the bot lacks “Send Messages”: "},
		},
		{
			"voice channels that the bot is kept out of",
			discordtest.Options{},
			func(w *world, _ *discord.Options) {
				w.server.Deny(w.server.Voice(w.guild, "lounge"), w.guild, discordtest.Connect)
				w.server.Deny(w.server.Voice(w.guild, "board"), w.guild, discordtest.ViewChannel)
			},
			nil,
		},
		{
			"a timeout of the bot",
			discordtest.Options{},
			func(w *world, _ *discord.Options) {
				w.server.TimeOut(w.guild, w.server.Self().ID, time.Now().Add(time.Hour))
			},
			[]string{"timed the bot out in the server home", "Remove Timeout"},
		},
		{
			"a timeout that is over",
			discordtest.Options{},
			func(w *world, _ *discord.Options) {
				w.server.TimeOut(w.guild, w.server.Self().ID, time.Now().Add(-time.Hour))
			},
			nil,
		},
		{
			"a server that lists its roles only on request",
			discordtest.Options{},
			func(_ *world, o *discord.Options) { o.HTTP = &http.Client{Transport: withoutRoles{o.HTTP.Transport}} },
			nil,
		},
		{
			"a permission in many channels",
			discordtest.Options{},
			func(w *world, _ *discord.Options) {
				for i := range 70 {
					if channel := w.server.Channel(w.guild, fmt.Sprint("room-", i)); i >= 47 {
						w.server.Deny(channel, w.server.Self().ID, discordtest.SendMessages)
					}
				}
			},
			[]string{"#room-47", "#room-66", "the bot lacks permissions in 3 more channels of home: Do the same there"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.world)
			o := w.options()
			c.set(w, &o)
			got := advice(discord.Check(t.Context(), o))
			if c.want == nil && got != "" {
				t.Errorf("found %s", got)
			}
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("found %q, which does not say %q", got, want)
				}
			}
		})
	}
}
