//go:build !race

package discordtest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/disgoorg/disgo/gateway"
	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	"lilac/internal/testkit/discordtest"
)

func TestAClientThatLosesItsConnectionResumesAndMissesNothing(t *testing.T) {
	for name, drop := range map[string]discordtest.Drop{
		"cut":              discordtest.Cut,
		"op 7":             discordtest.Reconnect,
		"op 9, resumable":  discordtest.InvalidResumable,
		"4000":             discordtest.CloseWith(4000),
		"4008":             discordtest.CloseWith(4008),
		"1001, going away": discordtest.CloseWith(1001),
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, discordtest.Options{}, func(t *testing.T, s *discordtest.Server) {
				ann := s.User("ann")
				channel := s.Channel(s.Guild("home", ann), "general")
				c := connect(t, s)
				synctest.Wait()
				s.Say(channel, ann, "before", discordtest.SayOptions{})
				synctest.Wait()
				s.DropGateway(drop)
				synctest.Wait()
				s.Say(channel, ann, "meanwhile", discordtest.SayOptions{})
				c.await("the resume", func(events []event) bool { return count(events, gateway.EventTypeResumed) == 1 })
				s.Say(channel, ann, "after", discordtest.SayOptions{})
				c.await("all messages", func(events []event) bool { return len(texts(events)) == 3 })
				if diff := cmp.Diff([]string{"before", "meanwhile", "after"}, c.texts()); diff != "" {
					t.Error(diff)
				}
				if n := len(s.Identifies()); n != 1 {
					t.Errorf("%d identifies", n)
				}
			})
		})
	}
}

func TestAnInvalidSessionIsForgotten(t *testing.T) {
	for name, drop := range map[string]discordtest.Drop{
		"op 9": discordtest.Invalid,
		"4007": discordtest.CloseWith(4007),
		"4009": discordtest.CloseWith(4009),
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, discordtest.Options{}, func(t *testing.T, s *discordtest.Server) {
				ann := s.User("ann")
				channel := s.Channel(s.Guild("home", ann), "general")
				c := connect(t, s)
				synctest.Wait()
				s.DropGateway(drop)
				synctest.Wait()
				s.Say(channel, ann, "nobody hears this", discordtest.SayOptions{})
				c.await("a new session", func(events []event) bool { return count(events, gateway.EventTypeReady) == 2 })
				synctest.Wait()
				if got := c.texts(); len(got) != 0 {
					t.Errorf("heard %q", got)
				}
				if n := len(s.Identifies()); n != 2 {
					t.Errorf("%d identifies", n)
				}
			})
		})
	}
}

func TestWhatIsWrongForGoodIsSaidByItsCode(t *testing.T) {
	for name, test := range map[string]struct {
		o    discordtest.Options
		opts []gateway.ConfigOpt
		code int
	}{
		"bad token":          {o: discordtest.Options{Token: "another"}, code: 4004},
		"disallowed intents": {o: discordtest.Options{WithoutMessageContent: true}, code: 4014},
		"invalid intents":    {opts: []gateway.ConfigOpt{gateway.WithIntents(1 << 30)}, code: 4013},
		"invalid shard":      {opts: []gateway.ConfigOpt{gateway.WithShardID(3)}, code: 4010},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, test.o, func(t *testing.T, s *discordtest.Server) {
				c := prepare(t, s, test.opts...)
				var closed *websocket.CloseError
				if err := c.gateway.Open(t.Context()); !errors.As(err, &closed) || closed.Code != test.code {
					t.Errorf("open: %v, want code %d", err, test.code)
				}
				if ids := s.Identifies(); len(ids) != 1 || ids[0].Accepted {
					t.Errorf("identifies %v", ids)
				}
			})
		})
	}
}

func TestASilentGatewaySaysNothingAndLosesNothing(t *testing.T) {
	inFakeTime(t, discordtest.Options{}, func(t *testing.T, s *discordtest.Server) {
		ann := s.User("ann")
		channel := s.Channel(s.Guild("home", ann), "general")
		c := connect(t, s)
		synctest.Wait()
		s.Silence(true)
		s.Say(channel, ann, "into the void", discordtest.SayOptions{})
		synctest.Wait()
		if got := c.texts(); len(got) != 0 {
			t.Fatalf("heard %q", got)
		}
		// The library notices that heartbeats are not acknowledged and closes the
		// connection. A new connection receives no Hello.
		time.Sleep(3 * time.Minute)
		if s.Connected() != 0 {
			t.Error("still connected")
		}
		s.Silence(false)
		c.await("the resume", func(events []event) bool { return count(events, gateway.EventTypeResumed) == 1 })
		if diff := cmp.Diff([]string{"into the void"}, c.texts()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAHalfOpenConnectionStillCarriesEvents(t *testing.T) {
	inFakeTime(t, discordtest.Options{}, func(t *testing.T, s *discordtest.Server) {
		ann := s.User("ann")
		channel := s.Channel(s.Guild("home", ann), "general")
		c := connect(t, s)
		s.HoldAcks(true)
		s.Say(channel, ann, "still here", discordtest.SayOptions{})
		c.await("the message", func(events []event) bool { return len(texts(events)) == 1 })
		time.Sleep(2 * time.Minute)
		s.HoldAcks(false)
		c.await("the resume", func(events []event) bool { return count(events, gateway.EventTypeResumed) >= 1 })
	})
}

func TestADayOfHeartbeatsTakesAMoment(t *testing.T) {
	inFakeTime(t, discordtest.Options{}, func(t *testing.T, s *discordtest.Server) {
		connect(t, s)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		// One day has 86,400 s; one heartbeat is due every 41.25 s.
		if n := s.Heartbeats(); n < 2090 || n > 2096 || s.Connected() != 1 || len(s.Identifies()) != 1 {
			t.Errorf("%d heartbeats, %d connected, %d identifies", n, s.Connected(), len(s.Identifies()))
		}
	})
}

func TestTooManyIdentifiesAreAViolation(t *testing.T) {
	inFakeTime(t, discordtest.Options{IdentifiesPerDay: 2}, func(t *testing.T, s *discordtest.Server) {
		identify := func() error {
			c := prepare(t, s)
			err := c.gateway.Open(t.Context())
			c.gateway.Close(context.Background())
			return err
		}
		for range 2 {
			if err := identify(); err != nil {
				t.Fatal(err)
			}
		}
		if err := identify(); !websocket.IsCloseError(errors.Unwrap(err), 4004) {
			t.Errorf("the third: %v", err)
		}
		if v := s.TakeViolations(); len(v) != 1 || !strings.Contains(v[0], "identifies") {
			t.Errorf("violations %q", v)
		}
		time.Sleep(24 * time.Hour)
		if err := identify(); err != nil {
			t.Errorf("the next day: %v", err)
		}
	})
}

func TestIdentifiesThatComeTooFastAreInvalidSessions(t *testing.T) {
	inFakeTime(t, discordtest.Options{IdentifyEvery: 5 * time.Second}, func(t *testing.T, s *discordtest.Server) {
		connect(t, s)
		connect(t, s)
		var accepted []bool
		for _, id := range s.Identifies() {
			accepted = append(accepted, id.Accepted)
		}
		if len(accepted) < 3 || !accepted[0] || accepted[1] || !accepted[len(accepted)-1] {
			t.Errorf("accepted %v", accepted)
		}
	})
}

func TestPlannedDropsHitTheNextConnections(t *testing.T) {
	inFakeTime(t, discordtest.Options{}, func(t *testing.T, s *discordtest.Server) {
		s.RefuseGateway(1)
		s.DropNext(discordtest.Invalid, discordtest.CloseWith(4000))
		connect(t, s)
		if n := len(s.Identifies()); n != 3 {
			t.Errorf("%d identifies", n)
		}
	})
}

func TestWithoutTheContentIntentMessagesAreEmpty(t *testing.T) {
	inFakeTime(t, discordtest.Options{WithoutMessageContent: true}, func(t *testing.T, s *discordtest.Server) {
		ann := s.User("ann")
		channel := s.Channel(s.Guild("home", ann), "general")
		c := prepare(t, s)
		c.gateway = gateway.New(discordtest.DefaultToken, func(_ gateway.Gateway, kind gateway.EventType, seq int, data gateway.EventData) {
			c.take(func() { c.events = append(c.events, event{kind, seq, data}) })
		}, gateway.WithURL(s.GatewayURL), gateway.WithCompression(gateway.CompressionZlibStream), gateway.WithLogger(quiet),
			gateway.WithDialer(&websocket.Dialer{NetDialContext: s.Dial}), gateway.WithIntents(intents&^gateway.IntentMessageContent))
		if err := c.gateway.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer c.gateway.Close(context.Background())
		s.Say(channel, ann, "plain", discordtest.SayOptions{Files: []discordtest.File{{Name: "a.txt", Data: []byte("a")}}})
		s.Say(channel, ann, s.Self().Mention()+" mention", discordtest.SayOptions{})
		s.Say(s.DM(ann), ann, "private", discordtest.SayOptions{})
		c.await("the messages", func(events []event) bool { return len(texts(events)) == 3 })
		if diff := cmp.Diff([]string{"", s.Self().Mention() + " mention", "private"}, c.texts()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestManyFaultsLoseNothing also checks the fake itself: sequence numbers have no gaps
// across every kind of drop.
func TestManyFaultsLoseNothing(t *testing.T) {
	inFakeTime(t, discordtest.Options{}, func(t *testing.T, s *discordtest.Server) {
		ann := s.User("ann")
		channel := s.Channel(s.Guild("home", ann), "general")
		c := connect(t, s)
		ways := []discordtest.Drop{discordtest.Cut, discordtest.Reconnect, discordtest.InvalidResumable, discordtest.CloseWith(4000)}
		var want []string
		for i := range 60 {
			for range 3 {
				want = append(want, fmt.Sprint("message ", len(want)))
				s.Say(channel, ann, want[len(want)-1], discordtest.SayOptions{})
			}
			s.DropGateway(ways[i%len(ways)])
			want = append(want, fmt.Sprint("message ", len(want)))
			s.Say(channel, ann, want[len(want)-1], discordtest.SayOptions{})
			c.await("the resume", func(events []event) bool { return count(events, gateway.EventTypeResumed) == i+1 })
		}
		c.await("every message", func(events []event) bool { return len(texts(events)) >= len(want) })
		got := slices.Compact(c.texts())
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}
