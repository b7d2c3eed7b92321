package companion_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"lilac/internal/engine/companion"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/faultproxy"
	"lilac/internal/testkit/redistest"
)

func TestEveryEventIsMirroredAtItsPosition(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server.URL())
	w.publish(topic, "e", 1000)
	w.publish("cmd.request", "c", 5)
	w.same(server, topic)
	w.same(server, "cmd.request")
	w.says("")
	entry := server.Do("XRANGE", "lilac:s:env", "7-0", "7-0").([]any)[0].([]any)[1].([]any)
	var e event.Event
	if err := json.Unmarshal([]byte(entry[5].(string)), &e); err != nil || e.ID != "e6" || e.Topic != topic || string(e.Type) != entry[3] || len(e.Data) == 0 {
		t.Errorf("the entry is %q: %+v, %v", entry, e, err)
	}
	until(t, "nothing waits", func() bool { return w.redis.Stats().Lag == 0 })
}

// What happens to Redis is repaired, whether or not something is published meanwhile.
func TestTheMirrorIsRepaired(t *testing.T) {
	t.Parallel()
	for name, strike := range map[string]func(s *redistest.Server){
		"a deleted key":          func(s *redistest.Server) { s.Do("DEL", "lilac:s:env") },
		"a flush":                (*redistest.Server).FlushAll,
		"an older state":         (*redistest.Server).Forget,
		"a restart":              func(s *redistest.Server) { s.Kill(); s.Restart() },
		"a restart with nothing": func(s *redistest.Server) { s.Rollback(redistest.Snapshot{}) },
		"a foreign entry":        func(s *redistest.Server) { s.Do("XADD", "lilac:s:env", "*", "hello", "world") },
		"a hundred of them":      func(s *redistest.Server) { addForeign(s, 100) },
		"one at the next place": func(s *redistest.Server) {
			s.Do("XADD", "lilac:s:env", "21-0", "id", "mine", "type", "x", "event", "{}")
		},
		"one between": func(s *redistest.Server) { s.Do("XADD", "lilac:s:env", "20-7", "id", "mine") },
		"a group on nothing": func(s *redistest.Server) {
			s.Do("DEL", "lilac:s:env")
			s.Do("XGROUP", "CREATE", "lilac:s:env", "g", "0", "MKSTREAM")
		},
		"cut connections": func(s *redistest.Server) { s.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") },
	} {
		for _, busy := range []bool{false, true} {
			t.Run(fmt.Sprint(name, "/busy=", busy), func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t, redistest.Options{})
				w := newWorld(t, server.URL())
				w.publish(topic, "before", 10)
				w.same(server, topic)
				server.Remember()
				w.publish(topic, "later", 10)
				w.same(server, topic)
				strike(server)
				if busy {
					w.publish(topic, "after", 10)
				}
				w.same(server, topic)
				w.publish(topic, "more", 10)
				w.same(server, topic)
			})
		}
	}
}

func addForeign(s *redistest.Server, n int) {
	for range n {
		s.Do("XADD", "lilac:s:env", "*", "hello", "world")
	}
}

// Control: without the check every few seconds, a deleted key would stay deleted while nothing
// is published. It is noticed within seconds.
func TestADeletedKeyIsNoticedWithinSeconds(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server.URL())
	w.close()
	w.opt.CheckEvery = 0 // the default
	w.start()
	w.publish(topic, "e", 3)
	w.same(server, topic)
	began := time.Now()
	server.Do("DEL", "lilac:s:env")
	w.same(server, topic)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}

// A foreign entry is named, kept, and stops nothing: groups read what they have not read, once
// more what they have not acknowledged, and nothing else.
func TestAForeignEntryIsNamedAndStopsNothing(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server.URL())
	w.publish(topic, "e", 5)
	w.same(server, topic)
	for _, group := range []string{"open", "done"} {
		server.Do("XGROUP", "CREATE", "lilac:s:env", group, "0")
		server.Do("XREADGROUP", "GROUP", group, "me", "COUNT", "3", "STREAMS", "lilac:s:env", ">")
		server.Do("XACK", "lilac:s:env", group, "1-0")
	}
	server.Do("XREADGROUP", "GROUP", "done", "me", "STREAMS", "lilac:s:env", ">")
	server.Do("XACK", "lilac:s:env", "done", "2-0", "3-0", "4-0", "5-0")
	id := server.Do("XADD", "lilac:s:env", "*", "hello", "world").(string)
	server.Do("XREADGROUP", "GROUP", "done", "me", "STREAMS", "lilac:s:env", ">")
	w.says("newest is " + id + " of lilac:s:env")
	w.same(server, topic)
	w.publish(topic, "more", 2)
	w.same(server, topic)
	for group, want := range map[string]string{"open": "2-0 3-0 4-0 5-0 6-0 7-0", "done": "6-0 7-0"} {
		if got := reads(server, group); got != want {
			t.Errorf("the group %s reads %s, want %s", group, got, want)
		}
	}
	kept := fmt.Sprint(server.Do("XRANGE", "lilac:in:dead", "-", "+"))
	if !strings.Contains(kept, id) || !strings.Contains(kept, `{"hello":"world"}`) {
		t.Errorf("kept is %s", kept)
	}
	found, err := companion.Inspect(t.Context(), companion.Options{URL: server.URL()})
	if err != nil || !strings.Contains(found.Unused, id) {
		t.Errorf("a look finds %+v, %v", found, err)
	}
	server.Do("DEL", "lilac:in:dead")
	w.says("")
}

// reads returns the ids that a group reads next.
func reads(s *redistest.Server, group string) string {
	reply, _ := s.Do("XREADGROUP", "GROUP", group, "me", "STREAMS", "lilac:s:env", ">").([]any)
	var ids []string
	for _, stream := range reply {
		for _, e := range stream.([]any)[1].([]any) {
			ids = append(ids, e.([]any)[0].(string))
		}
	}
	return strings.Join(ids, " ")
}

func TestAKeyOfAnotherTypeIsNamedAndStopsItsTopicAlone(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	server.Do("SET", "lilac:s:env", "mine")
	w := newWorld(t, server.URL())
	w.publish(topic, "e", 3)
	w.publish("cmd.request", "c", 3)
	w.same(server, "cmd.request")
	w.says("lilac:s:env is no stream")
	server.Do("DEL", "lilac:s:env")
	w.same(server, topic)
	w.says("")
}

// A restart continues after the last entry, also when events were published without Redis.
func TestARestartContinues(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server.URL())
	w.publish(topic, "e", 300)
	w.same(server, topic)
	server.Do("XGROUP", "CREATE", "lilac:s:env", "g", "$")
	w.close()
	server.Kill()
	w.start()
	w.publish(topic, "away", 700)
	w.says("cannot be reached")
	if lag := w.redis.Stats().Lag; lag < 700 {
		t.Errorf("the lag is %d", lag)
	}
	server.Restart()
	w.same(server, topic)
	w.says("")
	if got := len(strings.Fields(reads(server, "g"))); got != 700 {
		t.Errorf("a group reads %d events, want 700: the stream was not continued", got)
	}
}

// A slow or full Redis delays nobody who publishes, and gets everything later.
func TestPublishersDoNotWaitForRedis(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server.URL())
	w.publish(topic, "e", 1)
	w.same(server, topic)
	for name, c := range map[string]struct {
		begin, end func()
		says       string
	}{
		"paused": {server.Pause, server.Resume, "cannot be reached"},
		"full":   {func() { server.Do("CONFIG", "SET", "maxmemory", "1") }, func() { server.Do("CONFIG", "SET", "maxmemory", "0") }, "used up its memory"},
	} {
		c.begin()
		began := time.Now()
		w.publish(topic, name, 2000)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: publishing took %s", name, took)
		}
		w.says(c.says)
		c.end()
		w.same(server, topic)
		w.says("")
	}
}

// What the log has trimmed is trimmed in Redis, too, and a lost stream begins after it.
func TestTheMirrorIsTrimmed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server.URL())
	w.publish(topic, "e", 20)
	w.same(server, topic)
	w.close()
	w.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	w.start()
	if _, err := w.bus.Trim(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.publish(topic, "new", 3)
	if len(w.logged(topic)) != 3 {
		t.Fatal("control: the log was not trimmed")
	}
	server.Do("DEL", "lilac:s:env")
	w.same(server, topic)
	w.close()
	w.start()
	w.same(server, topic)
}

// Outputs are mirrored while they grow, and expire.
func TestOutputsExpire(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server.URL())
	output := event.OutputTopic("web:s:1")
	w.publish(output, "d", 5)
	w.same(server, output)
	key := "lilac:s:" + string(output)
	if ttl := server.Do("TTL", key).(int64); ttl < 3000 || ttl > 3600 {
		t.Errorf("a growing output expires in %d s", ttl)
	}
	server.Do("DEL", key)
	w.publish(output, "more", 1)
	w.same(server, output)
	last, err := event.New(event.Meta{ID: "end", Time: time.Now(), Headers: event.RequestHeaders("web:s:1", "s", "web")}, event.FinalText{FinalText: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.bus.Publish(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	w.same(server, output)
	until(t, "the ended output expires sooner", func() bool { ttl := server.Do("TTL", key).(int64); return ttl > 800 && ttl <= 900 })
}

// An output that ended before the start is not sent again and again when it expires in Redis.
func TestAnEndedOutputIsNotSentForever(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server.URL())
	output := event.OutputTopic("web:s:1")
	w.publish(output, "d", 5)
	w.publish(topic, "e", 5)
	w.same(server, output)
	w.close()
	w.start()
	w.same(server, topic)
	until(t, "all is compared", func() bool { s := w.redis.Stats(); return s.Up && s.Lag == 0 })
	w.publish(topic, "more", 1)
	w.same(server, topic)
	server.Do("DEL", "lilac:s:"+string(output)) // as if it had expired
	server.Do("DEL", "lilac:s:env")
	w.same(server, topic) // the check has come
	w.publish(topic, "last", 1)
	w.same(server, topic)
	if server.Do("EXISTS", "lilac:s:"+string(output)) != int64(0) {
		t.Error("it is there again")
	}
}

// Only one store uses a prefix; the other one is told, and works.
func TestAPrefixHasOneOwner(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server.URL())
	w.publish(topic, "e", 3)
	w.same(server, topic)
	other := newWorld(t, server.URL())
	other.publish(topic, "other", 5)
	other.says("belongs to another store (" + w.db.StoreID())
	w.publish(topic, "more", 3)
	w.same(server, topic)
	w.close()
	server.Do("DEL", "lilac:owner")
	other.same(server, topic)
}

// onSlowLink starts a companion whose link to Redis moves 400,000 bytes per second.
func onSlowLink(t *testing.T, replyWithin time.Duration) (*redistest.Server, *world) {
	t.Helper()
	server := redistest.Start(t, redistest.Options{})
	link := faultproxy.Start(t, server.Addr)
	w := &world{t: t, opt: companion.Options{URL: "redis://" + link.Addr, ReplyWithin: replyWithin}, dir: t.TempDir(), age: time.Hour, now: time.Now}
	w.start()
	t.Cleanup(w.close)
	w.says("")
	link.Limit(400_000)
	return server, w
}

// What is too much for a slow link in one exchange is sent in several.
func TestASlowLinkGetsSmallerExchanges(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel()
	server, w := onSlowLink(t, 500*time.Millisecond)
	events := bustest.Events(topic, "e", 256)
	for i := range events {
		events[i].Data = fmt.Appendf(nil, "%q", strings.Repeat("x", 4000))
	}
	if err := w.bus.Publish(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
	w.same(server, topic)
	w.says("")
}

// An event cannot be divided. It gets more time until it arrives, in both directions.
func TestASlowLinkMovesALargeEvent(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel()
	server, w := onSlowLink(t, 250*time.Millisecond)
	events := bustest.Events(topic, "e", 3)
	events[1].Data = fmt.Appendf(nil, "%q", strings.Repeat("x", 600_000))
	if err := w.bus.Publish(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
	w.same(server, topic)
	server.Do("XADD", "lilac:in", "*", "event", `{"id":"large","type":"x.y","payload":"`+strings.Repeat("x", 1_000_000)+`"}`)
	w.empty(server)
	w.says("")
	if got := w.taken(); len(got) != 1 || got[0] != "large" {
		t.Errorf("%d events were taken", len(got))
	}
}
