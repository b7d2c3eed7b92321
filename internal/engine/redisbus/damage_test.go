package redisbus_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/delivery"
	"lilac/internal/engine/redisbus"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/logtest"
	"lilac/internal/testkit/redistest"
)

// D3: a changed byte anywhere in an entry is detected, and the entry is never served.
func TestFlippedBytesOfEntriesAreFound(t *testing.T) {
	for topic, lacks := range map[event.Topic]string{plain: "lacks 1 entries", aged: "19 entries"} {
		t.Run(string(topic), func(t *testing.T) { flippedBytesAreFound(t, topic, lacks) })
	}
}

func flippedBytesAreFound(t *testing.T, topic event.Topic, lacks string) {
	flips := 100
	if bustest.Long() {
		flips = 5000
	}
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server, server.URL())
	want := bustest.Events(topic, "event-", 20)
	want[7].Data = fmt.Appendf(nil, "%q", strings.Repeat("long ", 300))
	if err := w.bus.Publish(t.Context(), want...); err != nil {
		t.Fatal(err)
	}
	verify := func() []string {
		t.Helper()
		bad, err := redisbus.Verify(t.Context(), redisbus.Options{URL: server.URL(), ReplyWithin: patience})
		if err != nil {
			t.Fatal(err)
		}
		return bad
	}
	if bad := verify(); len(bad) > 0 {
		t.Fatalf("before anything was damaged: %v", bad)
	}
	key := "lilac:s:" + string(topic)
	whole := server.Do("XRANGE", key, "-", "+").([]any)
	random := rand.New(rand.NewPCG(1, 2))
	for range flips {
		n := random.IntN(len(whole))
		entry := whole[n].([]any)
		fields := slices.Clone(entry[1].([]any))
		part := random.IntN(len(fields))
		text := []byte(fields[part].(string))
		if len(text) == 0 {
			continue
		}
		at, bit := random.IntN(len(text)), random.IntN(8)
		text[at] ^= 1 << bit
		fields[part] = string(text)
		changed := slices.Clone(whole)
		changed[n] = []any{entry[0], fields}
		rewrite(server, key, changed)
		if bad := verify(); len(bad) != 1 {
			t.Errorf("bit %d of byte %d in part %d of entry %d: found %v", bit, at, part, n, bad)
		}
		if wrong := servedWrong(t.Context(), w.bus, want); wrong != "" {
			t.Errorf("bit %d of byte %d in part %d of entry %d: %s", bit, at, part, n, wrong)
		}
	}
	rewrite(server, key, whole)
	server.Do("XDEL", key, whole[19].([]any)[0].(string))
	if bad := verify(); len(bad) != 1 || !strings.Contains(bad[0], lacks) {
		t.Errorf("without the last entry: %v", bad)
	}
	rewrite(server, key, slices.Delete(slices.Clone(whole), 3, 4))
	if bad := verify(); len(bad) != 1 || !strings.Contains(bad[0], lacks) {
		t.Errorf("without an entry in the middle: %v", bad)
	}
	rewrite(server, key, whole)
	if bad := verify(); len(bad) > 0 {
		t.Errorf("when everything is as it was: %v", bad)
	}
}

// servedWrong describes an event that differs from the published one. An event that is
// not served at all does not count.
func servedWrong(ctx context.Context, b bus.Bus, want []event.Event) string {
	got, err := b.Fetch(ctx, want[0].Topic, "", len(want))
	if err != nil {
		return ""
	}
	for i, d := range got {
		if diff := cmp.Diff(want[i], d.Event); diff != "" {
			return fmt.Sprintf("event %d (-want +got):\n%s", i, diff)
		}
	}
	return ""
}

// rewrite replaces the entries of a stream.
func rewrite(server *redistest.Server, key string, entries []any) {
	args := []string{"EVAL", `redis.call('DEL', KEYS[1])
		local i = 1
		while i < #ARGV do
			local n = tonumber(ARGV[i])
			redis.call('XADD', KEYS[1], unpack(ARGV, i + 1, i + n))
			i = i + n + 1
		end`, "1", key}
	for _, e := range entries {
		entry := e.([]any)
		fields := entry[1].([]any)
		args = append(args, fmt.Sprint(len(fields)+1), entry[0].(string))
		for _, f := range fields {
			args = append(args, f.(string))
		}
	}
	server.Do(args...)
}

// Events that cannot be restored to their positions are reported, and a stream with other
// content is not continued.
func TestLossThatCannotBeRestoredIsReported(t *testing.T) {
	for _, topic := range []event.Topic{plain, aged} {
		t.Run(string(topic), func(t *testing.T) { whatCannotBeRestoredIsSaid(t, topic) })
	}
}

func whatCannotBeRestoredIsSaid(t *testing.T, topic event.Topic) {
	server := redistest.Start(t, redistest.Options{})
	said := &logtest.Log{}
	_, b := openBus(t, t.TempDir(), db.Options{}, redisbus.Options{
		URL: server.URL(), Options: delivery.Options{TrimEvery: -1, Logger: slog.New(slog.NewTextHandler(said, nil))},
	})
	for _, e := range bustest.Events(topic, "e", 5) {
		if err := b.Publish(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	stream, ids := "lilac:s:"+string(topic), "lilac:i:"+string(topic)
	third := server.Do("XRANGE", stream, "-", "+").([]any)[2].([]any)[0].(string)
	server.Do("XDEL", stream, third)
	server.Do("HDEL", ids, "e2")
	server.Do("HSET", "lilac:claim", "batch", "0")
	until(t, "the loss is noticed and mended", func() bool { return b.Healthy(t.Context()) == nil })
	if got := said.String(); !strings.Contains(got, "cannot take them back") || !strings.Contains(got, "events=1") {
		t.Errorf("of the event that was left out the log says %s", got)
	}
	server.Do("DEL", stream, ids)
	server.Do("SET", stream, "something else")
	server.Do("HSET", "lilac:claim", "batch", "0")
	until(t, "it is said", func() bool {
		return b.Healthy(t.Context()) != nil && strings.Contains(said.String(), "WRONGTYPE")
	})
	server.Do("DEL", stream)
	until(t, "the loss is mended", func() bool { return b.Healthy(t.Context()) == nil })
	if n := server.Do("XLEN", stream); n != int64(5) {
		t.Errorf("%v events are there again, want 5", n)
	}
}

// A damaged row is never sent, so it does not count as unsent.
func TestADamagedRowDoesNotWait(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	database, b := openBus(t, t.TempDir(), db.Options{}, redisbus.Options{URL: server.URL()})
	if err := b.Declare(t.Context(), bus.Subscription{Topic: plain, Group: "g"}); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	until(t, "Redis is away", func() bool { return b.Healthy(t.Context()) != nil })
	events := bustest.Events(plain, "e", 3)
	if err := b.Publish(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
	err := database.Update(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec("UPDATE redis_outgoing SET sum = sum + 1 WHERE id = ?", events[1].ID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	server.Restart()
	until(t, "what is whole was sent", func() bool {
		got, err := b.Fetch(t.Context(), plain, "", 10)
		return err == nil && len(got) == 2 && got[1].ID == events[2].ID
	})
	until(t, "nothing waits", func() bool { return b.Unsent() == 0 })
}

// A reader of one lane gets no events of other lanes, even if a damaged entry follows.
func TestALaneIsReadUpToADamagedEntry(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server, server.URL())
	for i, lane := range []string{"x", "y", "x", "x"} {
		if err := w.bus.Publish(t.Context(), bustest.Event(plain, fmt.Sprint("e", i), lane)); err != nil {
			t.Fatal(err)
		}
	}
	const key = "lilac:s:" + string(plain)
	whole := server.Do("XRANGE", key, "-", "+").([]any)
	fields := whole[3].([]any)[1].([]any)
	fields[3] = strings.Replace(fields[3].(string), `"type"`, `"tYpe"`, 1)
	rewrite(server, key, whole)
	var seen []string
	err := w.bus.Tail(t.Context(), bus.Tail{Topic: plain, Lane: "y"}, func(d bus.Delivery) error {
		seen = append(seen, d.ID)
		return nil
	})
	if !db.IsDamaged(err) || !slices.Equal(seen, []string{"e1"}) {
		t.Errorf("it saw %v and ended with %v", seen, err)
	}
}

// An entry of another program stops a group, which reports it: the entry's id is greater
// than all positions that the engine assigns.
func TestAnEntryOfAnotherProgramIsNamedAndNothingHandledTwice(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server, server.URL())
	if err := w.bus.Declare(t.Context(), group); err != nil {
		t.Fatal(err)
	}
	w.publish("e", 3)
	w.close()
	key := "lilac:s:" + string(bustest.Topic)
	foreign := server.Do("XADD", key, "*", "a", "b").(string)
	w.open()
	w.attach()
	until(t, "the events before it are handled", func() bool { n, _ := w.counts(); return n == 3 })
	before, err := w.bus.Fetch(t.Context(), bustest.Topic, "", 9)
	if err != nil || len(before) != 3 {
		t.Fatalf("before it are %v, %v", before, err)
	}
	_, err = w.bus.Fetch(t.Context(), bustest.Topic, before[2].Position, 9)
	if err == nil || !strings.Contains(err.Error(), foreign) || !strings.Contains(err.Error(), "XDEL") {
		t.Errorf("the reader got no gap: %v", err)
	}
	w.detach()
	if letters, err := w.bus.DeadLetters(t.Context(), "", 9); err != nil || len(letters) != 0 {
		t.Errorf("dead letters: %v, %v", letters, err)
	}
	if n, _ := w.counts(); n != 3 {
		t.Errorf("%d events were handled, want 3", n)
	}
}
