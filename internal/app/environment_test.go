package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/environment"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/llmtest"
)

// surroundings is the program with two sessions and a model that the test can block.
type surroundings struct {
	*running
	model *llmtest.Server
}

func newSurroundings(t *testing.T, rules string, answer func(llmtest.Request) llmtest.Script) *surroundings {
	t.Helper()
	s := &surroundings{model: llmtest.New(t, answer)}
	s.running = start(t, fmt.Sprintf("model: local/m\nproviders: {local: {type: openai, baseURL: \"%s/v1\", apiKey: x}}\n%s", s.model.URL, rules))
	s.store(func(tx *db.Tx) error {
		for _, id := range []string{"s1", "s2"} {
			if err := s.p.store.Sessions.CreateSession(tx, session.Session{ID: id, Client: "web", State: "idle"}); err != nil {
				return err
			}
		}
		return nil
	})
	return s
}

func says(text string) func(llmtest.Request) llmtest.Script {
	return func(llmtest.Request) llmtest.Script { return llmtest.Say(text) }
}

func (s *surroundings) publish(id string, typ event.Type, sessionID, payload string) {
	s.t.Helper()
	_, err := s.p.env.Publish(context.Background(), event.EnvEvent{
		ID: id, Type: typ, Payload: []byte(payload), Metadata: event.EnvMetadata{TriggerSessionID: sessionID, Source: "env"},
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *surroundings) history(sessionID string) (out []chat.Message) {
	s.t.Helper()
	err := s.p.db.Read(context.Background(), func(q db.Queryer) error {
		all, err := s.p.store.History.Messages(q, sessionID, 0, "")
		for _, m := range all {
			out = append(out, m.Message)
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

func (s *surroundings) ends(requestID string) (r session.Request) {
	s.t.Helper()
	s.eventually(requestID+" ends", func() bool {
		err := s.p.db.Read(context.Background(), func(q db.Queryer) (err error) {
			r, err = s.p.store.Requests.Request(q, requestID)
			return err
		})
		return err == nil && r.State.Ended()
	})
	return r
}

func roles(messages []chat.Message) (out []chat.Role) {
	for _, m := range messages {
		out = append(out, m.Role)
	}
	return out
}

// TestServerEnvironment checks the integration of environment events with the runner, as their
// specification defines it.
func TestServerEnvironment(t *testing.T) {
	s := newSurroundings(t, "", says("I see."))
	t.Run("initEventRules_registers", func(t *testing.T) {
		got := map[string]int{}
		for _, r := range s.p.env.Rules() {
			if r.Enabled {
				got[r.Name] = r.Priority
			}
		}
		for name, priority := range map[string]int{"user_query": 100, "background_task": 80, "session": 50, "fallback": 10} {
			if p, registered := got[name]; !registered || p != priority {
				t.Errorf("the rule %s has the priority %d (registered: %v), want %d", name, p, registered, priority)
			}
		}
	})
	t.Run("publishEvent_basic, fallback_rule_matches, handle_inserts_to_session, handle_calls_handle_query", func(t *testing.T) {
		s.publish("e1", "door.opened", "s1", `{"door":"front"}`)
		if r := s.ends("env:s1:e1"); r.State != event.StateDone || r.Steps != 1 {
			t.Errorf("%+v", r)
		}
		history := s.history("s1")
		if diff := cmp.Diff([]chat.Role{chat.System, chat.User, chat.Assistant, chat.Tool, chat.User, chat.Assistant}, roles(history)); diff != "" {
			t.Fatal(diff)
		}
		if system := history[0]; !system.IsOperator() || !strings.Contains(system.Text(), "event handling expert") {
			t.Errorf("the operator's text is %q", system.Text())
		}
		history = history[1:]
		if first := history[0].Text(); !strings.Contains(first, "Observed event: door.opened") || !strings.Contains(first, `Event ID: "e1"`) || !strings.Contains(first, "Time: ") {
			t.Errorf("the first message is %q", first)
		}
		call, result := history[1].ToolCalls()[0], history[2].ToolResults()[0]
		if text, _ := result.OutputText(); call.ToolName != "get_event_info" || call.ToolCallID != result.ToolCallID || !strings.Contains(text, `"payload":{"door":"front"}`) {
			t.Errorf("%+v, %+v", call, result)
		}
		if query, answer := history[3].Text(), history[4].Text(); !strings.HasSuffix(query, "Process event: door.opened") || answer != "I see." {
			t.Errorf("asked %q, answered %q", query, answer)
		}
	})
	t.Run("background_task_rule_creates_agent", func(t *testing.T) {
		for i, typ := range []event.Type{event.BackgroundTaskCompleted, event.BackgroundTaskFailed, event.BackgroundTaskTimeout} {
			s.publish(fmt.Sprint("t", i), typ, "s1", `{"taskId":"task-123"}`)
			s.ends(fmt.Sprint("env:s1:t", i))
			history := s.history("s1")
			if system := history[len(history)-6]; !system.IsOperator() || !strings.Contains(system.Text(), "background task expert") {
				t.Errorf("%s asks %q", typ, system.Text())
			}
		}
	})
	t.Run("user_query_rule_handles", func(t *testing.T) {
		before := len(s.history("s2"))
		code, body := s.post("/sessions/s2/prompt", `{"content":"hello"}`)
		var a struct{ RequestID string }
		if err := json.Unmarshal([]byte(body), &a); err != nil || code != http.StatusOK {
			t.Fatalf("%d %s", code, body)
		}
		s.ends(a.RequestID)
		if got := s.history("s2")[before:]; len(got) != 2 || got[0].Text() != "hello" || got[1].Text() != "I see." {
			t.Errorf("the session got %v", got)
		}
		if code, body := s.post("/sessions/none/prompt", `{"content":"hello"}`); code != http.StatusNotFound {
			t.Errorf("an unknown session: %d %s", code, body)
		}
	})
	t.Run("session_rule_logs", func(t *testing.T) {
		s.eventually("a line in the log", func() bool { return strings.Contains(s.log.String(), `"session event"`) })
	})
	t.Run("handle_session_not_found, handle_no_session_id", func(t *testing.T) {
		calls := s.model.Count()
		s.publish("lost", "door.opened", "nowhere", `{}`)
		s.publish("homeless", "door.opened", "", `{}`)
		s.publish("last", "door.opened", "s1", `{}`)
		s.ends("env:s1:last")
		s.eventually("both are told of", func() bool { return strings.Count(s.log.String(), "names no session that exists") == 2 })
		if n := s.model.Count() - calls; n != 1 {
			t.Errorf("the model was called %d times, want once", n)
		}
	})
	t.Run("observer-only types buy no model call", func(t *testing.T) {
		calls := s.model.Count()
		for i, typ := range []event.Type{"session.updated", "stream.start", "stream.completed", "stream.error", "tool.executed", "background_task.progress", "rule.stopped"} {
			s.publish(fmt.Sprint("o", i), typ, "s1", `{}`)
		}
		s.publish("after", "door.opened", "s1", `{}`)
		s.ends("env:s1:after")
		if n := s.model.Count() - calls; n != 1 {
			t.Errorf("the model was called %d times, want once: for the control", n)
		}
	})
}

// An event for a busy session joins its running request, and does not delay other sessions.
func TestAnEventMeetsABusySession(t *testing.T) {
	begun, release := make(chan struct{}, 10), make(chan struct{})
	s := newSurroundings(t, `
rules:
  follow: {when: {type: a.*}, do: {agent: {prompt: Follow.}}}
  steer: {when: {type: b.*}, do: {agent: {prompt: Steer., deliver: steer}}}
`, func(r llmtest.Request) llmtest.Script {
		last := r.LastText()
		if strings.Contains(last, "long work") {
			begun <- struct{}{}
			<-release
			return llmtest.Script{Calls: []llmtest.Call{{ID: "c", Name: "glob", Input: `{"pattern":"*"}`}}}
		}
		return llmtest.Say("Done.")
	})
	_, body := s.post("/sessions/s1/prompt", `{"content":"long work"}`)
	var a struct{ RequestID string }
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatal(body)
	}
	<-begun
	s.publish("e1", "a.x", "s1", `{}`)
	s.publish("e2", "b.x", "s1", `{}`)
	s.publish("e3", "a.x", "s2", `{}`)
	s.ends("env:s2:e3") // while the model of the other session is blocked
	s.eventually("both wait in what runs", func() bool {
		pending := 0
		_ = s.p.db.Read(context.Background(), func(q db.Queryer) error {
			state, err := s.p.store.States.State(q, "s1")
			if err == nil && state.Active != nil {
				pending = len(state.Active.Pending)
			}
			return err
		})
		return pending == 2
	})
	close(release)
	if r := s.ends(a.RequestID); r.State != event.StateDone || r.Steps != 3 {
		t.Errorf("%+v", r)
	}
	var order []string
	for _, m := range s.history("s1") {
		for _, word := range []string{"long work", "Steer.", "Follow."} {
			if m.Role == chat.User && strings.HasSuffix(m.Text(), word) {
				order = append(order, word)
			}
		}
	}
	if !slices.Equal(order, []string{"long work", "Steer.", "Follow."}) {
		t.Errorf("the session was told %q", order)
	}
}

// A rule that matches events caused by its own requests is stopped, and the record says why.
func TestARuleThatWakesItselfEnds(t *testing.T) {
	s := newSurroundings(t, "rules: {again: {when: {type: stream.completed}, do: {agent: {prompt: And now?}}}}\n", says("Well."))
	if code, body := s.post("/sessions/s1/prompt", `{"content":"hello"}`); code != http.StatusOK {
		t.Fatal(body)
	}
	var runs []environment.Run
	s.eventually("the chain ends", func() bool {
		err := s.p.db.Read(context.Background(), func(q db.Queryer) (err error) {
			runs, err = s.p.store.RuleRuns.LastRuns(q, "again", 100)
			return err
		})
		return err == nil && len(runs) > 0 && runs[0].Outcome == environment.OutcomeDepth
	})
	if n := s.model.Count(); len(runs) != event.MaxDepth+1 || n != event.MaxDepth+1 || runs[0].Depth != event.MaxDepth+1 {
		t.Errorf("%d calls of the model, %+v", n, runs)
	}
}
