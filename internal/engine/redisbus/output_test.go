package redisbus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/redisbus"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/redistest"
)

// A reader that starts while the first event of an output is in flight gets that event,
// and never ErrTrimmed.
func TestAnOutputThatBeginsIsNotTakenForOneThatIsGone(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server, server.URL())
	defer w.close()
	const outputs, readers = 400, 4
	for i := range outputs {
		topic := event.OutputTopic(fmt.Sprintf("web:s:%d", i))
		var reading sync.WaitGroup
		begin := make(chan struct{})
		got := errors.New("it came")
		for range readers {
			reading.Go(func() {
				<-begin
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if err := w.bus.Tail(ctx, bus.Tail{Topic: topic}, func(bus.Delivery) error { return got }); !errors.Is(err, got) {
					t.Errorf("%s: %v", topic, err)
				}
			})
		}
		close(begin)
		if err := w.bus.Publish(t.Context(), event.Event{ID: fmt.Sprint("e", i), Topic: topic, Type: "test.event", Data: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		reading.Wait()
		if t.Failed() {
			return
		}
	}
}

// read returns the ids of a topic in order, and the position of the last event.
func (w *world) read(topic event.Topic) (ids []string, end bus.Position) {
	w.t.Helper()
	for {
		got, err := w.bus.Fetch(context.Background(), topic, end, 1000)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(got) == 0 {
			return ids, end
		}
		for _, d := range got {
			ids, end = append(ids, d.ID), d.Position
		}
	}
}

// An output gets each event once, whichever process added it and whatever the id index
// remembers, although Redis has no index of its ids.
func TestAnOutputHasEachEventOnce(t *testing.T) {
	const before = 600 // more than is read at once
	publish := func(w *world, ids ...string) {
		w.t.Helper()
		for _, id := range ids {
			if err := w.bus.Publish(context.Background(), bustest.Event(plain, id, "l")); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	for name, meanwhile := range map[string]func(w *world, passed *atomic.Int64){
		"at once": func(*world, *atomic.Int64) {},
		"by the next process": func(w *world, _ *atomic.Int64) {
			w.close()
			w.open()
		},
		"by the next process, when the one before had no time to note it": func(w *world, _ *atomic.Int64) {
			if err := w.db.Update(context.Background(), func(tx *db.Tx) error {
				_, err := tx.Exec("DELETE FROM bus_topics WHERE name = ?", string(plain))
				return err
			}); err != nil {
				w.t.Fatal(err)
			}
			w.close()
			w.open()
		},
		"when it was silent for long": func(w *world, passed *atomic.Int64) {
			passed.Add(int64(5 * time.Minute))
			if _, err := w.bus.Trim(context.Background()); err != nil {
				w.t.Fatal(err)
			}
		},
		"when Redis was away and took a row": func(w *world, _ *atomic.Int64) {
			w.server.Kill()
			publish(w, "e7", "new")
			w.server.Restart()
			w.healthy()
			until(w.t, "the rows are sent", func() bool { return w.unsent() == 0 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			var passed atomic.Int64
			w := &world{t: t, server: redistest.Start(t, redistest.Options{}), dir: t.TempDir(), now: func() time.Time {
				return time.Now().Add(time.Duration(passed.Load()))
			}}
			w.url = w.server.URL()
			w.open()
			want := names("e", before)
			if err := w.bus.Publish(t.Context(), bustest.Events(plain, "e", before, "l")...); err != nil {
				t.Fatal(err)
			}
			written(t, w.server)
			meanwhile(w, &passed)
			publish(w, "e3", "new", "e599", "new")
			want = append(want, "new")
			got, end := w.read(plain)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			// The control: a duplicate is detected.
			epoch, n, _ := strings.Cut(string(end), "-")
			again := w.server.Do("XRANGE", "lilac:s:"+string(plain), "-", "+", "COUNT", "1").([]any)[0].([]any)[1].([]any)
			w.server.Do("XADD", "lilac:s:"+string(plain), epoch+"-1"+n, "i", again[1].(string), "e", again[3].(string))
			if got, _ := w.read(plain); cmp.Equal(want, got) {
				t.Error("control: an event that is there twice was not seen")
			}
		})
	}
}

// An output that Redis lost, or that expired, continues at unused positions, and readers
// that continue from before the loss get ErrTrimmed.
func TestLostOutputContinues(t *testing.T) {
	for name, meanwhile := range map[string]func(w *world){
		"in the same process": func(*world) {},
		"in the next one": func(w *world) {
			w.close()
			w.open()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, redistest.Start(t, redistest.Options{}), "")
			publish := func(events ...event.Event) {
				t.Helper()
				if err := w.bus.Publish(t.Context(), events...); err != nil {
					t.Fatal(err)
				}
			}
			const other event.Topic = "out.req.test:plain:2"
			publish(bustest.Events(plain, "e", 5, "l")...)
			publish(bustest.Event(other, "e0", "l"))
			_, end := w.read(plain)
			w.server.Do("DEL", "lilac:s:"+string(plain))
			meanwhile(w)
			// In one batch with an output that must be read first, each event is stored once.
			publish(bustest.Event(other, "e1", "l"), bustest.Event(plain, "e5", "l"), bustest.Event(plain, "e2", "l"), bustest.Event(other, "e2", "l"))
			publish(bustest.Event(plain, "e6", "l"))
			if _, err := w.bus.Fetch(t.Context(), plain, end, 9); !errors.Is(err, bus.ErrTrimmed) {
				t.Errorf("behind what is gone: %v, want %v", err, bus.ErrTrimmed)
			}
			got, after := w.read(plain)
			if diff := cmp.Diff([]string{"e5", "e2", "e6"}, got); diff != "" {
				t.Errorf("from the beginning (-want +got):\n%s", diff)
			}
			if got, _ := w.read(other); !cmp.Equal(got, []string{"e0", "e1", "e2"}) {
				t.Errorf("the other output has %v", got)
			}
			var epoch, n, epochAfter, nAfter int
			if _, err := fmt.Sscanf(string(end)+" "+string(after), "%d-%d %d-%d", &epoch, &n, &epochAfter, &nAfter); err != nil {
				t.Fatal(err)
			}
			if epochAfter < epoch || epochAfter == epoch && nAfter <= n {
				t.Errorf("it ended at %s and goes on to %s", end, after)
			}
			if bad, err := redisbus.Verify(t.Context(), redisbus.Options{URL: w.url, ReplyWithin: patience}); err != nil || len(bad) > 0 {
				t.Errorf("verify: %v, %v", bad, err)
			}
		})
	}
}

// If Redis loses an output when the process dies, the events with rows are restored.
// Readers that continue from before the other events get ErrTrimmed, and readers that
// start get the events after them. Verify does not report the gap as damage.
func TestGapInAnOutputIsReported(t *testing.T) {
	w := newWorld(t, redistest.Start(t, redistest.Options{}), "")
	direct := func(ids ...string) {
		t.Helper()
		for _, id := range ids {
			if err := w.bus.Publish(t.Context(), bustest.Event(plain, id, "l")); err != nil {
				t.Fatal(err)
			}
		}
	}
	recorded := func(ids ...string) {
		t.Helper()
		var events []event.Event
		for _, id := range ids {
			events = append(events, bustest.Event(plain, id, "l"))
		}
		if err := w.db.Update(t.Context(), func(tx *db.Tx) error { return tx.Publish(events...) }); err != nil {
			t.Fatal(err)
		}
		until(t, "the rows are sent", func() bool { return w.unsent() == 0 })
	}
	recorded(append(names("early", 300), "a")...) // more than is read at once
	direct("b", "c")
	recorded("d")
	recorded("e")
	direct("f")
	places := w.places(plain)
	w.close()
	w.server.FlushAll()
	w.open()
	w.healthy()
	direct("g")
	for after, want := range map[string]error{"early0": bus.ErrTrimmed, "a": bus.ErrTrimmed, "b": bus.ErrTrimmed, "c": nil, "d": nil, "e": nil} {
		if _, err := w.bus.Fetch(t.Context(), plain, places[after], 9); !errors.Is(err, want) {
			t.Errorf("behind %s: %v, want %v", after, err, want)
		}
	}
	behind := []string{"d", "e", "g"}
	if got, _ := w.read(plain); !cmp.Equal(got, behind) {
		t.Errorf("fetched from the beginning: %v", got)
	}
	var tailed []string
	all := errors.New("all")
	err := w.bus.Tail(t.Context(), bus.Tail{Topic: plain}, func(d bus.Delivery) error {
		if tailed = append(tailed, d.ID); len(tailed) == len(behind) {
			return all
		}
		return nil
	})
	if !errors.Is(err, all) || !cmp.Equal(tailed, behind) {
		t.Errorf("tailed from the beginning: %v, %v", tailed, err)
	}
	if bad, err := redisbus.Verify(t.Context(), redisbus.Options{URL: w.url, ReplyWithin: patience}); err != nil || len(bad) > 0 {
		t.Errorf("verify: %v, %v", bad, err)
	}
}

// A batch that Redis executes long after it was abandoned and sent again changes
// nothing.
func TestLateBatchChangesNothing(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	w := &world{t: t, server: server, dir: t.TempDir(), url: server.URL(), replyWithin: 200 * time.Millisecond}
	w.open()
	var want []string
	for round := range 10 {
		ids := names(fmt.Sprint("round", round, "-"), 5)
		server.Pause()
		for _, id := range ids { // the first is on its way, the others become rows
			if err := w.bus.Publish(t.Context(), bustest.Event(plain, id, "l")); err != nil {
				t.Fatal(err)
			}
		}
		server.Resume()
		w.healthy()
		until(t, "all is sent", func() bool { return w.unsent() == 0 })
		want = append(want, ids...)
	}
	if got, _ := w.read(plain); !cmp.Equal(want, got) {
		t.Errorf("(-want +got):\n%s", cmp.Diff(want, got))
	}
}
