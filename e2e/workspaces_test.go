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
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

const sharing = `
channels: {terminal: {workspace: {shared: true}}}
rules:
  shares: {when: {type: custom.shares}, do: {agent: {workspace: {shared: true}, prompt: "glob **"}}}
  silent: {when: {type: custom.silent}, do: {agent: {prompt: "glob **"}}}
`

// obedient calls the tool that the last line of a message names, with the rest of the line as its
// path, pattern, or prompt, and then says what it was told.
func obedient(r llmtest.Request) llmtest.Script {
	last := r.Messages[len(r.Messages)-1]
	if len(last.Results) > 0 {
		return llmtest.Say("I was told: " + r.LastText())
	}
	lines := strings.Split(strings.TrimSpace(last.Text), "\n")
	name, rest, _ := strings.Cut(lines[len(lines)-1], " ")
	input := map[string]any{"path": rest, "pattern": rest, "content": "hello"}
	switch name {
	case "glob":
		input = map[string]any{"pattern": rest}
	case "read":
		delete(input, "pattern")
		delete(input, "content")
	case "write":
		delete(input, "pattern")
	case "agent":
		name, input = task.ToolName, map[string]any{"action": "start", "prompt": rest}
	case "command":
		name, input = task.ToolName, map[string]any{"action": "start", "command": rest}
	default:
		return llmtest.Say("Fine.")
	}
	raw, _ := json.Marshal(input)
	return llmtest.Script{Calls: []llmtest.Call{{ID: fmt.Sprintf("call-%d", r.N), Name: name, Input: string(raw)}}}
}

// told gives an order in a session, and returns what its tool reported.
func told(t *testing.T, s *e2e.Server, session, order string) string {
	t.Helper()
	ended := s.WaitEnded(s.Prompt(session, order, event.Prompt).RequestID, answerWithin)
	said := s.Messages(session)
	if ended.State != string(event.StateDone) || len(said) == 0 {
		t.Fatalf("%s: the request ended as %s: %s", order, ended.State, ended.Detail)
	}
	return said[len(said)-1].Text()
}

func sessionOn(s *e2e.Server, client string) string {
	var made struct{ ID string }
	s.Request("POST", "/sessions", map[string]any{"client": client}, &made)
	return made.ID
}

// Each conversation has its own files, through a restart, and what it starts works on them. Only
// where the configuration or a choice says so does it work on the shared ones.
func TestConversationsShareTheWorkspaceOnlyWhereTheConfigurationSaysSo(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, append(modelEnv(llmtest.New(t, obedient).URL), e2e.Configured(t, sharing)...)...)
	shared := filepath.Join(s.Dir, "workspace")
	one, other := s.NewSession(), s.NewSession()
	told(t, s, one, "write mine.txt")
	told(t, s, sessionOn(s, "terminal"), "write common.txt")
	if _, err := os.Stat(filepath.Join(shared, "common.txt")); err != nil {
		t.Errorf("the terminal shares the workspace: %v", err)
	}
	s.Kill()
	s.Restart()
	sees := func(got string, names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return strings.Contains(got, name) })
	}
	if got := told(t, s, one, "glob **"); !sees(got, "mine.txt") || sees(got, "common.txt") {
		t.Errorf("the conversation sees %q, want its own file alone", got)
	}
	for _, order := range []string{"glob **", "read ../s-" + one + "/mine.txt", "read " + filepath.Join(s.Dir, "data", "workspaces", "s-"+one, "mine.txt"), "read " + filepath.Join(shared, "common.txt")} {
		if got := told(t, s, other, order); sees(got, "hello", "mine.txt\n", "common.txt\n") {
			t.Errorf("%s: another conversation sees %q", order, got)
		}
	}
	if got := told(t, s, sessionOn(s, "terminal"), "glob **"); !sees(got, "common.txt") || sees(got, "mine.txt") {
		t.Errorf("another conversation of the terminal sees %q, want the common file alone", got)
	}

	// What a conversation starts works on its files.
	told(t, s, one, "agent glob **")
	if done := waitTask(t, s, one, task.Completed, task.Failed); !sees(done.Result, "mine.txt") || sees(done.Result, "common.txt") {
		t.Errorf("a sub-agent sees %q, want the file of its conversation alone", done.Result)
	}
	if canRunCommands() == nil {
		told(t, s, other, "write theirs.txt")
		told(t, s, other, "command ls; pwd")
		if done := waitTask(t, s, other, task.Completed, task.Failed); !sees(done.Result, "theirs.txt") || sees(done.Result, "mine.txt", "common.txt") {
			t.Errorf("a background command sees %q, want the file of its conversation alone", done.Result)
		}
	}

	// A rule can share, and so can the person's choice.
	for rule, want := range map[string]string{"shares": "common.txt", "silent": "mine.txt"} {
		before := len(s.Messages(one))
		s.Request("POST", "/events", map[string]any{"type": "custom." + rule, "payload": map[string]any{}, "metadata": map[string]any{"trigger_session_id": one}}, nil)
		e2e.Eventually(t, answerWithin, "the rule "+rule+" is handled where it should be", func() bool {
			said := s.Messages(one)
			return len(said) > before && strings.Contains(said[len(said)-1].Text(), "I was told: ") && strings.Contains(said[len(said)-1].Text(), want)
		})
	}
	for choice, want := range map[string]int{"shared": http.StatusOK, "everything": http.StatusBadRequest} {
		if code := s.Request("PATCH", "/sessions/"+other, map[string]any{"workspace": choice}, nil); code != want {
			t.Errorf("the choice of %s was answered %d, want %d", choice, code, want)
		}
	}
	if got := told(t, s, other, "glob **"); !sees(got, "common.txt") {
		t.Errorf("after the choice, the conversation sees %q, want the common file", got)
	}
}
