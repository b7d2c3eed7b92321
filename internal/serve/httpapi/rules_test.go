package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"lilac/internal/core/environment"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/effort"
)

// environmentEvents returns all events of the environment topic.
func (w *world) environmentEvents() []event.Event {
	w.t.Helper()
	all, err := w.bus.Fetch(context.Background(), event.TopicEnv, "", 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	out := make([]event.Event, len(all))
	for i, d := range all {
		out[i] = d.Event
	}
	return out
}

func TestEventsArePublishedOnce(t *testing.T) {
	w := newWorld(t)
	id := w.newSession()
	before := len(w.environmentEvents())
	body := fmt.Sprintf(`{"id":"b1","type":"build.failed","metadata":{"trigger_session_id":%q},"payload":{"n":1}}`, id)
	if code, answer := w.call("POST", "/events", body); code != http.StatusOK || answer != `{"success":true,"id":"b1","duplicate":false}`+"\n" {
		t.Fatalf("%d %s", code, answer)
	}
	w.restart() // the accepted event is durable
	if code, answer := w.call("POST", "/events", body); code != http.StatusOK || !strings.Contains(answer, `"duplicate":true`) {
		t.Errorf("again: %d %s", code, answer)
	}
	all := w.environmentEvents()[before:]
	if len(all) != 1 || all[0].ID != "b1" || all[0].Lane != id {
		t.Errorf("published %+v", all)
	}
	if code, answer := w.call("POST", "/events", `{"type":"build.failed"}`); code != http.StatusOK || strings.Contains(answer, `"id":""`) {
		t.Errorf("without an id: %d %s", code, answer)
	}
}

func TestFieldOfTheWrongTypeIsNamed(t *testing.T) {
	w := newWorld(t)
	for body, want := range map[string]string{
		`{"type":"a","metadata":{"source":3}}`: `"message":"metadata.source must be of type string, not number.","field":"metadata.source"`,
		`{"type":"a","metadata":3}`:            `"message":"metadata must be of type object, not number.","field":"metadata"`,
		`{"type":"a","timestamp":1.5}`:         `"message":"timestamp must be of type whole number, not number 1.5.","field":"timestamp"`,
	} {
		if code, answer := w.call("POST", "/events", body); code != http.StatusBadRequest || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s", body, code, answer)
		}
	}
}

func TestEventsThatCannotBePublished(t *testing.T) {
	effort.SkipSlow(t)
	w := newWorld(t)
	before := len(w.environmentEvents())
	for body, want := range map[string]int{
		``:                                   400,
		`[]`:                                 400,
		`{}`:                                 400,
		`{"type":"A"}`:                       400,
		`{"type":"user_query","payload":{}}`: 400,
		`{"type":"session.created"}`:         400,
		`{"type":"a","payload":`:             400,
		`{"type":"a","metadata":{"trigger_session_id":"no"}}`:         404,
		`{"type":"a","payload":"` + strings.Repeat("x", 2<<20) + `"}`: 413,
	} {
		if code, answer := w.call("POST", "/events", body); code != want {
			t.Errorf("%.60s: %d %s, want %d", body, code, answer, want)
		}
	}
	if n := len(w.environmentEvents()) - before; n != 0 {
		t.Errorf("%d events were published", n)
	}
	w.opt.Tables = nil
	w.restart()
	if code, _ := w.call("POST", "/events", `{"type":"a"}`); code != http.StatusServiceUnavailable {
		t.Errorf("without sessions: %d", code)
	}
}

type records struct{}

func (records) LastRuns(db.Queryer, string, int) ([]environment.Run, error) {
	return []environment.Run{{Rule: "ci", EventID: "e", Outcome: environment.OutcomeAgent, At: 5}}, nil
}

func (records) CountsOf(db.Queryer, string, time.Time) (map[string]int64, environment.Budget, error) {
	return map[string]int64{"agent": 2, "rate": 7}, environment.Budget{Runs: 2, Tokens: 30, CostMicros: 4}, nil
}

func TestRulesAreListedAndTested(t *testing.T) {
	w := newWorld(t)
	for _, call := range [][2]string{{"GET", "/rules"}, {"POST", "/rules/test"}} {
		if code, _ := w.call(call[0], call[1], `{"type":"a"}`); code != http.StatusServiceUnavailable {
			t.Errorf("%v without rules: %d", call, code)
		}
	}
	r, err := environment.Compile(environment.Spec{Name: "ci", Types: []string{"build.*"}, Prompt: "Look at {{ .payload.n }}.", Enabled: true, Target: "ops", Rate: "1/10m"})
	if err != nil {
		t.Fatal(err)
	}
	w.opt.Rules = &Rules{InForce: func() []environment.Rule { return []environment.Rule{r} }, Records: records{}}
	w.restart()
	code, body := w.call("GET", "/rules", "")
	var list struct{ Rules []ruleStatus }
	if err := json.Unmarshal([]byte(body), &list); err != nil || code != http.StatusOK || len(list.Rules) != 1 {
		t.Fatalf("%d %s %v", code, body, err)
	}
	if s := list.Rules[0]; s.Name != "ci" || s.Does != "agent" || s.Rate != "1/10m0s" || s.Today["rate"] != 7 || s.Used.Tokens != 30 || len(s.Last) != 1 {
		t.Errorf("%+v", s)
	}
	before := len(w.environmentEvents())
	code, body = w.call("POST", "/rules/test", `{"type":"build.failed","payload":{"n":7}}`)
	var trial environment.Trial
	if err := json.Unmarshal([]byte(body), &trial); err != nil || code != http.StatusOK {
		t.Fatalf("%d %s %v", code, body, err)
	}
	if trial.Rule != "ci" || trial.Session != "ops" || !strings.HasSuffix(trial.Prompt, "Look at 7.") {
		t.Errorf("%+v", trial)
	}
	if code, _ := w.call("POST", "/rules/test", `{"type":"Not a type"}`); code != http.StatusBadRequest {
		t.Errorf("no event: %d", code)
	}
	if n := len(w.environmentEvents()) - before; n != 0 {
		t.Errorf("trying published %d events", n)
	}
}
