package e2e_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

// A call that the policy asks about waits through a kill, and runs after the approval. A
// callable that its command calls is asked about, too, and runs when the command is
// repeated. The control is the call without the policy: it does not wait.
func TestAnApprovalSurvivesAKill(t *testing.T) {
	t.Parallel()
	const policy = `policy: [{tool: bash, who: operator, do: ask}, {tool: "workflow.*", do: ask}]` + "\n"
	start := func(config string) (*e2e.Server, string) {
		model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
			results := 0
			for _, m := range r.Messages {
				results += len(m.Results)
			}
			if results < 2 {
				return llmtest.Script{Calls: []llmtest.Call{{ID: "c" + string(rune('0'+results)), Name: "bash", Input: `{"command":"tools workflow.list && echo ran >> log"}`}}}
			}
			return llmtest.Script{Text: []string{"Done."}}
		})
		file := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		s := e2e.Start(t, append(modelEnv(model.URL), "LILAC_CONFIG="+file)...)
		return s, s.NewSession()
	}
	s, session := start(policy)
	a := s.Prompt(session, "go", event.Prompt)
	waits := func(number int, tool string) func() bool {
		return func() bool {
			var out struct {
				Paused struct {
					Number int
					Call   struct{ Tool string }
				}
			}
			s.Request("GET", "/sessions/"+session, nil, &out)
			return out.Paused.Number == number && out.Paused.Call.Tool == tool
		}
	}
	answer := func(pause int, word string, want int) {
		t.Helper()
		if code := s.Request("POST", "/requests/"+a.RequestID+"/answer", map[string]any{"pause": pause, "answer": word}, nil); code != want {
			t.Errorf("%s for question %d: %d", word, pause, code)
		}
	}
	e2e.Eventually(t, answerWithin, "it asks about bash", waits(1, "bash"))
	s.Kill()
	s.Restart()
	if !waits(1, "bash")() {
		t.Error("the question is gone after the kill")
	}
	answer(1, "continue", http.StatusBadRequest)
	answer(1, "always", http.StatusOK)
	e2e.Eventually(t, answerWithin, "it asks about the callable", waits(2, "workflow.list"))
	answer(1, "no", http.StatusConflict)
	answer(2, "once", http.StatusOK)
	if end := s.WaitEnded(a.RequestID, answerWithin); end.State != "done" || end.Steps != 3 {
		t.Errorf("ended as %s after %d steps: %s", end.State, end.Steps, end.Detail)
	}

	s, session = start("policy: []\n")
	a = s.Prompt(session, "go", event.Prompt)
	if end := s.WaitEnded(a.RequestID, answerWithin); end.State != "done" {
		t.Errorf("control: ended as %s: %s", end.State, end.Detail)
	}
}
