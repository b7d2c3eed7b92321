package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
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

// A request that waits for space on the disk resumes by itself: nobody has to restart the program.
func TestARequestThatWaitsForTheDatabaseIsNotLost(t *testing.T) {
	r := start(t, "model: demo\n")
	probe, ctx := r.p.lostRequests(0), context.Background()
	r.store(func(tx *db.Tx) error {
		return r.p.store.Requests.CreateRequest(tx, session.Request{ID: "web:s:r", SessionID: "s", Client: "web", State: event.StateRunning, CreatedAt: 1, StartedAt: 1})
	})
	exec := func(query string) error {
		return r.p.db.Update(ctx, func(tx *db.Tx) error {
			_, err := tx.Exec(query)
			return err
		})
	}
	_ = probe(ctx) // records the first observation
	_ = exec("PRAGMA max_page_count = 1")
	_ = exec("INSERT INTO meta (name, value) VALUES ('large', hex(zeroblob(100000)))")
	if err := probe(ctx); r.p.describeTrouble(err) != "The disk is full: free some space." {
		t.Errorf("on a full disk: %v", err)
	}
	if err := errors.Join(exec("PRAGMA max_page_count = 1000000"), r.p.db.Probe(ctx, 0), probe(ctx)); err != nil {
		t.Errorf("at first after space was freed: %v", err)
	}
	if err := probe(ctx); err == nil || !strings.Contains(err.Error(), "restart Lilac") {
		t.Errorf("control: the request is not resumed: %v", err)
	}
}
