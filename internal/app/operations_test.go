package app

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"lilac/internal/operate/config"
)

func TestProbableMistakesAreDescribedWithoutThePath(t *testing.T) {
	one := config.Warning{File: "/home/you/config.yaml", Line: 3, Column: 1, Message: `unknown key "modle" is ignored`}
	for want, warnings := range map[string][]config.Warning{
		`a probable mistake in line 3 of the configuration file: unknown key "modle" is ignored`: {one},
		`a probable mistake: TZ is wrong`: {{Message: "TZ is wrong"}},
		`a probable mistake in line 3 of the configuration file: unknown key "modle" is ignored; and 1 more, which "lilac config check" lists`: {one, one},
	} {
		if got := probable(warnings); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestARequestThatEndedIsMeasuredOnce(t *testing.T) {
	r := start(t, "model: demo\n")
	_, body := r.post("/sessions", `{}`)
	var session struct{ ID string }
	if err := json.Unmarshal([]byte(body), &session); err != nil || session.ID == "" {
		t.Fatal(body, err)
	}
	if code, body := r.post("/sessions/"+session.ID+"/prompt", `{"content":"hello"}`); code != http.StatusOK {
		t.Fatalf("a prompt is answered %d %s", code, body)
	}
	r.eventually("the request is measured", func() bool {
		_, body := r.get("/metrics", testToken)
		return strings.Contains(body, `lilac_request_duration_seconds_count{state="done",surface="web"} 1`)
	})
}
