package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

// After a crash during a tool call, an idempotent call is repeated, and the model reads its result
// as if nothing had happened. For any other call, the model is told that the outcome is unknown.
func TestOnlyIdempotentToolsAreRunAgain(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		if got := resultAfterCrash(t, bus, "write", `{"path":"note.txt","content":"hello"}`); strings.Contains(got, unknownOutcome) {
			t.Errorf("of an idempotent tool the model is told %q", got)
		}
		needsCommands(t)
		if got := resultAfterCrash(t, bus, "bash", `{"command":"echo hello >> note.txt"}`); !strings.Contains(got, unknownOutcome) {
			t.Errorf("of a command the model is told %q", got)
		}
	})
}

// resultAfterCrash kills the program when a tool has taken effect but its end is not in the
// journal. It returns the tool result for the model. The file note.txt must contain the effect
// once.
func resultAfterCrash(t *testing.T, bus e2e.Engine, tool, input string) string {
	t.Helper()
	told := make(chan string, 1)
	model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		last := r.Messages[len(r.Messages)-1]
		if len(last.Results) == 0 {
			return llmtest.Script{Calls: []llmtest.Call{{ID: "call-1", Name: tool, Input: input}}}
		}
		for _, text := range last.Results {
			select {
			case told <- text:
			default: // asked again; the first answer is the one to look at
			}
		}
		return llmtest.Say("Done.")
	})
	s := e2e.New(t, append(bus(t), modelEnv(model.URL)...)...)
	s.Restart("LILAC_KILL_AT=record:tool_end")
	session := s.NewSession()
	a := promptAndKill(t, s, session, "go")
	s.WaitEnded(a.RequestID, answerWithin)
	data, err := os.ReadFile(filepath.Join(s.Workspace(session), "note.txt"))
	if err != nil || strings.Count(string(data), "hello") != 1 {
		t.Errorf("after %s the file holds %q (%v)", tool, data, err)
	}
	return <-told
}
