package companion_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"lilac/internal/engine/companion"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/redistest"
)

func handIn(s *redistest.Server, id string) {
	s.Do("XADD", "lilac:in", "*", "event", fmt.Sprintf(`{"id":%q}`, id))
}

// empty waits until everything that was handed in is taken.
func (w *world) empty(s *redistest.Server) {
	w.t.Helper()
	until(w.t, "everything is taken", func() bool { return s.Do("XLEN", "lilac:in") == int64(0) })
}

func TestWhatIsHandedInIsPublishedOnce(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	handIn(server, "early")
	w := newWorld(t, server.URL())
	for _, id := range []string{"a", "b", "a", "c", "a"} {
		handIn(server, id)
	}
	w.empty(server)
	if got := fmt.Sprint(w.logged(topicIn)); got != "[1-0 early 2-0 a 3-0 b 4-0 c]" {
		t.Errorf("the log has %s", got)
	}
	if s := w.redis.Stats(); s.Handed != 6 || s.Rejected != 0 {
		t.Errorf("the numbers are %+v", s)
	}
	until(t, "the other parts work, too", func() bool { return w.redis.Stats().Up })
	pending := fmt.Sprint(server.Do("XPENDING", "lilac:in", "lilac"))
	if !strings.HasPrefix(pending, "[0 ") {
		t.Errorf("not acknowledged: %s", pending)
	}
	server.FlushAll() // the group is gone, too
	until(t, "more is taken after a flush", func() bool {
		handIn(server, "late")
		return slices.Contains(w.taken(), "late")
	})
	w.empty(server)
}

// Entries that cannot be used are kept with the reason, and stop nothing.
func TestWhatCannotBeUsedIsKept(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server.URL())
	server.Do("XADD", "lilac:in", "*", "event", "no json")
	server.Do("XADD", "lilac:in", "*", "hello", "world")
	server.Do("XADD", "lilac:in", "*", "event", `{"id":""}`)
	handIn(server, "good")
	w.empty(server)
	if got := fmt.Sprint(w.logged(topicIn)); got != "[1-0 good]" {
		t.Errorf("the log has %s", got)
	}
	kept := fmt.Sprint(server.Do("XRANGE", "lilac:in:dead", "-", "+"))
	for _, want := range []string{"not valid JSON", "no json", `no field "event"`, `{"hello":"world"}`} {
		if !strings.Contains(kept, want) {
			t.Errorf("kept is %s, want %s in it", kept, want)
		}
	}
	w.says("entries in Redis that could not be used: 3; the newest is")
	if s := w.redis.Stats(); s.Rejected != 3 || s.Handed != 1 {
		t.Errorf("the numbers are %+v", s)
	}
}

// A program that adds rubbish without end fills no log.
func TestRubbishFillsNoLog(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server.URL())
	for i := range 4 {
		server.Do("XADD", "lilac:in", "*", "hello", "world")
		server.Do("XADD", "lilac:in", "*", "hello", "world")
		w.says(fmt.Sprint("entries in Redis that could not be used: ", 2*i+2))
	}
	if n := w.log.count("level=WARN"); n != 1 {
		t.Errorf("%d lines about 8 entries, want 1", n)
	}
}

// A process that dies between the commit and the acknowledgement publishes nothing twice. The
// control shows that the entry is handed out again.
func TestACrashBeforeTheAcknowledgement(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server.URL())
	w.setTake(nil, true)
	handIn(server, "a")
	until(t, "it is published", func() bool { return len(w.taken()) > 0 })
	w.close()
	if got := fmt.Sprint(server.Do("XPENDING", "lilac:in", "lilac")); strings.HasPrefix(got, "[0 ") {
		t.Fatalf("control: it was acknowledged: %s", got)
	}
	before := len(w.taken())
	w.setTake(nil, false)
	w.start()
	w.empty(server)
	if len(w.taken()) <= before {
		t.Error("control: it was not handed out again")
	}
	if got := fmt.Sprint(w.logged(topicIn)); got != "[1-0 a]" {
		t.Errorf("the log has %s", got)
	}
}

// While the database takes nothing, entries wait; an entry that fails inside Lilac is given up.
func TestEntriesWaitForTheDatabase(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server.URL())
	w.setTake(fault.New(fault.Unavailable, "the disk is full"), false)
	handIn(server, "a")
	w.says("the disk is full")
	w.setTake(nil, false)
	w.empty(server)
	w.says("")
	w.setTake(fault.New(fault.Internal, "a defect"), false)
	handIn(server, "b")
	w.says("entries in Redis that could not be used: 1")
	w.setTake(nil, false)
	handIn(server, "c")
	w.empty(server)
	if got := fmt.Sprint(w.logged(topicIn)); got != "[1-0 a 2-0 c]" {
		t.Errorf("the log has %s", got)
	}
}

func TestAStreamThatIsNoneIsNamed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	server.Do("SET", "lilac:in", "mine")
	w := newWorld(t, server.URL())
	w.publish(topic, "e", 3)
	w.same(server, topic)
	w.says("lilac:in is no stream")
	server.Do("DEL", "lilac:in")
	w.says("")
}

func TestOptionsThatCannotWork(t *testing.T) {
	for _, o := range []companion.Options{{URL: "http://x"}, {URL: "redis://x", CAFile: "y"}, {URL: "rediss://x", CAFile: "/nowhere"}} {
		if _, err := companion.New(o); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
