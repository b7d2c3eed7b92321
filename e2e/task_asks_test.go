package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lilac/internal/core/task"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

// delegates starts a sub-agent that writes a file, when it is told to begin.
func delegates(r llmtest.Request) llmtest.Script {
	last := r.Messages[len(r.Messages)-1]
	call := func(name string, input map[string]any) llmtest.Script {
		raw, _ := json.Marshal(input)
		return llmtest.Script{Calls: []llmtest.Call{{ID: fmt.Sprintf("call-%d", r.N), Name: name, Input: string(raw)}}}
	}
	switch {
	case len(last.Results) > 0:
		return llmtest.Say("I was told: " + r.LastText())
	case strings.Contains(last.Text, "begin"):
		return call(task.ToolName, map[string]any{"action": "start", "prompt": "do it", "description": "the file"})
	case strings.Contains(last.Text, "do it"):
		return call("write", map[string]any{"path": "f.txt", "content": "hello"})
	}
	return llmtest.Say("Fine.")
}

// A call of a sub-agent that the policy asks about waits, through a kill, for the people of the
// conversation that started it.
func TestASubAgentsCallIsApprovedWhereItWasStarted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer string
		says   string
		writes bool
	}{
		"once": {"once", "Created f.txt", true},
		"no":   {"no", "needs an approval, and", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := e2e.Start(t, append(modelEnv(llmtest.New(t, delegates).URL), e2e.Configured(t, "policy: [{tool: write, do: ask}]\n")...)...)
			session := s.NewSession()
			s.WaitEnded(s.Prompt(session, "begin", event.Prompt).RequestID, answerWithin)
			var open struct {
				Questions []struct {
					TaskID, Description, RequestID string
					Paused                         struct {
						Number int
						Call   struct{ Tool string }
					}
				}
			}
			asked := func() bool {
				s.Request("GET", "/sessions/"+session, nil, &open)
				return len(open.Questions) == 1 && open.Questions[0].Paused.Call.Tool == "write" && open.Questions[0].Description == "the file"
			}
			e2e.Eventually(t, answerWithin, "the question is in the conversation", asked)
			s.Kill()
			s.Restart()
			if !asked() {
				t.Fatalf("after a kill, the questions are %+v", open.Questions)
			}
			if code := s.Request("POST", "/requests/"+open.Questions[0].RequestID+"/answer", map[string]any{"pause": open.Questions[0].Paused.Number, "answer": c.answer}, nil); code != http.StatusOK && code != http.StatusAccepted {
				t.Fatalf("the answer was answered %d", code)
			}
			done := waitTask(t, s, session, task.Completed, task.Failed)
			_, err := os.Stat(filepath.Join(s.Workspace(session), "f.txt"))
			if !strings.Contains(done.Result, c.says) || (err == nil) != c.writes {
				t.Errorf("the task says %q, and the file: %v", done.Result, err)
			}
			open.Questions = nil
			s.Request("GET", "/sessions/"+session, nil, &open)
			if len(open.Questions) != 0 {
				t.Errorf("the question is still open: %+v", open.Questions)
			}
			// The events of the conversation tell of the question and of the answer.
			var told []string
			for _, e := range s.Topic("env") {
				var v event.EnvEvent
				if json.Unmarshal(e.Data, &v) == nil && v.Metadata.TriggerSessionID == session && strings.HasPrefix(string(v.Type), "session.") && v.Metadata.TriggerAgentName == "the file" {
					told = append(told, string(v.Type))
				}
			}
			if !slices.Equal(told, []string{"session.paused", "session.resumed"}) {
				t.Errorf("the events of the task's question are %q", told)
			}
		})
	}
}

func TestASubAgentsCallIsApprovedWithAButton(t *testing.T) {
	t.Parallel()
	d := e2e.NewDiscord(t, discordtest.Options{})
	d.Configure(fmt.Sprintf("policy: [{tool: write, who: \"user:%s\", do: ask}]\n", d.Ada.ID))
	s := e2e.Start(t, append(modelEnv(llmtest.New(t, delegates).URL), d.Env()...)...)
	e2e.Eventually(t, answerWithin, "the bot is connected", func() bool { return d.Connected() > 0 })
	d.MentionUs(d.General, d.Ada, "begin")
	question := d.Shown(d.General, "the question has buttons", func(m discordtest.Message) bool {
		return strings.Contains(m.Content, "The task “the file” asks: May I call write?") && len(m.Buttons) == 3
	})
	s.Kill()
	s.Restart()
	e2e.Eventually(t, answerWithin, "the bot is connected", func() bool { return d.Connected() > 0 })
	refused := d.Press(d.General, question.ID, d.Bob.ID, question.Buttons[0].ID)
	e2e.Eventually(t, answerWithin, "Bob may not answer", func() bool {
		i := d.Interaction(refused)
		return len(i.Messages) == 1 && strings.Contains(i.Messages[0].Content, "may not approve")
	})
	d.Press(d.General, question.ID, d.Ada.ID, question.Buttons[0].ID)
	if done := waitTask(t, s, d.General, task.Completed, task.Failed); !strings.Contains(done.Result, "Created f.txt") {
		t.Errorf("the task says %q", done.Result)
	}
	d.Shown(d.General, "the message says how it was answered, without buttons", func(m discordtest.Message) bool {
		return m.ID == question.ID && len(m.Buttons) == 0 && strings.HasSuffix(m.Content, "\n-# Allowed once by @ada.")
	})
	if n := len(slices.DeleteFunc(d.Ours(d.General), func(m discordtest.Message) bool { return !strings.Contains(m.Content, "asks: May I call") })); n != 1 {
		t.Errorf("the question was sent %d times", n)
	}
}
