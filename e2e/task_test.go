package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lilac/internal/core/task"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

// taskModel starts a task when a user says "begin", and reports the end of each task.
type taskModel struct {
	server *llmtest.Server
	start  map[string]any
}

// startsTask starts a model that starts a task with this input.
func startsTask(t testing.TB, input map[string]any) *taskModel {
	m := &taskModel{start: maps.Clone(input)}
	m.start["action"] = "start"
	m.server = llmtest.New(t, m.answer)
	return m
}

func (m *taskModel) answer(r llmtest.Request) llmtest.Script {
	last := r.Messages[len(r.Messages)-1]
	switch {
	case strings.Contains(last.Text, "begin"):
		input, _ := json.Marshal(m.start)
		return llmtest.Script{Calls: []llmtest.Call{{ID: fmt.Sprintf("call-%d", len(r.Messages)), Name: task.ToolName, Input: string(input)}}}
	case strings.Contains(last.Text, "sub-agent's work"):
		return llmtest.Say("The sub-agent's answer.")
	case strings.Contains(last.Text, "The operator's rule"):
		return llmtest.Say("I was told.")
	}
	return llmtest.Say("It runs.")
}

// toldEnd is the event about a task's end as the model reads it.
type toldEnd struct {
	ID      string       `json:"event_id"`
	Type    event.Type   `json:"event_type"`
	Payload task.Payload `json:"payload"`
}

func endOf(result string) (e toldEnd, ok bool) {
	return e, json.Unmarshal([]byte(result), &e) == nil && strings.HasPrefix(string(e.Type), "background_task.")
}

func (m *taskModel) env() []string { return modelEnv(m.server.URL) }

func tasksOf(s *e2e.Server, session string) []task.Task {
	var out struct{ Tasks []task.Task }
	s.Request("GET", "/tasks?session_id="+session, nil, &out)
	return out.Tasks
}

// waitTask waits until the only task of a session is in one of the states.
func waitTask(t *testing.T, s *e2e.Server, session string, in ...task.State) task.Task {
	t.Helper()
	var found task.Task
	e2e.Eventually(t, answerWithin, fmt.Sprintf("the task is %v", in), func() bool {
		for _, one := range tasksOf(s, session) {
			found = one
		}
		return slices.Contains(in, found.State)
	})
	return found
}

func letGo(t *testing.T, s *e2e.Server, session string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.Workspace(session), "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// waits is a command that runs until the file "go" exists.
const waits = "echo begun; while [ ! -e go ]; do sleep 0.05; done; "

// endsTold returns the ends of tasks in a session's history, in order.
func endsTold(s *e2e.Server, session string) []toldEnd { return endsIn(s.Messages(session)) }

// waitTold waits until the end of a task is in a session's history and the session is idle. It
// returns all ends in the history.
func waitTold(t *testing.T, s *e2e.Server, session string) []toldEnd {
	t.Helper()
	var told []toldEnd
	e2e.Eventually(t, answerWithin, "the session is told of an end", func() bool {
		var info struct{ State string }
		told = endsTold(s, session)
		// The end is in the history before its request ends.
		s.Request("GET", "/sessions/"+session, nil, &info)
		return len(told) > 0 && info.State == "idle"
	})
	return told
}

// The agent starts a command, answers at once, and continues when the command ends.
func TestABackgroundCommandComesBackWithItsResult(t *testing.T) {
	needsCommands(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := startsTask(t, map[string]any{"command": waits + "echo forty-two", "description": "count"})
		s := e2e.Start(t, slices.Concat(bus(t), model.env())...)
		session := s.NewSession()
		first := s.Prompt(session, "begin", event.Prompt)
		if story := s.WaitEnded(first.RequestID, answerWithin); story.State != "done" {
			t.Fatalf("the request ended as %s (%s)", story.State, story.Detail)
		}
		running := waitTask(t, s, session, task.Running)
		var part task.OutputPart
		e2e.Eventually(t, answerWithin, "its output is there while it runs", func() bool {
			s.Request("GET", "/tasks/"+running.ID+"/output", nil, &part)
			return part.Text == "begun\n"
		})
		letGo(t, s, session)
		done := waitTask(t, s, session, task.Completed)
		told := waitTold(t, s, session)
		if len(told) != 1 || told[0].Type != event.BackgroundTaskCompleted || told[0].Payload.TaskID != done.ID ||
			told[0].Payload.Result.Output != "begun\nforty-two\n" || *told[0].Payload.Result.ExitCode != 0 {
			t.Errorf("the session was told %+v", told)
		}
		if last := s.Messages(session); last[len(last)-1].Text() != "I was told." {
			t.Errorf("the last word is %q", last[len(last)-1].Text())
		}
		for _, e := range s.Story(first.RequestID).Entries {
			if e.Kind == "task" && strings.Contains(string(e.Data), done.ID) {
				return
			}
		}
		t.Error("the story of the request does not tell of the task")
	})
}

// A command that was killed with the program is reported as failed.
func TestABackgroundCommandThatWasKilledIsToldAsFailed(t *testing.T) {
	needsCommands(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := startsTask(t, map[string]any{"command": waits})
		s := e2e.Start(t, slices.Concat(bus(t), model.env())...)
		session := s.NewSession()
		s.WaitEnded(s.Prompt(session, "begin", event.Prompt).RequestID, answerWithin)
		waitTask(t, s, session, task.Running)
		s.Kill()
		s.Restart()
		told := waitTold(t, s, session)
		if len(told) != 1 || told[0].Type != event.BackgroundTaskFailed || !strings.Contains(told[0].Payload.Error, "restarted") {
			t.Errorf("the session was told %+v", told)
		}
	})
}

// A sub-agent works in its own session and survives kill -9.
func TestASubAgentSurvivesAKill(t *testing.T) {
	effort.SkipDetail(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := startsTask(t, map[string]any{"prompt": "Do the sub-agent's work.", "description": "the work"})
		for _, point := range []string{"task:running", "tasked:running", "recorded:started", "task:completed", "tasked:completed"} {
			t.Run(strings.ReplaceAll(point, ":", "_"), func(t *testing.T) {
				s := e2e.New(t, slices.Concat(bus(t), model.env())...)
				s.Restart()
				session := s.NewSession()
				s.Kill()
				s.Restart("LILAC_KILL_AT=" + point)
				first := promptAndKill(t, s, session, "begin")
				s.WaitEnded(first.RequestID, answerWithin)
				done := waitTask(t, s, session, task.Completed)
				told := waitTold(t, s, session)
				if len(told) != 1 || told[0].Type != event.BackgroundTaskCompleted || told[0].Payload.Result.Answer != "The sub-agent's answer." {
					t.Errorf("the session was told %+v", told)
				}
				id, err := event.ParseRequestID(done.ChildRequest)
				if err != nil || id.Surface != "sub" || id.Session != session || s.Story(done.ChildRequest).State != "done" {
					t.Errorf("its request is %q", done.ChildRequest)
				}
				var list struct{ Sessions []struct{ ID string } }
				if s.Request("GET", "/sessions", nil, &list); len(list.Sessions) != 1 {
					t.Errorf("%d sessions are listed, want that of the person", len(list.Sessions))
				}
			})
		}
	})
}
