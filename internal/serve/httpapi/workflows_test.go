package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"lilac/internal/core/workflow"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/event"
	"lilac/internal/store"
	"lilac/internal/testkit/dbtest"
)

func TestWorkflowsAreListedShownAndCancelled(t *testing.T) {
	w := newWorld(t)
	if code, _ := w.call("GET", "/workflows", ""); code != http.StatusServiceUnavailable {
		t.Errorf("without any: %d", code)
	}
	database, err := db.Open(context.Background(), dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: slices.Concat(sqlitebus.Migrations, store.Migrations)}))
	if err != nil {
		t.Fatal(err)
	}
	events, err := sqlitebus.New(database, sqlitebus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(events.Close(), database.Close()); err != nil {
			t.Error(err)
		}
	})
	flows := workflow.New(workflow.Options{DB: database, Bus: events, Table: store.Workflows{}, Inbox: store.Inbox{}})
	w.opt.Workflows = flows
	w.restart()
	for id, session := range map[string]string{"w1": "s1", "w2": "s2"} {
		definition, err := json.Marshal(workflow.Definition{Summary: "ask " + id, Tasks: []workflow.Spec{{
			TaskID: "t1", Kind: workflow.KindDelay, Description: "an hour", Input: json.RawMessage(`{"delayMs":3600000}`),
		}}})
		if err != nil {
			t.Fatal(err)
		}
		from := workflow.Origin{RequestID: "web:" + session + ":1", SessionID: session, Client: "web"}
		if err := flows.Submit(context.Background(), from, nil, event.WorkflowCreate{WorkflowID: id, Definition: definition}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		method, path, body string
		code               int
		want               string
	}{
		{"GET", "/workflows?limit=1", "", 200, `"summary":"ask w`},
		{"GET", "/workflows?session_id=s1", "", 200, `{"workflows":[{"id":"w1"`},
		{"GET", "/workflows?session_id=none", "", 200, `{"workflows":[]}`},
		{"GET", "/workflows?before=none", "", 404, "There is no workflow none."},
		{"GET", "/workflows?waiting=maybe", "", 400, "waiting"},
		{"GET", "/workflows?what=1", "", 400, "what"},
		{"GET", "/workflows/w1", "", 200, `"state":"waiting"`},
		{"GET", "/workflows/w1", "", 200, `"due":`},
		{"GET", "/workflows/none", "", 404, "There is no workflow none."},
		{"POST", "/workflows/none/cancel", "", 404, "There is no workflow none."},
		{"POST", "/workflows/w1/cancel", `{"reason":"` + strings.Repeat("x", 501) + `"}`, 400, "reason"},
		{"POST", "/workflows/w1/cancel", `{"why":1}`, 400, "why"},
		{"POST", "/workflows/w1/cancel", `{"reason":"not needed"}`, 200, `"state":"cancelled","summary":"ask w1","detail":"not needed"`},
		{"POST", "/workflows/w1/cancel", "", 200, `"detail":"not needed"`},
		{"GET", "/workflows?waiting=1", "", 200, `{"workflows":[{"id":"w2"`},
	} {
		code, answer := w.call(c.method, c.path, c.body)
		if code != c.code || !strings.Contains(answer, c.want) {
			t.Errorf("%s %s: %d %s, want %d with %s", c.method, c.path, code, answer, c.code, c.want)
		}
	}
}
