package redisbus

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// recent returns events without rows unchanged, within its limits of age and size. It
// does not keep events that have a row or no position.
func TestRecentRemembersEventsWithoutRows(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	seen := func(r *recent, after int64) string {
		var out []string
		for _, it := range r.since(after) {
			out = append(out, fmt.Sprintf("%d:%s/%s/%d/%q", it.batch, it.topic, it.id, it.pos, it.entry))
		}
		return strings.Join(out, " ")
	}
	var r recent
	r.add([]*item{
		{topic: "a", id: "a1", entry: "one\n", pos: 1},
		{topic: "b", id: "b1", entry: "", pos: makePosition(3, 1)},
		{topic: "a", id: "a2", entry: "with a row", pos: 2, row: 7},
		{topic: "a", id: "a3", entry: "nowhere"},
	}, 5, start)
	r.add([]*item{{topic: "a", id: "a4", entry: "with a row", pos: 4, row: 8}}, 6, start)
	r.add([]*item{{topic: "a", id: "a5", entry: strings.Repeat("x", 100), pos: 5}}, 7, start.Add(time.Second))

	first := fmt.Sprintf("5:a/a1/1/%q 5:b/b1/%d/%q", "one\n", makePosition(3, 1), "")
	last := fmt.Sprintf("7:a/a5/5/%q", strings.Repeat("x", 100))
	for _, tt := range []struct {
		after int64
		want  string
	}{{0, first + " " + last}, {4, first + " " + last}, {5, last}, {6, last}, {7, ""}} {
		if got := seen(&r, tt.after); got != tt.want {
			t.Errorf("since batch %d: %q, want %q", tt.after, got, tt.want)
		}
	}
	if r.forget(start.Add(keepSent)); seen(&r, 0) != first+" "+last {
		t.Errorf("after %v: %q", keepSent, seen(&r, 0))
	}
	if r.forget(start.Add(keepSent + 1)); seen(&r, 0) != last {
		t.Errorf("after more than %v: %q", keepSent, seen(&r, 0))
	}
	r.add([]*item{{topic: "a", id: "a6", entry: strings.Repeat("x", recentBytes-40), pos: 6}}, 8, start)
	r.add([]*item{{topic: "a", id: "a7", entry: "x", pos: 7}}, 9, start)
	if got := r.since(0); len(got) != 2 || got[0].id != "a6" || r.size > recentBytes {
		t.Errorf("with %d bytes of %d there are %d events", r.size, recentBytes, len(got))
	}
	if r.forget(start.Add(time.Hour)); len(r.batches) != 0 || r.size != 0 {
		t.Errorf("at the end there are %d batches, %d bytes", len(r.batches), r.size)
	}
}
