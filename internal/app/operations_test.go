package app

import (
	"fmt"
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
	session := r.newSession()
	for n := 1; n <= 2; n++ {
		if code, body := r.post("/sessions/"+session+"/prompt", `{"content":"hello"}`); code != http.StatusOK {
			t.Fatalf("a prompt is answered %d %s", code, body)
		}
		want := fmt.Sprintf("lilac_request_duration_seconds_count{state=\"done\",surface=\"web\"} %d\n", n)
		r.eventually("the metrics have "+want, func() bool {
			_, body := r.get("/metrics", testToken)
			return strings.Contains(body, want)
		})
	}
}
