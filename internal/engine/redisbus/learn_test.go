package redisbus_test

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/engine/db"
	"lilac/internal/engine/redisbus"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/redistest"
)

// Rows that Redis got, but that are not marked as sent because the process was killed or
// a power cut undid the marks, are stored once, even if nothing is known about the output.
func TestRowsThatWereSentAndNotNotedAreThereOnce(t *testing.T) {
	w := newWorld(t, redistest.Start(t, redistest.Options{}), "")
	if err := w.db.Update(t.Context(), func(tx *db.Tx) error { return tx.Publish(bustest.Events(plain, "e", 3, "l")...) }); err != nil {
		t.Fatal(err)
	}
	until(t, "the rows are sent", func() bool { return w.unsent() == 0 })
	w.close()
	database, err := db.Open(t.Context(), db.Options{Dir: w.dir, Migrations: redisbus.Migrations})
	if err != nil {
		t.Fatal(err)
	}
	for _, forget := range []string{"UPDATE redis_outgoing SET pos = 0, batch = 0, sent_at = 0", "DELETE FROM bus_topics"} {
		if err := database.Update(t.Context(), func(tx *db.Tx) error { _, err := tx.Exec(forget); return err }); err != nil {
			t.Fatal(err)
		}
	}
	if err := database.Close(); err != nil {
		t.Fatal(err)
	}
	w.open()
	until(t, "the rows are sent again", func() bool { return w.unsent() == 0 })
	if err := w.bus.Publish(t.Context(), bustest.Event(plain, "new", "l")); err != nil {
		t.Fatal(err)
	}
	if got, _ := w.read(plain); !cmp.Equal(got, append(names("e", 3), "new")) {
		t.Errorf("the output has %v", got)
	}
}

// newAgingWorld returns a world with a test clock. pass advances the clock until the
// engine has forgotten all outputs and their recent events.
func newAgingWorld(t testing.TB) (w *world, pass func()) {
	var passed atomic.Int64
	w = &world{t: t, server: redistest.Start(t, redistest.Options{}), dir: t.TempDir(), now: func() time.Time {
		return time.Now().Add(time.Duration(passed.Load()))
	}}
	w.url = w.server.URL()
	w.open()
	return w, func() {
		t.Helper()
		passed.Add(int64(2 * time.Minute))
		if _, err := w.bus.Trim(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// An output without events for a long time is read before it continues. If Redis lost its
// last events and the engine has not noticed yet, new events must not reuse their
// positions: readers that have seen the lost events would miss the new ones.
func TestUnnoticedLossDoesNotReusePositions(t *testing.T) {
	w, pass := newAgingWorld(t)
	w.publish("a", 3)
	w.server.Remember()
	w.attach()
	w.publish("b", 3)
	until(t, "they are seen", func() bool { return w.missing(3, 3) == 0 })
	_, end := w.read(plain)
	pass()
	w.server.Forget()
	if err := w.bus.Publish(t.Context(), bustest.Event(plain, "new", "l")); err != nil {
		t.Fatal(err)
	}
	until(t, "it is sent", func() bool { return w.unsent() == 0 })
	w.healthy()
	if got, last := w.read(plain); compare(last, end) <= 0 {
		t.Errorf("after %s: %v, up to %s", end, got, last)
	}
	until(t, "who has seen the last ones sees it", func() bool { return w.missing(0, 4) == 0 })
	w.detach()
}

// Redis rejects ids up to the newest that a stream ever had, even if that entry was
// removed by hand. An output that is read again must continue after it.
func TestAnOutputGoesOnBehindWhatWasRemovedByHand(t *testing.T) {
	for name, removed := range map[string]int{"the last entry": 1, "all of them": 3} {
		t.Run(name, func(t *testing.T) {
			w, pass := newAgingWorld(t)
			if err := w.bus.Publish(t.Context(), bustest.Events(plain, "e", 3, "l")...); err != nil {
				t.Fatal(err)
			}
			for _, d := range w.fetch(plain, "")[3-removed:] {
				w.server.Do("XDEL", "lilac:s:"+string(plain), string(d.Position))
			}
			pass()
			for _, id := range []string{"e0", "new", "e2"} {
				if err := w.bus.Publish(t.Context(), bustest.Event(plain, id, "l")); err != nil {
					t.Fatal(err)
				}
			}
			until(t, "all is sent", func() bool { return w.unsent() == 0 })
			want := []string{"e0", "e1", "new", "e2"}
			if removed == 3 {
				want = []string{"e0", "new", "e2"}
			}
			if got, _ := w.read(plain); !cmp.Equal(got, want) {
				t.Errorf("the output has %v, want %v", got, want)
			}
		})
	}
}

// reads returns the number of scripts that a server has run.
func reads(server *redistest.Server) (n int) {
	_, stat, _ := strings.Cut(server.Do("INFO", "commandstats").(string), "cmdstat_evalsha:calls=")
	n, _ = strconv.Atoi(strings.Split(stat, ",")[0])
	return n
}

// writeAnew runs the command in docs/operations.md that removes an entry of another
// program.
func writeAnew(t *testing.T, server *redistest.Server, key, id string) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, script, _ := strings.Cut(string(page), `redis-cli EVAL "`)
	script, _, found := strings.Cut(script, `" 1 lilac:s:TOPIC ID`)
	if !found {
		t.Fatal("the page about operations has no such command")
	}
	server.Do("EVAL", script, "1", key, id)
}

// An entry that another program added to an output blocks the events after it. It is
// reported until it is removed as documented, whatever its id is.
func TestAnEntryOfAnotherProgramInAnOutputIsNamed(t *testing.T) {
	for _, id := range []string{"*", "99999-1"} {
		t.Run(id, func(t *testing.T) {
			const key = "lilac:s:" + string(plain)
			w, pass := newAgingWorld(t)
			if err := w.bus.Publish(t.Context(), bustest.Events(plain, "e", 3, "l")...); err != nil {
				t.Fatal(err)
			}
			foreign := w.server.Do("XADD", key, id, "a", "b").(string)
			pass()
			if err := w.bus.Publish(t.Context(), bustest.Event(plain, "new", "l")); err != nil {
				t.Fatal(err)
			}
			named := func() bool {
				err := w.bus.Healthy(context.Background())
				return err != nil && strings.Contains(err.Error(), foreign) && strings.Contains(err.Error(), "XDEL")
			}
			until(t, "it is named", named)
			w.server.Do("XDEL", key, foreign)
			tried := reads(w.server)
			until(t, "it is read again", func() bool { return reads(w.server) > tried+1 })
			if !named() {
				t.Errorf("when its place is still taken: %v", w.bus.Healthy(context.Background()))
			}
			writeAnew(t, w.server, key, foreign)
			w.healthy()
			until(t, "all is sent", func() bool { return w.unsent() == 0 })
			if got, _ := w.read(plain); !cmp.Equal(got, append(names("e", 3), "new")) {
				t.Errorf("the output has %v", got)
			}
		})
	}
}
