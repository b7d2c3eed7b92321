package discordtest_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/disgoorg/disgo/discord"
	"github.com/disgoorg/disgo/rest"
	"github.com/disgoorg/snowflake/v2"
	"github.com/google/go-cmp/cmp"

	"lilac/internal/testkit/discordtest"
)

// safe builds a message that cannot ping anyone.
func safe(text string) discord.MessageCreate {
	return discord.MessageCreate{Content: text, AllowedMentions: nobody()}
}

func nobody() *discord.AllowedMentions {
	return &discord.AllowedMentions{Parse: []discord.AllowedMentionType{}}
}

// place starts a fake with one guild, one channel and one user.
func place(t *testing.T, o discordtest.Options) (s *discordtest.Server, channel string, ann discordtest.User) {
	t.Helper()
	s = discordtest.New(t, o)
	ann = s.User("ann")
	return s, s.Channel(s.Guild("home", ann), "general"), ann
}

func codeOf(t *testing.T, err error) (status, code int) {
	t.Helper()
	var refused *rest.Error
	if !errors.As(err, &refused) {
		t.Fatalf("error %v is none of Discord's", err)
	}
	return refused.Response.StatusCode, int(refused.Code)
}

func TestANonceMakesOneMessageWhileItIsRemembered(t *testing.T) {
	inFakeTime(t, discordtest.Options{}, func(t *testing.T, s *discordtest.Server) {
		channel := s.Channel(s.Guild("home"), "general")
		c := restOnly(t, s)
		send := func(enforce bool) string {
			m := safe("once")
			m.Nonce, m.EnforceNonce = "act-1", enforce
			sent, err := c.CreateMessage(id(channel), m)
			if err != nil {
				t.Fatal(err)
			}
			if string(sent.Nonce) != "act-1" {
				t.Errorf("answered nonce %q", sent.Nonce)
			}
			return sent.ID.String()
		}
		first := send(true)
		if again := send(true); again != first {
			t.Error("the same nonce made another message")
		}
		if unforced := send(false); unforced == first {
			t.Error("control: a nonce that is not enforced made no message")
		}
		read, err := c.GetMessage(id(channel), id(first))
		if err != nil || read.Nonce != "" {
			t.Errorf("read again: %v, %v", read, err)
		}
		time.Sleep(4 * time.Minute)
		if late := send(true); late == first {
			t.Error("a nonce is enforced for ever")
		}
		if n := len(s.Ours(channel)); n != 3 {
			t.Errorf("%d messages", n)
		}
	})
}

// unlimited disables the rate limits of the routes that these tests call often.
var unlimited = map[string]discordtest.Limit{
	"POST /channels/{channel}/messages": {}, "GET /channels/{channel}/messages": {}, "PATCH /channels/{channel}/messages/{message}": {},
	"DELETE /channels/{channel}/messages/{message}": {},
}

func TestMessagesThatDiscordRefuses(t *testing.T) {
	s, channel, ann := place(t, discordtest.Options{Limits: unlimited})
	c := restOnly(t, s)
	asked := s.Say(channel, ann, "hello", discordtest.SayOptions{})
	with := func(change func(*discord.MessageCreate)) discord.MessageCreate {
		m := safe("text")
		change(&m)
		return m
	}
	for name, test := range map[string]struct {
		channel      string
		message      discord.MessageCreate
		status, code int
	}{
		"empty":               {channel, safe(" \n"), 400, 50006},
		"2001 units":          {channel, safe(strings.Repeat("x", 2001)), 400, 50035},
		"2002 units of emoji": {channel, safe(strings.Repeat("😀", 1001)), 400, 50035},
		"nonce of 26":         {channel, with(func(m *discord.MessageCreate) { m.Nonce = strings.Repeat("n", 26) }), 400, 50035},
		"11 files":            {channel, with(func(m *discord.MessageCreate) { m.Files = files(11) }), 400, 30015},
		"a file of 11 MiB": {channel, with(func(m *discord.MessageCreate) {
			m.Files = []*discord.File{discord.NewFile("big", "", bytes.NewReader(make([]byte, 11<<20)))}
		}), 413, 40005},
		"users twice": {channel, with(func(m *discord.MessageCreate) {
			m.AllowedMentions = &discord.AllowedMentions{Parse: []discord.AllowedMentionType{"users"}, Users: []snowflake.ID{id(ann.ID)}}
		}), 400, 50035},
		"six buttons in a row": {channel, with(func(m *discord.MessageCreate) {
			row := discord.ActionRowComponent{}
			for i := range 6 {
				row.Components = append(row.Components, discord.NewPrimaryButton("b", fmt.Sprint(i)))
			}
			m.Components = []discord.LayoutComponent{row}
		}), 400, 50035},
		"one custom id twice": {channel, with(func(m *discord.MessageCreate) {
			m.Components = []discord.LayoutComponent{discord.NewActionRow(discord.NewPrimaryButton("a", "x"), discord.NewPrimaryButton("b", "x"))}
		}), 400, 50035},
		"a reply to nothing": {channel, with(func(m *discord.MessageCreate) {
			m.MessageReference = &discord.MessageReference{MessageID: ptr(snowflake.ID(5)), FailIfNotExists: true}
		}), 400, 50035},
		"no channel": {"5", safe("text"), 404, 10003},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.CreateMessage(id(test.channel), test.message)
			if err == nil {
				t.Fatal("it was taken")
			}
			if status, code := codeOf(t, err); status != test.status || code != test.code {
				t.Errorf("refused with %d, %d: %v", status, code, err)
			}
		})
	}
	if _, err := c.UpdateMessage(id(channel), id(asked), discord.MessageUpdate{Content: ptr("mine"), AllowedMentions: nobody()}); err == nil {
		t.Error("somebody's message was edited")
	} else if _, code := codeOf(t, err); code != 50005 {
		t.Error(err)
	}
	if err := c.DeleteMessage(id(channel), id(asked)); err == nil {
		t.Error("somebody's message was deleted")
	} else if _, code := codeOf(t, err); code != 50013 {
		t.Error(err)
	}
	if n := len(s.Ours(channel)); n != 0 {
		t.Errorf("%d messages were made", n)
	}
}

func files(n int) (all []*discord.File) {
	for i := range n {
		all = append(all, discord.NewFile(fmt.Sprint(i, ".txt"), "", strings.NewReader(fmt.Sprint("file ", i))))
	}
	return all
}

func TestMessagesAreTakenAtTheirLimits(t *testing.T) {
	s, channel, _ := place(t, discordtest.Options{})
	m := safe(strings.Repeat("😀", 1000))
	m.Nonce, m.Files = strings.Repeat("n", 25), files(10)
	if _, err := restOnly(t, s).CreateMessage(id(channel), m); err != nil {
		t.Fatal(err)
	}
	got := s.Ours(channel)[0]
	if len(got.Attachments) != 10 || string(s.FileData(got.Attachments[9])) != "file 9" {
		t.Errorf("message %+v", got)
	}
}

func TestRequestsThatBreakRulesAreViolations(t *testing.T) {
	s, channel, _ := place(t, discordtest.Options{})
	for name, test := range map[string]struct {
		agent   string
		message discord.MessageCreate
		want    string
	}{
		"the library's own mentions": {agent, discord.MessageCreate{Content: "x"}, "without parse: []"},
		"user agent":                 {"curl/8", safe("x"), "User-Agent"},
	} {
		t.Run(name, func(t *testing.T) {
			c := restOnly(t, s, rest.WithUserAgent(test.agent))
			if _, err := c.CreateMessage(id(channel), test.message); err != nil {
				t.Fatal(err)
			}
			if v := s.TakeViolations(); len(v) != 1 || !strings.Contains(v[0], test.want) {
				t.Errorf("violations %q", v)
			}
		})
	}
}

// TestBodiesThatTheLibraryCannotWrite covers bodies that the library cannot produce, such
// as fail_if_not_exists: false or no allowed_mentions. They are therefore written by
// hand.
func TestBodiesThatTheLibraryCannotWrite(t *testing.T) {
	s, channel, _ := place(t, discordtest.Options{})
	transport := &http.Transport{DialContext: s.Dial}
	t.Cleanup(transport.CloseIdleConnections)
	c := rest.NewClient(discordtest.DefaultToken, rest.WithURL(s.APIURL), rest.WithUserAgent(agent), rest.WithLogger(quiet),
		rest.WithRateLimiter(rest.NewNoopRateLimiter()), rest.WithHTTPClient(&http.Client{Transport: transport}))
	if err := c.Do(rest.CreateMessage.Compile(nil, channel), map[string]any{
		"content": "still", "message_reference": map[string]any{"message_id": "5", "fail_if_not_exists": false}, "allowed_mentions": map[string]any{"parse": []string{}},
	}, nil); err != nil {
		t.Error(err)
	}
	if m := s.Ours(channel); len(m) != 1 || m[0].ReplyTo != "" {
		t.Errorf("messages %+v", m)
	}
	if err := c.Do(rest.CreateMessage.Compile(nil, channel), map[string]any{"content": "@everyone"}, nil); err != nil {
		t.Error(err)
	}
	if v := s.TakeViolations(); len(v) != 1 || !strings.Contains(v[0], "no allowed_mentions") {
		t.Errorf("violations %q", v)
	}
}

func TestPingsAreWhomTheMessageMayNotify(t *testing.T) {
	s, channel, ann := place(t, discordtest.Options{})
	bob := s.User("bob")
	asked := s.Say(channel, ann, "?", discordtest.SayOptions{})
	m := safe(ann.Mention() + bob.Mention())
	m.AllowedMentions.Users = []snowflake.ID{id(bob.ID)}
	m.MessageReference = &discord.MessageReference{MessageID: ptr(id(asked))}
	if _, err := restOnly(t, s).CreateMessage(id(channel), m); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{bob.ID}, s.Ours(channel)[0].Pings); diff != "" {
		t.Error(diff)
	}
}

func TestPermissionsAreEnforced(t *testing.T) {
	s, channel, ann := place(t, discordtest.Options{Limits: unlimited})
	c := restOnly(t, s)
	thread := s.Thread(channel, "talk")
	said := s.Say(channel, ann, "hello", discordtest.SayOptions{})
	send := func(where string) error {
		_, err := c.CreateMessage(id(where), safe("x"))
		return err
	}
	expect := func(err error, want int) {
		t.Helper()
		if err == nil {
			t.Fatalf("it was allowed, want %d", want)
		}
		if _, code := codeOf(t, err); code != want {
			t.Errorf("refused with %v, want %d", err, want)
		}
	}
	s.Deny(channel, s.Self().ID, discordtest.SendInThreads)
	expect(send(thread), 50013)
	if err := send(channel); err != nil {
		t.Error(err)
	}
	s.Deny(channel, s.Self().ID, discordtest.SendMessages|discordtest.AddReactions|discordtest.ReadMessageHistory)
	expect(send(channel), 50013)
	expect(c.AddReaction(id(channel), id(said), "👍"), 50013)
	if list, err := c.GetMessages(id(channel), 0, 0, 0, 10); err != nil || len(list) != 0 {
		t.Errorf("history: %d messages, %v", len(list), err)
	}
	s.Deny(channel, s.Self().ID, discordtest.ViewChannel)
	expect(send(channel), 50001)
	s.Permit(channel, s.Self().ID, ^discordtest.Permission(0))
	if err := send(channel); err != nil {
		t.Error(err)
	}
	s.DeleteChannel(channel)
	expect(send(channel), 10003)
}

func TestHistoryIsListedAroundAnId(t *testing.T) {
	s, channel, ann := place(t, discordtest.Options{Limits: unlimited})
	c := restOnly(t, s)
	var ids []string
	for i := range 7 {
		ids = append(ids, s.Say(channel, ann, fmt.Sprint(i), discordtest.SayOptions{}))
	}
	s.Delete(channel, ids[3])
	at := func(s string) snowflake.ID {
		if s == "" {
			return 0
		}
		return id(s)
	}
	for name, test := range map[string]struct {
		around, before, after string
		limit                 int
		want                  string
	}{
		"newest":                {limit: 3, want: "654"},
		"before":                {before: ids[4], limit: 2, want: "21"},
		"after":                 {after: ids[1], limit: 3, want: "542"},
		"after one that's gone": {after: ids[3], limit: 2, want: "54"},
		"around":                {around: ids[2], limit: 3, want: "421"},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := c.GetMessages(id(channel), at(test.around), at(test.before), at(test.after), test.limit)
			if err != nil {
				t.Fatal(err)
			}
			var got string
			for _, m := range list {
				got += m.Content
			}
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestFilesAreServedAtSignedAddressesThatExpire(t *testing.T) {
	inFakeTime(t, discordtest.Options{}, func(t *testing.T, s *discordtest.Server) {
		ann := s.User("ann")
		channel := s.Channel(s.Guild("home", ann), "general")
		c := restOnly(t, s)
		png := "\x89PNG\r\n\x1a\n"
		said := s.Say(channel, ann, "look", discordtest.SayOptions{Files: []discordtest.File{{Name: "a b.png", Data: []byte(png)}}})
		read := func() string {
			m, err := c.GetMessage(id(channel), id(said))
			if err != nil || len(m.Attachments) != 1 || *m.Attachments[0].ContentType != "image/png" {
				t.Fatalf("message %+v, %v", m, err)
			}
			return m.Attachments[0].URL
		}
		client := http.Client{Transport: &http.Transport{DialContext: s.Dial, DisableKeepAlives: true}}
		get := func(url string) (int, string) {
			res, err := client.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			data, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			return res.StatusCode, string(data)
		}
		url := read()
		if status, data := get(url); status != 200 || data != png {
			t.Errorf("%d %q", status, data)
		}
		if status, _ := get(strings.Replace(url, "hm=", "hm=0", 1)); status != 404 {
			t.Errorf("forged: %d", status)
		}
		time.Sleep(25 * time.Hour)
		if status, _ := get(url); status != 404 {
			t.Errorf("expired: %d", status)
		}
		if status, _ := get(read()); status != 200 {
			t.Errorf("signed anew: %d", status)
		}
		synctest.Wait()
	})
}

func TestOldMessagesTakeFewEdits(t *testing.T) {
	inFakeTime(t, discordtest.Options{Limits: unlimited}, func(t *testing.T, s *discordtest.Server) {
		channel := s.Channel(s.Guild("home"), "general")
		c := restOnly(t, s)
		m, err := c.CreateMessage(id(channel), safe("old"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(61 * time.Minute)
		for edits := 0; err == nil && edits < 10; edits++ {
			_, err = c.UpdateMessage(id(channel), m.ID, discord.MessageUpdate{Content: ptr(fmt.Sprint(edits)), AllowedMentions: nobody()})
		}
		if err == nil {
			t.Fatal("an old message took every edit")
		}
		if status, code := codeOf(t, err); status != 429 || code != 30046 {
			t.Error(err)
		}
	})
}

func TestAGuildThatWasLeftIsUnknown(t *testing.T) {
	s, channel, ann := place(t, discordtest.Options{})
	c := restOnly(t, s)
	ch, err := c.GetChannel(id(channel))
	if err != nil {
		t.Fatal(err)
	}
	guild := ch.(discord.GuildChannel).GuildID()
	role := s.Role(guild.String(), 0, s.Self().ID)
	s.Deny(channel, role, discordtest.SendMessages)
	if ch, err = c.GetChannel(id(channel)); err != nil {
		t.Fatal(err)
	}
	if _, fine := ch.(discord.GuildChannel).PermissionOverwrites().Role(id(role)); !fine {
		t.Error("the role's overwrite is not shown as one")
	}
	if _, err := c.CreateMessage(id(channel), safe("x")); err == nil {
		t.Error("a role that may not write wrote")
	}
	s.Leave(guild.String(), ann)
	s.Leave(guild.String(), s.Self())
	if _, err := c.GetGuild(guild, false); err == nil {
		t.Error("the guild is still there")
	} else if _, code := codeOf(t, err); code != 10004 {
		t.Error(err)
	}
	if _, err := c.CreateMessage(id(channel), safe("x")); err == nil {
		t.Error("it was let in")
	} else if _, code := codeOf(t, err); code != 50001 {
		t.Error(err)
	}
}
