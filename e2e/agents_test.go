package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"lilac/internal/core/task"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

const reviewers = `
agents:
  reviewer:
    description: reads changes critically
    model: openai/strict-model
    instructions: You review, and you change nothing.
    tools: {deny: [write]}
    limits: {steps: 2}
channels: {terminal: {agent: reviewer}}
rules:
  changed: {when: {type: custom.changed}, do: {agent: {name: reviewer, prompt: Look at it.}}}
v1: {tokens: {ci: {token: 0123456789abcdef0123456789abcdef}}}
`

// writer tries to write whenever it is told to work, and records who was asked.
type writer struct {
	*llmtest.Server
	mu    sync.Mutex
	asked []llmtest.Request
}

func newWriter(t *testing.T, begin func(r llmtest.Request) *llmtest.Script) *writer {
	w := &writer{}
	w.Server = llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		w.mu.Lock()
		w.asked = append(w.asked, r)
		w.mu.Unlock()
		if s := begin(r); s != nil {
			return *s
		}
		if len(r.Messages[len(r.Messages)-1].Results) > 0 {
			return llmtest.Say("I was told: " + r.LastText())
		}
		return llmtest.Script{Calls: []llmtest.Call{{ID: fmt.Sprintf("call-%d", r.N), Name: "write", Input: `{"path":"f.txt","content":"x"}`}}}
	})
	return w
}

// byReviewer returns the models of the requests whose system prompt has the reviewer's
// instructions.
func (w *writer) byReviewer() (models []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.asked {
		if strings.Contains(r.Messages[0].Text, "You review, and you change nothing.") {
			models = append(models, r.Model)
		}
	}
	return models
}

func nothing(llmtest.Request) *llmtest.Script { return nil }

// However work reaches a named agent, it has that agent's model, instructions, and tools.
func TestANamedAgentDoesTheWork(t *testing.T) {
	for name, c := range map[string]struct {
		begin func(llmtest.Request) *llmtest.Script
		give  func(t *testing.T, s *e2e.Server) (session string)
	}{
		"as a task": {
			begin: func(r llmtest.Request) *llmtest.Script {
				last := r.Messages[len(r.Messages)-1]
				known := strings.Contains(r.Messages[0].Text, "- reviewer: reads changes critically")
				switch {
				case strings.Contains(last.Text, "begin") && known:
					return &llmtest.Script{Calls: []llmtest.Call{{ID: "start", Name: task.ToolName, Input: `{"action":"start","agent":"reviewer","prompt":"review it"}`}}}
				case strings.Contains(r.LastText(), "agent reviewer runs"), strings.Contains(last.Text, "The operator's rule"), strings.Contains(last.Text, "begin"):
					ok := llmtest.Say("Fine.")
					return &ok
				}
				return nil
			},
			give: func(t *testing.T, s *e2e.Server) string {
				session := s.NewSession()
				s.WaitEnded(s.Prompt(session, "begin", event.Prompt).RequestID, answerWithin)
				done := waitTask(t, s, session, task.Completed, task.Failed)
				if done.Agent != "reviewer" {
					t.Errorf("the task's agent is %q", done.Agent)
				}
				return done.ChildSession
			},
		},
		"by a rule": {nothing, func(t *testing.T, s *e2e.Server) string {
			session := s.NewSession()
			s.Request("POST", "/events", map[string]any{"type": "custom.changed", "payload": map[string]any{}, "metadata": map[string]any{"trigger_session_id": session}}, nil)
			return session
		}},
		"chosen in a conversation": {nothing, func(t *testing.T, s *e2e.Server) string {
			session := s.NewSession()
			if code := s.Request("PATCH", "/sessions/"+session, map[string]any{"agent": "reviewer"}, nil); code != http.StatusOK {
				t.Fatalf("the choice was answered %d", code)
			}
			s.Prompt(session, "go", event.Prompt)
			return session
		}},
		"in its channel": {nothing, func(t *testing.T, s *e2e.Server) string {
			var made struct{ ID string }
			s.Request("POST", "/sessions", map[string]any{"client": "terminal"}, &made)
			s.Prompt(made.ID, "go", event.Prompt)
			return made.ID
		}},
		"as a model of /v1": {nothing, func(t *testing.T, s *e2e.Server) string {
			var out struct{ ID string }
			s.Request("POST", "/v1/responses", map[string]any{"model": "lilac/agents/reviewer", "input": "go"}, &out, "Authorization", "Bearer 0123456789abcdef0123456789abcdef")
			session, _, _ := strings.Cut(strings.TrimPrefix(out.ID, "resp_"), "_")
			return session
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := newWriter(t, c.begin)
			s := e2e.Start(t, append(modelEnv(model.URL), e2e.Configured(t, reviewers)...)...)
			session := c.give(t, s)
			e2e.Eventually(t, answerWithin, "the agent reports the refusal", func() bool {
				return slices.ContainsFunc(s.Messages(session), func(m e2e.Said) bool {
					return strings.Contains(m.Text(), "I was told: ") && strings.Contains(m.Text(), "The agent reviewer does not allow write")
				})
			})
			if models := model.byReviewer(); len(models) == 0 || slices.ContainsFunc(models, func(m string) bool { return m != "strict-model" }) {
				t.Errorf("the agent's instructions went to the models %q, want strict-model", models)
			}
		})
	}
}

// Without its name, the work has the ordinary model and may write.
func TestControlWithoutANameTheOrdinaryAgentWorks(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	model := newWriter(t, nothing)
	s := e2e.Start(t, append(modelEnv(model.URL), e2e.Configured(t, reviewers)...)...)
	session := s.NewSession()
	s.WaitEnded(s.Prompt(session, "go", event.Prompt).RequestID, answerWithin)
	if said := s.Messages(session); strings.Contains(said[len(said)-1].Text(), "does not allow") {
		t.Errorf("the ordinary agent was refused: %s", said[len(said)-1].Text())
	}
	if models := model.byReviewer(); len(models) != 0 {
		t.Errorf("the agent's instructions went to %q", models)
	}
}

// The limits of an agent bound its requests.
func TestANamedAgentStopsAtItsLimit(t *testing.T) {
	t.Parallel()
	model := newWriter(t, func(r llmtest.Request) *llmtest.Script {
		return &llmtest.Script{Calls: []llmtest.Call{{ID: fmt.Sprintf("call-%d", r.N), Name: "glob", Input: fmt.Sprintf(`{"pattern":"*%d"}`, r.N)}}}
	})
	s := e2e.Start(t, append(modelEnv(model.URL), e2e.Configured(t, reviewers)...)...)
	session := s.NewSession()
	s.Request("PATCH", "/sessions/"+session, map[string]any{"agent": "reviewer"}, nil)
	s.Prompt(session, "go", event.Prompt)
	e2e.Eventually(t, answerWithin, "it asks at two steps", func() bool {
		var out struct{ Paused struct{ Question string } }
		s.Request("GET", "/sessions/"+session, nil, &out)
		return strings.Contains(out.Paused.Question, "2 steps")
	})
}

// A name that does not exist is refused, and changes nothing.
func TestAnUnknownAgentIsRefused(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, append(modelEnv(newWriter(t, nothing).URL), e2e.Configured(t, reviewers)...)...)
	session := s.NewSession()
	if code := s.Request("PATCH", "/sessions/"+session, map[string]any{"agent": "reviewr"}, nil); code != http.StatusBadRequest {
		t.Errorf("answered %d", code)
	}
	var out struct{ Agent string }
	if s.Request("GET", "/sessions/"+session, nil, &out); out.Agent != "" {
		t.Errorf("the agent is %q", out.Agent)
	}
}
