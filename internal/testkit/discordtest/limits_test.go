package discordtest_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/disgoorg/disgo/discord"
	"github.com/disgoorg/disgo/rest"

	"lilac/internal/testkit/discordtest"
)

func TestABucketIsToldByHeadersAndEnforced(t *testing.T) {
	inFakeTime(t, discordtest.Options{}, func(t *testing.T, s *discordtest.Server) {
		channel := s.Channel(s.Guild("home"), "general")
		var last http.Header
		c := restOnly(t, s, rest.WithHTTPClient(&http.Client{Transport: seeing(&last, s)}))
		for range 5 {
			if _, err := c.CreateMessage(id(channel), safe("x")); err != nil {
				t.Fatal(err)
			}
		}
		if last.Get("X-RateLimit-Remaining") != "0" || last.Get("X-RateLimit-Limit") != "5" || last.Get("X-RateLimit-Reset-After") != "5.000" {
			t.Errorf("headers %v", last)
		}
		// A request that crosses with the headers on the network is not a violation. A later one is.
		for _, avoidable := range []int{0, 1} {
			_, err := c.CreateMessage(id(channel), safe("x"))
			if err == nil {
				t.Fatal("a sixth message was taken")
			}
			if status, _ := codeOf(t, err); status != 429 {
				t.Error(err)
			}
			if last.Get("Via") == "" || last.Get("Retry-After") != "5" || last.Get("X-RateLimit-Scope") != "user" {
				t.Errorf("headers %v", last)
			}
			if v := s.TakeViolations(); len(v) != avoidable {
				t.Errorf("violations %q, want %d", v, avoidable)
			}
			time.Sleep(200 * time.Millisecond)
		}
		s.Forgotten() // a restarted program could not read the headers
		if _, err := c.CreateMessage(id(channel), safe("x")); err == nil || len(s.Violations()) > 0 {
			t.Errorf("%v, violations %q", err, s.Violations())
		}
		if _, err := c.CreateMessage(id(s.Channel(s.Guild("other"), "general")), safe("x")); err != nil {
			t.Errorf("another channel: %v", err)
		}
		time.Sleep(5 * time.Second)
		if _, err := c.CreateMessage(id(channel), safe("x")); err != nil {
			t.Error(err)
		}
	})
}

func TestMoreThanFiftyRequestsASecondAreAViolation(t *testing.T) {
	inFakeTime(t, discordtest.Options{}, func(t *testing.T, s *discordtest.Server) {
		guild := s.Guild("home")
		c := restOnly(t, s)
		for i := range 51 {
			channel := s.Channel(guild, "general")
			if _, err := c.GetChannel(id(channel)); (err == nil) != (i < 50) {
				t.Fatalf("request %d: %v", i, err)
			}
		}
		if v := s.TakeViolations(); len(v) != 1 || !strings.Contains(v[0], "more than 50") {
			t.Errorf("violations %q", v)
		}
		time.Sleep(time.Second)
		if _, err := c.GetCurrentUser(""); err != nil {
			t.Error(err)
		}
	})
}

func TestFaultsHappenToTheRouteTheyWerePlannedFor(t *testing.T) {
	inFakeTime(t, discordtest.Options{Limits: unlimited}, func(t *testing.T, s *discordtest.Server) {
		channel := s.Channel(s.Guild("home"), "general")
		c := restOnly(t, s)
		send := func(text string) error {
			_, err := c.CreateMessage(id(channel), safe(text))
			return err
		}
		const route = "POST /channels/{channel}/messages"
		s.FailNext(route, discordtest.ServerError)
		s.FailNext(route, discordtest.CutBefore)
		s.FailNext(route, discordtest.CutAfter)
		s.FailNext(route, discordtest.Fault{RetryAfter: 2 * time.Second, Global: true})
		s.FailNext(route, discordtest.Fault{Delay: time.Hour})
		if _, err := c.GetChannel(id(channel)); err != nil {
			t.Errorf("another route: %v", err)
		}
		if status, _ := codeOf(t, send("refused")); status != 500 {
			t.Errorf("status %d", status)
		}
		for _, text := range []string{"never arrived", "carried out"} {
			if send(text) == nil {
				t.Errorf("%s: it was answered", text)
			}
		}
		if status, _ := codeOf(t, send("limited")); status != 429 {
			t.Errorf("status %d", status)
		}
		started := time.Now()
		if err := send("slow"); err != nil || time.Since(started) < time.Hour {
			t.Errorf("after %v: %v", time.Since(started), err)
		}
		var shown []string
		for _, m := range s.Ours(channel) {
			shown = append(shown, m.Content)
		}
		if strings.Join(shown, ", ") != "carried out, slow" {
			t.Errorf("shown %q", shown)
		}
		synctest.Wait()
	})
}

func TestAHookRunsBetweenCarryingOutAndAnswering(t *testing.T) {
	s, channel, _ := place(t, discordtest.Options{})
	var seen []discordtest.Carried
	s.OnCarriedOut(func(done discordtest.Carried) {
		if len(s.Ours(channel)) != 1 {
			t.Error("nothing was carried out yet")
		}
		seen = append(seen, done)
	})
	if _, err := restOnly(t, s).CreateMessage(id(channel), safe("x")); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 1 || seen[0].Message.Content != "x" || seen[0].Route != "POST /channels/{channel}/messages" {
		t.Errorf("hooks %+v", seen)
	}
}

func TestAWrongTokenIsUnauthorized(t *testing.T) {
	s := discordtest.New(t, discordtest.Options{Token: "another"})
	_, err := restOnly(t, s).GetCurrentUser("")
	if err == nil {
		t.Fatal("it was let in")
	}
	if status, _ := codeOf(t, err); status != 401 {
		t.Error(err)
	}
}

func TestReactionsTypingAndCommands(t *testing.T) {
	s, channel, ann := place(t, discordtest.Options{Limits: map[string]discordtest.Limit{
		"PUT /channels/{channel}/messages/{message}/reactions/{emoji}/@me": {}, "DELETE /channels/{channel}/messages/{message}/reactions/{emoji}/@me": {},
	}})
	c := restOnly(t, s)
	said := s.Say(channel, ann, "hello", discordtest.SayOptions{})
	if err := c.AddReaction(id(channel), id(said), "👀"); err != nil {
		t.Fatal(err)
	}
	users, err := c.GetReactions(id(channel), id(said), "👀", 0, 0, 10)
	if err != nil || len(users) != 1 || users[0].ID.String() != s.Self().ID {
		t.Errorf("users %v, %v", users, err)
	}
	if err := c.AddReaction(id(channel), id(said), "eyes"); err == nil {
		t.Error("a name was taken as an emoji")
	}
	if err := c.RemoveOwnReaction(id(channel), id(said), "👀"); err != nil {
		t.Fatal(err)
	}
	if m, _ := s.Message(channel, said); len(m.Reactions) != 0 {
		t.Errorf("reactions %v", m.Reactions)
	}
	if err := c.SendTyping(id(channel)); err != nil {
		t.Error(err)
	}
	app, err := c.GetCurrentApplication()
	if err != nil || app.Flags&discord.ApplicationFlagGatewayMessageContentLimited == 0 {
		t.Errorf("application %+v, %v", app, err)
	}
	if _, err := c.SetGlobalCommands(app.ID, []discord.ApplicationCommandCreate{discord.SlashCommandCreate{Name: "Bad Name", Description: "x"}}); err == nil {
		t.Error("a bad name was taken")
	}
	if _, err := c.SetGlobalCommands(app.ID, []discord.ApplicationCommandCreate{
		discord.SlashCommandCreate{Name: "stop", Description: "Stops."}, discord.MessageCommandCreate{Name: "Ask about this"},
	}); err != nil {
		t.Error(err)
	}
	commands, err := c.GetGlobalCommands(app.ID, false)
	if err != nil || len(commands) != 2 || s.CommandWrites() != 1 {
		t.Errorf("commands %v, %v", commands, err)
	}
}

// seeing returns a transport that stores the headers of the last response.
func seeing(last *http.Header, s *discordtest.Server) http.RoundTripper {
	transport := &http.Transport{DialContext: s.Dial, DisableKeepAlives: true}
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		res, err := transport.RoundTrip(r)
		if err == nil {
			*last = res.Header
		}
		return res, err
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
