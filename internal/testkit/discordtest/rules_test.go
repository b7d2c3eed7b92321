package discordtest_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/effort"
)

func TestAClientWithoutHeartbeatsIsCutOff(t *testing.T) {
	inFakeTime(t, discordtest.Options{}, func(t *testing.T, s *discordtest.Server) {
		ws := dial(t, s, "?v=10&encoding=json")
		if err := readUntilClosed(ws); !websocket.IsCloseError(err, 4009) {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestTheGatewayRefusesWhatDiscordRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		query string
		send  []string
		code  int
	}{
		"unknown opcode":    {"?v=10&encoding=json", []string{`{"op":99}`}, 4001},
		"no JSON":           {"?v=10&encoding=json", []string{`{`}, 4002},
		"too long":          {"?v=10&encoding=json", []string{`{"op":1,"d":"` + strings.Repeat("x", 4096) + `"}`}, 4002},
		"not authenticated": {"?v=10&encoding=json", []string{`{"op":3,"d":{}}`}, 4003},
		"identified twice": {"?v=10&encoding=json", []string{
			`{"op":2,"d":{"token":"fake-bot-token","intents":1,"properties":{}}}`, `{"op":2,"d":{"token":"fake-bot-token","intents":1,"properties":{}}}`,
		}, 4005},
		"wrong version": {"?v=6&encoding=json", nil, 4012},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, discordtest.Options{}, func(t *testing.T, s *discordtest.Server) {
				ws := dial(t, s, test.query)
				for _, text := range test.send {
					if err := ws.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
						t.Fatal(err)
					}
				}
				if err := readUntilClosed(ws); !websocket.IsCloseError(err, test.code) {
					t.Errorf("ended with %v, want %d", err, test.code)
				}
			})
		})
	}
}

func TestTooManyGatewayEventsAreAViolation(t *testing.T) {
	inFakeTime(t, discordtest.Options{}, func(t *testing.T, s *discordtest.Server) {
		ws := dial(t, s, "?v=10&encoding=json")
		read := make(chan error, 1)
		go func() { read <- readUntilClosed(ws) }()
		for range 121 {
			if err := ws.WriteMessage(websocket.TextMessage, []byte(`{"op":1,"d":null}`)); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-read; !websocket.IsCloseError(err, 4008) {
			t.Errorf("ended with %v", err)
		}
		if v := s.TakeViolations(); len(v) != 1 {
			t.Errorf("violations %q", v)
		}
	})
}

func dial(t *testing.T, s *discordtest.Server, query string) *websocket.Conn {
	t.Helper()
	d := websocket.Dialer{NetDialContext: s.Dial}
	ws, res, err := d.DialContext(t.Context(), s.GatewayURL+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	t.Cleanup(func() { _ = ws.Close() })
	return ws
}

func readUntilClosed(ws *websocket.Conn) error {
	for {
		if _, _, err := ws.ReadMessage(); err != nil {
			return err
		}
	}
}

// hear reads payloads until one of the given kind arrives. An empty kind matches payloads
// that are not events.
func hear(t *testing.T, ws *websocket.Conn, kind string) (seq int, d json.RawMessage, heard []string) {
	t.Helper()
	for {
		var p struct {
			T string          `json:"t"`
			S int             `json:"s"`
			D json.RawMessage `json:"d"`
		}
		if err := ws.ReadJSON(&p); err != nil {
			t.Fatalf("after %q: %v", heard, err)
		}
		heard = append(heard, p.T)
		if p.T == kind {
			return p.S, p.D, heard
		}
	}
}

func TestAResumeReplaysWhatCameAfterASequence(t *testing.T) {
	inFakeTime(t, discordtest.Options{}, func(t *testing.T, s *discordtest.Server) {
		ann := s.User("ann")
		channel := s.Channel(s.Guild("home", ann), "general")
		ws := dial(t, s, "?v=10&encoding=json")
		say := func(ws *websocket.Conn, text string) {
			t.Helper()
			if err := ws.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		say(ws, `{"op":2,"d":{"token":"fake-bot-token","intents":513,"properties":{}}}`)
		_, d, _ := hear(t, ws, "READY")
		var ready struct {
			Session string `json:"session_id"`
		}
		if err := json.Unmarshal(d, &ready); err != nil {
			t.Fatal(err)
		}
		s.Say(channel, ann, "one", discordtest.SayOptions{})
		seq, _, _ := hear(t, ws, "MESSAGE_CREATE")
		s.DropGateway(discordtest.Cut)
		s.Say(channel, ann, "two", discordtest.SayOptions{})
		s.Say(channel, ann, "three", discordtest.SayOptions{})

		again := dial(t, s, "?v=10&encoding=json")
		resume, err := json.Marshal(map[string]any{"op": 6, "d": map[string]any{"token": discordtest.DefaultToken, "session_id": ready.Session, "seq": seq}})
		if err != nil {
			t.Fatal(err)
		}
		say(again, string(resume))
		last, _, heard := hear(t, again, "RESUMED")
		if diff := cmp.Diff([]string{"", "MESSAGE_CREATE", "MESSAGE_CREATE", "RESUMED"}, heard); diff != "" || last != seq+3 {
			t.Errorf("sequence %d: %s", last, diff)
		}
		time.Sleep(time.Second)
		synctest.Wait()
	})
}

func TestAHeartbeatCanBeAskedFor(t *testing.T) {
	inFakeTime(t, discordtest.Options{}, func(t *testing.T, s *discordtest.Server) {
		ws := dial(t, s, "?v=10&encoding=json")
		hear(t, ws, "")
		s.AskHeartbeat()
		var p struct {
			Op int `json:"op"`
		}
		if err := ws.ReadJSON(&p); err != nil || p.Op != 1 {
			t.Errorf("op %d, %v", p.Op, err)
		}
	})
}

func TestTenThousandInvalidRequestsAreAViolation(t *testing.T) {
	effort.SkipSlow(t)
	inFakeTime(t, discordtest.Options{GlobalPerSecond: -1, Limits: map[string]discordtest.Limit{"GET /users/@me": {}}}, func(t *testing.T, s *discordtest.Server) {
		c := restOnly(t, s)
		s.Fail("GET /users/@me", discordtest.MissingAccess, 10_001)
		for i := range 10_001 {
			if _, err := c.GetCurrentUser(""); err == nil {
				t.Fatal("it was taken")
			}
			if v := s.Violations(); len(v) > 0 && i < 10_000 {
				t.Fatalf("request %d: %q", i, v)
			}
		}
		// The server counts the last response only after it has written it.
		synctest.Wait()
		if v := s.TakeViolations(); len(v) != 1 || !strings.Contains(v[0], "bans") {
			t.Errorf("violations %q", v)
		}
	})
}
