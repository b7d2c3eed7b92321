package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"lilac/internal/core/session"
	"lilac/internal/core/workflow"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/llmtest"
)

// looping returns the program with a request in s1 that is paused at its limit of one step.
func looping(t *testing.T) *surroundings {
	t.Helper()
	s := newSurroundings(t, "limits: {request: {steps: 1}}\n", func(llmtest.Request) llmtest.Script {
		return llmtest.Script{Calls: []llmtest.Call{{ID: "call", Name: "glob", Input: `{"pattern":"*"}`}}}
	})
	s.says("go")
	s.pauses(1)
	return s
}

func (s *surroundings) says(text string) {
	s.t.Helper()
	content, _ := json.Marshal(map[string]string{"content": text})
	if code, body := s.post("/sessions/s1/prompt", string(content)); code != http.StatusOK {
		s.t.Fatalf("%q: %d %s", text, code, body)
	}
}

func (s *surroundings) state() (state session.State) {
	s.t.Helper()
	err := s.p.db.Read(s.t.Context(), func(q db.Queryer) (err error) { state, err = s.p.store.States.State(q, "s1"); return err })
	if err != nil {
		s.t.Fatal(err)
	}
	return state
}

// pauses waits until the request is paused for the n-th time.
func (s *surroundings) pauses(n int) {
	s.t.Helper()
	s.eventually("the request waits at its limit", func() bool {
		pause := s.state().OpenPause()
		return pause != nil && pause.Number == n
	})
}

// awaits creates a workflow of the session s1.
func (s *surroundings) awaits(id, kind string, in workflow.TaskInput) {
	s.t.Helper()
	raw, _ := json.Marshal(in)
	definition, _ := json.Marshal(workflow.Definition{Summary: "go on", Tasks: []workflow.Spec{{TaskID: "t1", Kind: kind, Description: "x", Input: raw}}})
	from := workflow.Origin{RequestID: "web:s1:1", SessionID: "s1", Client: "web"}
	if err := s.p.workflows.Submit(s.t.Context(), from, nil, event.WorkflowCreate{WorkflowID: id, Definition: definition}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *surroundings) workflow(id string) workflow.Workflow {
	s.t.Helper()
	w, err := s.p.workflows.Get(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return w
}

// An answer to the question of a paused request goes to that request, even if a workflow waits
// for the next message.
func TestAnAnswerAtALimitIsNoReplyToAWorkflow(t *testing.T) {
	s := looping(t)
	s.awaits("w", "web.wait_for_reply", workflow.TaskInput{SessionID: "s1"})
	s.says("continue")
	s.pauses(2)
	if got := s.workflow("w"); got.State != workflow.Waiting {
		t.Errorf("after the answer the workflow is %s", got.State)
	}
	s.says("Tuesday") // control: any other message goes to the workflow
	s.eventually("the workflow has its reply", func() bool { return s.workflow("w").State == workflow.Resolved })
	s.awaits("w2", "web.wait_for_reply", workflow.TaskInput{SessionID: "s1"})
	s.says("stop")
	s.eventually("the request is stopped and the next one waits", func() bool {
		state := s.state()
		return state.Active != nil && state.Active.Pauses == 1 && state.OpenPause() != nil && len(state.Queue) == 0
	})
	if got := s.workflow("w2"); got.State != workflow.Waiting {
		t.Errorf("after the stop the workflow is %s", got.State)
	}
	if w := s.workflow("w"); w.Tasks[0].Result.Message.Text != "Tuesday" {
		t.Errorf("the reply is %+v", w.Tasks[0].Result)
	}
}

// comesDue makes a schedule due, and waits until the run is handled.
func (s *surroundings) comesDue(id string) {
	s.t.Helper()
	s.store(func(tx *db.Tx) error {
		w, err := s.p.store.Workflows.Workflow(tx, id)
		if err != nil {
			return err
		}
		w.Tasks[0].Due = tx.Now().UnixMilli()
		return s.p.store.Workflows.SaveWorkflow(tx, w)
	})
	s.awaits(fmt.Sprint("look", time.Now().UnixNano()), workflow.KindDelay, workflow.TaskInput{DelayMS: time.Hour.Milliseconds()}) // makes the timer check for due workflows
	s.eventually("the run is handled", func() bool { return s.workflow(id).Due() > time.Now().Add(time.Minute).UnixMilli() })
}

// queued waits until n requests are queued in the session, and returns their ids.
func (s *surroundings) queued(n int) (ids []string) {
	s.t.Helper()
	s.eventually(fmt.Sprint(n, " requests wait"), func() bool { return len(s.state().Queue) == n })
	for _, w := range s.state().Queue {
		ids = append(ids, w.RequestID)
	}
	return ids
}

// While a session is paused, a schedule queues only one run, so that the runs of days do not
// pile up.
func TestASchedulePutsOneRunBehindAPausedRequest(t *testing.T) {
	s := looping(t)
	s.awaits("w", workflow.KindSchedule, workflow.TaskInput{Cron: "@every 1h"})
	for range 3 {
		s.comesDue("w")
		if ids := s.queued(1); ids[0] != "wf:w:1" {
			t.Errorf("queued: %q", ids)
		}
	}
	s.says("stop")
	s.eventually("the run has begun", func() bool {
		active := s.state().Active
		return active != nil && active.RequestID == "wf:w:1"
	})
	s.comesDue("w")
	if ids := s.queued(1); ids[0] != "wf:w:2" {
		t.Errorf("behind the run that has begun: %q", ids)
	}
}
