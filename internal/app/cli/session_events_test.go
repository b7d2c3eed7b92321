package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// All pages are printed, in order, also empty ones.
func TestSessionEventsPrintsEveryPage(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path != "/sessions/s1/events":
			fmt.Fprint(w, `{}`)
		case r.URL.Query().Get("after") == "":
			fmt.Fprint(w, `{"events":[{"id":"1","type":"user_query","timestamp":1,"payload":{"content":"hi\u001b"}}],"next":"p 1"}`)
		case r.URL.Query().Get("after") == "p 1":
			fmt.Fprint(w, `{"events":[],"next":"p2"}`)
		default:
			fmt.Fprint(w, `{"events":[{"id":"2","type":"stream.completed","timestamp":2,"payload":{}}]}`)
		}
	}))
	defer server.Close()
	env := map[string]string{"LILAC_ADDR": server.URL, "LILAC_TOKEN": "a-token-of-enough-characters"}
	out, errOut, code := call(t, "", env, "sessions", "events", "s1")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 0 || len(lines) != 2 || !strings.Contains(lines[0], "user_query") || !strings.Contains(lines[1], "stream.completed") || strings.Contains(out, "\x1b") {
		t.Errorf("%d: %q %s", code, out, errOut)
	}
	out, _, code = call(t, "", env, "sessions", "events", "s1", "--json")
	if code != 0 || strings.Count(out, "\n") != 2 || !strings.HasPrefix(out, `{"id":"1"`) {
		t.Errorf("%d: %q", code, out)
	}
}
