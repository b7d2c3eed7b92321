package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// Damaged messages and journal entries are marked at their positions, without an invented time.
func TestDamagedMessagesAndEntriesAreNamed(t *testing.T) {
	const why = "The row bad is damaged."
	env := fake(t, map[string]string{
		"GET /sessions/s1/messages": `{"messages":[{"role":"user","content":"hello"},{"role":"system","content":"` + why + `","damaged":true}]}`,
		"GET /requests/r1": `{"id":"r1","state":"done","createdAt":1000,"entries":[{"seq":1,"kind":"damaged","detail":"` + why + `"},
			{"seq":2,"at":3000,"step":1,"kind":"paused","data":{"question":"Go on?"}}]}`,
	})
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"sessions", "show", "s1"}, "── user\nhello\n── unreadable\n" + why + "\n"},
		{[]string{"requests", "show", "r1"}, "\n           " + why + "\n   2.000s  step 1   paused       Go on?\n"},
	} {
		if out, errOut, code := call(t, "", env, c.args...); code != 0 || !strings.Contains(out, c.want) {
			t.Errorf("%q: %d, %q is not in\n%s%s", c.args, code, c.want, out, errOut)
		}
	}
}

// A conversation of several pages is printed from its beginning, for people and for programs.
func TestAConversationIsExported(t *testing.T) {
	const n = 205
	var all []map[string]any
	for i := range n {
		all = append(all, map[string]any{"id": fmt.Sprint("m", i), "requestId": fmt.Sprint("r", i), "role": "user", "content": fmt.Sprint("question ", i)})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /sessions/s1", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"id":"s1","title":"The plan"}`)
	})
	mux.HandleFunc("GET /sessions/s1/messages", func(w http.ResponseWriter, r *http.Request) {
		limit, _ := strconv.Atoi(r.FormValue("limit"))
		end := n
		if before := r.FormValue("before"); before != "" {
			end, _ = strconv.Atoi(strings.TrimPrefix(before, "m"))
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"messages": all[max(0, end-limit):end]})
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	env := map[string]string{"LILAC_ADDR": server.URL, "LILAC_TOKEN": "a-token-of-enough-characters"}
	out, errOut, code := call(t, "", env, "sessions", "export", "s1")
	if code != 0 || !strings.HasPrefix(out, "# The plan\n\n## You\n\nquestion 0\n") || strings.Count(out, "## You") != n || !strings.HasSuffix(out, "question 204\n") {
		t.Errorf("exit code %d, %s%.200s", code, errOut, out)
	}
	out, errOut, code = call(t, "", env, "sessions", "export", "s1", "--json")
	var got struct {
		Session  struct{ Title string }
		Messages []struct{ ID string }
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || got.Session.Title != "The plan" || len(got.Messages) != n || got.Messages[0].ID != "m0" {
		t.Errorf("exit code %d, %v, %s%.200s", code, err, errOut, out)
	}
}
