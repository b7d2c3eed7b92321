package e2e_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

// surroundings is a server and a model that finishes its answers only when it is released, so that
// the server can be killed during an answer.
type surroundings struct {
	*e2e.Server
	model *llmtest.Server
	whole atomic.Bool
}

func surrounded(t *testing.T, bus e2e.Engine) *surroundings {
	t.Helper()
	s := &surroundings{}
	s.model = llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		text := "That is how it is, and there is nothing more to be said about it today."
		if strings.Contains(r.LastText(), "Process event: background_task.completed") {
			text = "The build is done: all is well, and the report is in the usual place for you."
		}
		words := llmtest.Words(text)
		if !s.whole.Load() {
			return llmtest.Script{Text: words[:len(words)/2], Delay: 20 * time.Millisecond, Hang: true}
		}
		return llmtest.Script{Text: words, Delay: 20 * time.Millisecond}
	})
	s.Server = e2e.Start(t, append(bus(t), modelEnv(s.model.URL)...)...)
	return s
}

// killInTheMiddle kills the server when a request has started to answer, restarts it, and lets all
// later answers finish.
func (s *surroundings) killInTheMiddle(t *testing.T, requestID string) {
	t.Helper()
	e2e.Eventually(t, answerWithin, "the answer has begun", func() bool {
		return s.Story(requestID).State == string(event.StateStreaming)
	})
	s.Kill()
	s.whole.Store(true)
	s.Restart()
}

// User Query E2E: a user asks, an event is published, its handler starts the agent, and the event
// stream delivers the answer once.
func TestUserQueryE2E(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		s := surrounded(t, bus)
		session := s.NewSession()
		reader := follow(t, s.Server, session)
		a := s.Prompt(session, "How is it?", event.Prompt)
		s.killInTheMiddle(t, a.RequestID)
		if end := s.WaitEnded(a.RequestID, answerWithin); end.State != "done" {
			t.Fatalf("ended as %s: %s", end.State, end.Detail)
		}
		const answer = "That is how it is, and there is nothing more to be said about it today."
		for _, wrong := range reader.missed([]e2e.Accepted{a}, answer, answerWithin) {
			t.Error(wrong)
		}
		queries := 0
		for _, e := range s.Topic("env") {
			if e.Type == event.UserQuery {
				queries++
			}
		}
		messages := s.Messages(session)
		if queries != 1 || len(messages) != 2 || messages[1].Text() != answer {
			t.Errorf("%d user_query events, the conversation is %+v", queries, messages)
		}
	})
}

// Background Task E2E: a task ends, an event is published, the agent receives the three messages
// and decides, and the user gets its answer once.
func TestBackgroundTaskE2E(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		s := surrounded(t, bus)
		session := s.NewSession()
		reader := follow(t, s.Server, session)
		completed := map[string]any{
			"id": "task-123-done", "type": "background_task.completed",
			"metadata": map[string]any{"trigger_session_id": session, "source": "tool"},
			"payload":  map[string]any{"taskId": "task-123", "result": map[string]any{"ok": true}},
		}
		if code := s.Request("POST", "/events", completed, nil); code != http.StatusOK {
			t.Fatalf("the event was answered %d", code)
		}
		s.Kill() // after the event was accepted
		s.Restart()
		request := "env:" + session + ":task-123-done"
		s.killInTheMiddle(t, request)
		if code := s.Request("POST", "/events", completed, nil); code != http.StatusOK {
			t.Errorf("the repeated event was answered %d", code)
		}
		if end := s.WaitEnded(request, answerWithin); end.State != "done" {
			t.Fatalf("ended as %s: %s", end.State, end.Detail)
		}
		const answer = "The build is done: all is well, and the report is in the usual place for you."
		for _, wrong := range reader.missed([]e2e.Accepted{{RequestID: request}}, answer, answerWithin) {
			t.Error(wrong)
		}
		var roles []string
		messages := s.Messages(session)
		for _, m := range messages {
			roles = append(roles, m.Role)
		}
		// The first message is the operator's text of the rule.
		if got := strings.Join(roles, " "); got != "system user assistant tool user assistant" {
			t.Fatalf("the conversation has %s", got)
		}
		messages = messages[1:]
		if first, last := messages[0].Text(), messages[4].Text(); !strings.HasPrefix(first, "Observed event: background_task.completed") || last != answer {
			t.Errorf("the conversation goes from %q to %q", first, last)
		}
		if raw := string(messages[2].Content); !strings.Contains(raw, "task-123") || !strings.Contains(raw, "get_event_info") {
			t.Errorf("the agent was told %s", raw)
		}
	})
}

// Error Handling E2E: invalid events are rejected, unhandled events cause a warning, and the
// system keeps working.
func TestErrorHandlingE2E(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		s := surrounded(t, bus)
		s.whole.Store(true)
		session := s.NewSession()
		for _, c := range []struct {
			event any
			want  int
		}{
			{map[string]any{"type": "No Type"}, http.StatusBadRequest},
			{[]string{"no event"}, http.StatusBadRequest},
			{map[string]any{"type": "door.opened", "metadata": map[string]any{"trigger_session_id": "none"}}, http.StatusNotFound},
			{map[string]any{"type": "stream.completed"}, http.StatusBadRequest},
			{map[string]any{"id": "lonely", "type": "door.opened"}, http.StatusOK},
			{map[string]any{"type": "background_task.progress", "metadata": map[string]any{"trigger_session_id": session}}, http.StatusOK},
		} {
			if code := s.Request("POST", "/events", c.event, nil); code != c.want {
				t.Errorf("%v was answered %d, want %d", c.event, code, c.want)
			}
		}
		s.Kill()
		s.Restart()
		e2e.Eventually(t, answerWithin, "a warning", func() bool {
			return strings.Contains(s.Log(), "names no session that exists") && strings.Contains(s.Log(), "lonely")
		})
		a := s.Prompt(session, "How is it?", event.Prompt)
		if end := s.WaitEnded(a.RequestID, answerWithin); end.State != "done" {
			t.Errorf("ended as %s: %s", end.State, end.Detail)
		}
		var dead struct{ DeadLetters []any }
		if s.Request("GET", "/dlq", nil, &dead); len(dead.DeadLetters) > 0 || s.model.Count() != 1 {
			t.Errorf("%d dead letters, %d calls of the model, want none and one", len(dead.DeadLetters), s.model.Count())
		}
	})
}
