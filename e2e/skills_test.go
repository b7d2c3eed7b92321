package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

// The agent learns of a skill when the operator has trusted it, in a new conversation, reads
// it from the operator's directory, and uses a file beside it.
func TestTheAgentUsesASkillThatIsTrusted(t *testing.T) {
	needsCommands(t)
	t.Parallel()
	dir := ""
	model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		for _, text := range r.Messages[len(r.Messages)-1].Results {
			return llmtest.Say("It said: " + text)
		}
		if strings.Contains(string(r.Body), "- greet: Greets people") {
			return llmtest.Script{Calls: []llmtest.Call{{ID: "c", Name: "bash", Input: fmt.Sprintf(`{"command":"tools skills.read --name=greet; sh %s/hello.sh"}`, dir)}}}
		}
		return llmtest.Say("I know no skill.")
	})
	s := e2e.New(t, modelEnv(model.URL)...)
	dir = filepath.Join(s.Dir, ".agents", "skills", "greet")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"SKILL.md": "---\nname: greet\ndescription: Greets people\n---\nSay canary-skill.", "hello.sh": "echo canary-script"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.Restart()
	ask := func() string {
		session := s.NewSession()
		a := s.Prompt(session, "greet me", event.Prompt)
		s.WaitEnded(a.RequestID, answerWithin)
		said := s.Messages(session)
		return said[len(said)-1].Text()
	}
	if got := ask(); got != "I know no skill." {
		t.Errorf("before the trust: %s", got)
	}
	cli := func(args ...string) string {
		out, err := command(t, s, args...)
		if err != nil {
			t.Errorf("%v: %v: %s", args, err, out)
		}
		return out
	}
	if out := cli("skills", "list"); !strings.Contains(out, "new") {
		t.Errorf("the list is %s", out)
	}
	if out, _ := command(t, s, "doctor"); !strings.Contains(out, "the agent does not use these yet: greet") {
		t.Errorf("the doctor says %s", out)
	}
	cli("skills", "trust", "greet")
	if got := ask(); !strings.Contains(got, "canary-skill") || !strings.Contains(got, "canary-script") {
		t.Errorf("after the trust: %s", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "hello.sh"), []byte("echo other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := ask(); got != "I know no skill." {
		t.Errorf("after a change: %s", got)
	}
	if out := cli("skills", "list"); !strings.Contains(out, "changed") {
		t.Errorf("the list is %s", out)
	}
}
