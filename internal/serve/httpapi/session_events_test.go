package httpapi

import (
	"encoding/json"
	"fmt"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The pages have every event of the session once, in order, and none of another session.
func TestTheEventsOfASessionArePaged(t *testing.T) {
	w := newWorld(t)
	mine, other := w.newSession(), w.newSession()
	want := []string{"session.created:" + mine}
	for i := range 7 {
		for _, s := range []string{mine, other} {
			id := fmt.Sprint("e", i, s)
			if code, body := w.call("POST", "/events", fmt.Sprintf(`{"id":%q,"type":"build.done","payload":{"n":%d},"metadata":{"trigger_session_id":%q}}`, id, i, s)); code != 200 {
				t.Fatalf("%d %s", code, body)
			}
			if s == mine {
				want = append(want, id)
			}
		}
	}
	for _, limit := range []int{1, 3, 8, 100} {
		var got []string
		after, pages := "", 0
		for {
			code, body := w.call("GET", fmt.Sprintf("/sessions/%s/events?limit=%d&after=%s", mine, limit, url.QueryEscape(after)), "")
			var page struct {
				Events []struct{ ID string }
				Next   string
			}
			if err := json.Unmarshal([]byte(body), &page); err != nil || code != 200 || len(page.Events) > limit {
				t.Fatalf("%d %s: %v", code, body, err)
			}
			for _, e := range page.Events {
				got = append(got, e.ID)
			}
			if pages++; page.Next == "" || pages > 20 {
				break
			}
			after = page.Next
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("with a limit of %d:\n%s", limit, diff)
		}
	}
	for path, want := range map[string]int{"/sessions/nobody/events": 404, "/sessions/" + mine + "/events?limit=0": 400, "/sessions/" + mine + "/events?after=x!": 400} {
		if code, body := w.call("GET", path, ""); code != want {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

// The newest events of a topic are found without reading all of them.
func TestTheNewestEventsOfATopicAreListed(t *testing.T) {
	w := newWorld(t)
	for i := range 5 {
		if code, body := w.call("POST", "/events", fmt.Sprintf(`{"id":"e%d","type":"build.done"}`, i)); code != 200 {
			t.Fatalf("%d %s", code, body)
		}
	}
	for query, want := range map[string][]string{"newest=2": {"e3", "e4"}, "newest=1000": {"e0", "e1", "e2", "e3", "e4"}, "newest=4&limit=1": {"e1"}} {
		code, body := w.call("GET", "/bus/env?"+query, "")
		var page struct{ Events []struct{ ID string } }
		var got []string
		err := json.Unmarshal([]byte(body), &page)
		for _, e := range page.Events {
			got = append(got, e.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" || code != 200 || err != nil {
			t.Errorf("%s: %d, %v (-want +got):\n%s", query, code, err, diff)
		}
	}
	if code, body := w.call("GET", "/bus/out.req.none?newest=3", ""); code != 200 || body != `{"events":[]}`+"\n" {
		t.Errorf("of no events: %d %s", code, body)
	}
	for _, query := range []string{"newest=0", "newest=x", "newest=1001", "newest=2&after=1"} {
		if code, body := w.call("GET", "/bus/env?"+query, ""); code != 400 {
			t.Errorf("%s: %d %s", query, code, body)
		}
	}
}
