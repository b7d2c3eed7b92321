package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

// callsTools lists and calls tools, is denied access to another session, and saves its token and
// the server's address.
const callsTools = `
tools --list
tools surface.messages.list --limit=5
tools surface.messages.list --session-id=another; echo "exit code $?"
tools surface.messages.list --session-id=%s; echo "exit code $?"
printf '%%s\n' "$LILAC_TOOL_TOKEN" > token`

// The agent calls tools from its sandbox. When its command ends, the token becomes invalid.
func TestACommandCallsToolsAndItsTokenDiesWithIt(t *testing.T) {
	needsCommands(t)
	t.Parallel()
	told := make(chan string, 1)
	inside := make(chan string, 1)
	var use func() string
	var other string
	model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		last := r.Messages[len(r.Messages)-1]
		if len(last.Results) == 0 {
			return llmtest.Script{Calls: []llmtest.Call{{ID: "call-1", Name: "bash", Input: `{"command":` + strconv.Quote(fmt.Sprintf(callsTools, other)) + `}`}}}
		}
		for _, text := range last.Results {
			select {
			case told <- text:
				inside <- use()
			default: // asked again; the first answer is the one to look at
			}
		}
		return llmtest.Say("Done.")
	})
	runtime, err := os.MkdirTemp("", "rt") // the test's own directory may be too long for a socket path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(runtime) })
	s := e2e.New(t, append(modelEnv(model.URL), "XDG_RUNTIME_DIR="+runtime)...)
	// use lists the tools from outside, with the token that the command saved.
	asking := ""
	use = func() string {
		token, _ := os.ReadFile(filepath.Join(s.Workspace(asking), "token"))
		sockets, _ := filepath.Glob(filepath.Join(runtime, "lilac-run-*", "tools.sock"))
		if len(sockets) == 0 {
			return "no socket"
		}
		cmd := exec.Command(e2e.Binary(t), "tools", "--list")
		cmd.Env = []string{"LILAC_TOOL_SOCKET=" + sockets[len(sockets)-1], "LILAC_TOOL_TOKEN=" + strings.TrimSpace(string(token))}
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	s.Restart()
	other = s.NewSession()
	asking = s.NewSession()
	a := s.Prompt(asking, "what did I say?", event.Prompt)
	s.WaitEnded(a.RequestID, answerWithin)
	text := <-told
	for _, want := range []string{"surface.messages.list", "what did I say?", "exit code 4", "exit code 3"} {
		if !strings.Contains(text, want) {
			t.Errorf("the command's output lacks %q:\n%s", want, text)
		}
	}
	dead := "invalid or expired"
	if out := <-inside; !strings.Contains(out, dead) {
		t.Errorf("after the command the token still works: %s", out)
	}
	if out := use(); !strings.Contains(out, dead) {
		t.Errorf("after the request the token still works: %s", out)
	}
	var story struct {
		Entries []struct {
			Kind string `json:"kind"`
			Data struct {
				Callable string `json:"callable"`
				Outcome  string `json:"outcome"`
			} `json:"data"`
		} `json:"entries"`
	}
	if status := s.Request("GET", "/requests/"+a.RequestID, nil, &story); status != 200 {
		t.Fatalf("the story: %d", status)
	}
	var calls []string
	for _, e := range story.Entries {
		if e.Kind == "call" {
			calls = append(calls, e.Data.Callable+" "+e.Data.Outcome)
		}
	}
	if got := strings.Join(calls, ", "); got != "surface.messages.list ok, surface.messages.list not_found, surface.messages.list denied" {
		t.Errorf("the story tells of %q", got)
	}
}
