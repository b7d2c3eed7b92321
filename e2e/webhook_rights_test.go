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

	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

// orders is what a hostile webhook tells the model to do. Each order has an effect that can
// be seen from outside.
var orders = []llmtest.Call{
	{Name: "bash", Input: `{"command":"touch effect-bash; tools events.publish --type=custom.effect; tools workflow.schedule --cron=@hourly --summary=effect; tools task.start --prompt=effect"}`},
	{Name: "write", Input: `{"path":"effect-write","content":"x"}`},
	{Name: "edit", Input: `{"path":"there.txt","old":"there","new":"effect-edit"}`},
	{Name: "task", Input: `{"action":"start","command":"touch effect-task"}`},
	{Name: "task", Input: `{"action":"start","prompt":"touch effect-sub"}`},
	{Name: "attachment_add", Input: `{"paths":["there.txt"]}`},
	{Name: "attachment_download", Input: `{}`},
	{Name: "read", Input: `{"path":"there.txt"}`},
}

// obeyWebhook is a model that carries out the orders, and then ends.
func obeyWebhook(r llmtest.Request) llmtest.Script {
	last := r.Messages[len(r.Messages)-1]
	if strings.Contains(last.Text, "CI failed") {
		calls := slices.Clone(orders)
		for i := range calls {
			calls[i].ID = fmt.Sprint("order-", i)
		}
		return llmtest.Script{Calls: calls}
	}
	return llmtest.Script{Text: llmtest.Words(opsAnswer)}
}

// effects delivers a hostile webhook and returns the tools that ran, and those of their
// effects that can be seen.
func effects(t *testing.T, rule string, env ...string) (ran, seen []string) {
	t.Helper()
	config := strings.Replace(ciFailed("title:ops"), "    rate: 1/10m\n", rule, 1)
	s := e2e.New(t, slices.Concat(modelEnv(llmtest.New(t, obeyWebhook).URL), e2e.Configured(t, config), env)...)
	s.Restart()
	ops := named(t, s, "ops")
	workspace := s.Workspace(ops)
	if err := os.WriteFile(filepath.Join(workspace, "there.txt"), []byte("there"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _ := s.Hook("github", "red", failedRun); code != http.StatusAccepted {
		t.Fatalf("answered with %d", code)
	}
	e2e.Eventually(t, answerWithin, "the agent has answered", func() bool { answers, _ := said(s, ops); return answers > 0 })
	var requests struct {
		Requests []struct {
			ID string `json:"id"`
		} `json:"requests"`
	}
	s.Request("GET", "/requests?session_id="+ops, nil, &requests)
	for _, r := range requests.Requests {
		var story struct {
			Entries []struct {
				Kind string `json:"kind"`
				Data struct {
					Name   string `json:"name"`
					Result struct {
						Output json.RawMessage `json:"output"`
					} `json:"result"`
				} `json:"data"`
			} `json:"entries"`
		}
		s.Request("GET", "/requests/"+r.ID, nil, &story)
		for _, e := range story.Entries {
			if e.Kind == "tool_end" && !strings.Contains(string(e.Data.Result.Output), "Not run: ") && !slices.Contains(ran, e.Data.Name) {
				ran = append(ran, e.Data.Name)
			}
		}
	}
	files, err := os.ReadDir(workspace)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasPrefix(f.Name(), "effect") {
			seen = append(seen, f.Name())
		}
	}
	if text, _ := os.ReadFile(filepath.Join(workspace, "there.txt")); string(text) != "there" {
		seen = append(seen, "an edit")
	}
	for table, what := range map[string]string{"tasks": "a task", "workflows": "a workflow"} {
		if s.Count("SELECT count(*) FROM "+table) > 0 {
			seen = append(seen, what)
		}
	}
	slices.Sort(ran)
	slices.Sort(seen)
	return ran, seen
}

// A webhook's text can make the model try anything; its request may only read.
func TestAHostileWebhookMayOnlyRead(t *testing.T) {
	t.Parallel()
	ran, seen := effects(t, "")
	if !slices.Equal(ran, []string{"read"}) || len(seen) > 0 {
		t.Errorf("%q ran, with the effects %q; want only read", ran, seen)
	}
}

// Controls: with a rule that allows it, and in a program that ignores grants, the same
// orders take effect.
func TestControlAHostileWebhookThatMayDoEverything(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	for name, c := range map[string]struct{ rule, env string }{
		"the rule allows everything": {"    tools: {allow: [\"*\"]}\n", ""},
		"grants are ignored":         {"", "LILAC_WITHOUT=grants"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var env []string
			if c.env != "" {
				env = append(env, c.env)
			}
			ran, seen := effects(t, c.rule, env...)
			for _, tool := range []string{"bash", "write", "task"} {
				if !slices.Contains(ran, tool) {
					t.Errorf("%s did not run, so the orders prove nothing: %q, %q", tool, ran, seen)
				}
			}
			for _, want := range []string{"effect-write", "a task"} {
				if !slices.Contains(seen, want) {
					t.Errorf("%s is not seen, so the orders prove nothing: %q", want, seen)
				}
			}
		})
	}
}
