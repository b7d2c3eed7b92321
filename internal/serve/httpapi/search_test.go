package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/session"
	"lilac/internal/engine/bus"
	"lilac/internal/foundation/event"
)

func TestSearchReturnsPages(t *testing.T) {
	w := newWorld(t)
	for i := range 5 {
		m := message(fmt.Sprint("m", i), "r", "an apple")
		m.Seq = int64(i + 1)
		w.tables.messages = append(w.tables.messages, m)
	}
	var got []string
	pages := 0
	for next := ""; ; pages++ {
		query := "/search?limit=2&q=apple"
		if next != "" {
			query += "&before=" + next
		}
		code, body := w.call("GET", query, "")
		var out struct {
			Messages []session.SearchResult
			Next     string
		}
		if err := json.Unmarshal([]byte(body), &out); err != nil || code != http.StatusOK {
			t.Fatalf("%s: %d %s", query, code, body)
		}
		for _, m := range out.Messages {
			got = append(got, m.MessageID)
		}
		if next = out.Next; next == "" {
			break
		}
	}
	if diff := cmp.Diff([]string{"m4", "m3", "m2", "m1", "m0"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestSearchRefusesInvalidQueries(t *testing.T) {
	w := newWorld(t)
	for _, query := range []string{"", "q=%20", "q=%00", "q=" + strings.Repeat("a", 201), "q=a&before=x", "q=a&before=-1", "q=a&limit=0", "q=a&what=b"} {
		if code, body := w.call("GET", "/search?"+query, ""); code != http.StatusBadRequest {
			t.Errorf("%q: %d %s", query, code, body)
		}
	}
}

func TestRenamingASessionPublishesAnEvent(t *testing.T) {
	w := newWorld(t)
	id := w.newSession()
	l := w.listen("", "")
	for _, title := range []string{"  Two\n words ", "Again"} {
		raw, _ := json.Marshal(map[string]string{"title": title})
		code, body := w.call("PATCH", "/sessions/"+id, string(raw))
		var s session.Session
		if err := json.Unmarshal([]byte(body), &s); err != nil || code != http.StatusOK || s.Title != strings.Join(strings.Fields(title), " ") {
			t.Fatalf("%d %s", code, body)
		}
		l.until(string(event.SessionUpdated))
	}
	if code, body := w.call("POST", "/sessions", `{"title":" a\n\u0000b\u202e 👩‍🚀 "}`); code != http.StatusCreated || !strings.Contains(body, `"title":"a b 👩‍🚀"`) {
		t.Errorf("a new one with an odd title: %d %s", code, body)
	}
	for body, want := range map[string]int{`{}`: 400, `{"title":" "}`: 400, `{"title":"` + strings.Repeat("é", 201) + `"}`: 400, `{"titel":"x"}`: 400} {
		if code, answer := w.call("PATCH", "/sessions/"+id, body); code != want {
			t.Errorf("%s: %d %s", body, code, answer)
		}
	}
	if code, _ := w.call("PATCH", "/sessions/nobody", `{"title":"x"}`); code != http.StatusNotFound {
		t.Errorf("an unknown session: %d", code)
	}
}

// pairs is a bus whose Fetch returns at most two events, whatever the limit.
type pairs struct{ bus.Bus }

func (p pairs) Fetch(ctx context.Context, topic event.Topic, after bus.Position, limit int) ([]bus.Delivery, error) {
	return p.Bus.Fetch(ctx, topic, after, min(limit, 2))
}

// A client that follows the stream of all sessions and then joins a running one receives all output
// exactly once. Events in both the replay and the stream have the same IDs.
func TestReplayAndStreamOfAllSessionsCoverTheCompleteOutput(t *testing.T) {
	w := newWorld(t)
	id := w.newSession()
	w.begin(id, "r1")
	w.publish(id, "r1", event.TextDelta{Delta: "o"}, event.TextDelta{Delta: "n", Offset: 1}, event.TextDelta{Delta: "e ", Offset: 2})
	l := w.listen("", "")
	w.publish(id, "r1", event.TextDelta{Delta: "two ", Offset: 4})
	code, body := w.getWith(pairs{w.bus}, "/sessions/"+id+"/messages?replay=1")
	var out struct {
		Running []string
		Replay  string
	}
	if err := json.Unmarshal([]byte(body), &out); err != nil || code != http.StatusOK || len(out.Running) != 1 {
		t.Fatalf("%d %s", code, body)
	}
	w.publish(id, "r1", event.TextDelta{Delta: "three", Offset: 8})
	w.end(id, "r1", "one two three")
	frames := append(parseFrames(out.Replay), l.until(string(event.StreamCompleted))...)
	said, seen := "", map[string]bool{}
	for _, f := range frames {
		var e struct {
			ID      string
			Payload struct{ Content string }
		}
		if err := json.Unmarshal([]byte(f.Data), &e); err != nil {
			t.Fatal(err)
		}
		if f.Event == string(event.StreamText) && !seen[e.ID] {
			said += e.Payload.Content
		}
		seen[e.ID] = true
	}
	if said != "one two three" {
		t.Errorf("together they said %q", said)
	}
	if _, plain := w.call("GET", "/sessions/"+id+"/messages", ""); strings.Contains(plain, `"replay"`) {
		t.Error("a replay came without being asked for")
	}
}

func TestStatusAndSettings(t *testing.T) {
	w := newWorld(t)
	if code, body := w.call("GET", "/settings", ""); code != http.StatusOK || strings.TrimSpace(body) != `{"settings":[]}` {
		t.Errorf("without settings: %d %s", code, body)
	}
	w.close()
	w.opt.Version = "v1"
	w.opt.Settings = func() []Setting { return []Setting{{Key: "addr", Value: "x", Source: "the file"}} }
	w.open()
	if _, body := w.call("GET", "/settings", ""); !strings.Contains(body, `{"key":"addr","value":"x","source":"the file"}`) {
		t.Errorf("settings: %s", body)
	}
	if code, body := w.call("GET", "/status", ""); code != http.StatusOK || !strings.Contains(body, `"version":"v1"`) || !strings.Contains(body, `"uptimeMs":`) {
		t.Errorf("status: %d %s", code, body)
	}
	if code, _ := w.call("GET", "/search?q="+url.QueryEscape("x y"), ""); code != http.StatusOK {
		t.Errorf("search: %d", code)
	}
}

// A query string that cannot be parsed is rejected, not ignored. The invalid part could be the filter
// that limits a list or a stream to one session.
func TestInvalidQueryStringIsRefused(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/requests?session_id=100%", "/requests?limit=1;session_id=s", "/events?session_id=%zz", "/sessions?limit=%", "/search?q=50%"} {
		if code, body := w.call("GET", path, ""); code != 400 || !strings.Contains(body, `"kind":"invalid"`) {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}
