package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"lilac/internal/core/environment"
	"lilac/internal/core/workflow"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

// waits makes a request create a workflow whose timer is due at once, and returns the request
// that the workflow starts.
func (r *running) waits(requestID, sessionID, name string) (next string, err error) {
	r.t.Helper()
	definition, err := json.Marshal(workflow.Definition{Summary: "go on", Tasks: []workflow.Spec{{
		TaskID: "t", Kind: workflow.KindMoment, Description: "now", Input: fmt.Appendf(nil, `{"at":%d}`, time.Now().UnixMilli()),
	}}})
	if err != nil {
		r.t.Fatal(err)
	}
	from := workflow.Origin{RequestID: requestID, SessionID: sessionID, Client: "web"}
	return workflow.RequestID(name, 1), r.p.workflows.Submit(r.t.Context(), from, nil, event.WorkflowCreate{WorkflowID: name, Definition: definition})
}

// chain makes each request create the next one, until that is refused.
func (s *surroundings) chain(requestID, name string) (made int, err error) {
	s.t.Helper()
	for made <= 2*event.MaxDepth {
		s.ends(requestID)
		if requestID, err = s.waits(requestID, "s1", fmt.Sprint(name, made)); err != nil {
			return made, err
		}
		made++
	}
	return made, nil
}

// The limit on chains of causes also applies to workflows that wait for a time: a request
// that starts another one through a timer, again and again, is stopped.
func TestAChainOfWorkflowsThatWaitForTimeEnds(t *testing.T) {
	effort.SkipSlow(t)
	s := newSurroundings(t, "rules: {look: {when: {type: a.x}, do: {agent: {prompt: Look.}}}}\n", says("Well."))
	code, body := s.post("/sessions/s1/prompt", `{"content":"hello"}`)
	var prompt struct{ RequestID string }
	if err := json.Unmarshal([]byte(body), &prompt); code != http.StatusOK || err != nil {
		t.Fatal(code, body, err)
	}
	made, err := s.chain(prompt.RequestID, "person")
	if made != event.MaxDepth || fault.KindOf(err) != fault.LimitReached {
		t.Errorf("after a person %d workflows went on, then: %v", made, err)
	}
	s.publish("e", "a.x", "s1", `{}`)
	made, err = s.chain("env:s1:e", "rule")
	if made != event.MaxDepth-1 || fault.KindOf(err) != fault.LimitReached {
		t.Errorf("after an event %d workflows went on, then: %v", made, err)
	}
	if n := strings.Count(s.log.String(), "a chain of events ends here"); n != 2 {
		t.Errorf("the log says %d times that a chain ended", n)
	}
	var last []environment.Run
	if err := s.p.db.Read(context.Background(), func(q db.Queryer) (err error) {
		last, err = s.p.store.RuleRuns.LastRuns(q, "look", 100)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var outcomes []string
	for _, run := range last {
		outcomes = append(outcomes, fmt.Sprint(run.Outcome, run.Depth))
	}
	if got, want := strings.Join(outcomes, " "), "depth9 workflow8 workflow7 workflow6 workflow5 workflow4 workflow3 workflow2 agent1"; got != want {
		t.Errorf("the rule did %s, want %s", got, want)
	}
}

// Session events of the runner count as part of the chain of the request that caused them, so
// a rule on them cannot start sub-agents forever.
func TestARuleOnSessionsThatItsSubAgentsMakeEnds(t *testing.T) {
	effort.SkipSlow(t)
	s := newSurroundings(t, "rules: {made: {when: {type: session.created}, session: s1, do: {agent: {prompt: Start one.}}, budget: {tokens: 100000000}}}\n", func(r llmtest.Request) llmtest.Script {
		asked, started := 0, 0
		for _, m := range r.Messages {
			if strings.HasSuffix(m.Text, "Start one.") {
				asked++
			}
			for _, result := range m.Results {
				if strings.Contains(result, "runs in the background") {
					started++
				}
			}
		}
		if asked > started {
			return llmtest.Script{Calls: []llmtest.Call{{ID: fmt.Sprint("start", started), Name: "task", Input: `{"action":"start","prompt":"Look."}`}}}
		}
		return llmtest.Say("Well.")
	})
	s.publish("first", event.SessionCreated, "s1", `{}`)
	s.eventually("the chain ends", func() bool {
		if s.model.Count() > 200 {
			t.Fatal("it goes on")
		}
		body := ""
		for _, r := range s.model.Requests() {
			body += string(r.Body)
		}
		return strings.Contains(body, "a chain of 8 events that caused each other")
	})
}
