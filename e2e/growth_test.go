package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

// thinker thinks, calls a tool for each message of a user, and answers after its result.
func thinker(r llmtest.Request) llmtest.Script {
	thought := llmtest.Script{Reasoning: []string{"hm"}, Signature: fmt.Sprintf("signature-%d", r.N)}
	if last := r.Messages[len(r.Messages)-1]; len(last.Results) > 0 {
		thought.Text = llmtest.Words(fmt.Sprintf("Answer %d.", r.N))
		return thought
	}
	thought.Calls = []llmtest.Call{{ID: fmt.Sprintf("call-%d", r.N), Name: "glob", Input: `{"pattern":"*"}`}}
	return thought
}

// tenTurns has a conversation of ten turns. In the middle, the process is killed, and starts
// again with other instructions. It returns the share of the input that was read from the cache.
func tenTurns(t *testing.T, protocol cachingModel, forget bool) (share float64, changes []string) {
	t.Helper()
	model := llmtest.New(t, thinker, func(o *llmtest.Options) { o.BillCache, o.AllowChanges = true, forget })
	file := filepath.Join(t.TempDir(), "config.yaml")
	configure := func(system string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("system: "+system+"\n"+protocol.config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure("Be brief.")
	s := e2e.Start(t, append(protocol.env(model.URL), "LILAC_CONFIG="+file)...)
	session := s.NewSession()
	var input, cached int64
	var last struct {
		Usage       struct{ InputTokens, CacheReadTokens int64 }
		CachedShare float64
	}
	for turn := range 10 {
		if turn == 5 {
			s.Kill()
			configure("Be thorough.")
			if forget {
				s.Exec("DELETE FROM prompts")
			}
			s.Restart()
		}
		sent := s.Prompt(session, fmt.Sprintf("message %d", turn), event.Prompt)
		if r := s.WaitEnded(sent.RequestID, time.Minute); r.State != string(event.StateDone) {
			t.Fatalf("turn %d ended as %s: %s", turn, r.State, r.Detail)
		}
		if status := s.Request("GET", "/requests/"+sent.RequestID, nil, &last); status != 200 {
			t.Fatalf("GET the request: status %d", status)
		}
		input, cached = input+last.Usage.InputTokens, cached+last.Usage.CacheReadTokens
	}
	var sums struct {
		Days, Models []struct {
			Requests int
			Usage    struct{ InputTokens, CacheReadTokens int64 }
		}
	}
	if status := s.Request("GET", "/usage?days=2", nil, &sums); status != 200 || len(sums.Models) != 1 {
		t.Fatalf("GET the usage: status %d, %+v", status, sums)
	}
	if m := sums.Models[0]; m.Requests != 10 || m.Usage.InputTokens != input || m.Usage.CacheReadTokens != cached || sums.Days[0].Requests+sums.Days[1].Requests != 10 {
		t.Errorf("the usage is %+v, want 10 requests, %d input tokens, and %d from the cache", sums, input, cached)
	}
	if used := model.Requests()[0].Protocol; used != protocol.protocol {
		t.Errorf("the model was called by the protocol %s", used)
	}
	if last.CachedShare < 0.9 && !forget {
		t.Errorf("the last request read %.3f from the cache", last.CachedShare)
	}
	return float64(cached) / float64(input), model.Changes()
}

// cachingModel is a protocol whose provider has a cache: the environment and the configuration
// that select it.
type cachingModel struct {
	protocol llmtest.Protocol
	env      func(url string) []string
	config   string
}

var cachingModels = map[string]cachingModel{
	"chat completions": {protocol: llmtest.OpenAI, env: modelEnv},
	"Responses":        {protocol: llmtest.Responses, env: modelEnv, config: "providers: {openai: {api: responses}}\n"},
	"Messages": {protocol: llmtest.Anthropic, env: func(url string) []string {
		return []string{"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=test", "LILAC_MODEL=anthropic/claude-test"}
	}},
}

func TestTenTurnsReadTheirInputFromTheCache(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	for name, protocol := range cachingModels {
		t.Run(name, func(t *testing.T) {
			if share, _ := tenTurns(t, protocol, false); share < 0.9 {
				t.Errorf("%.3f of the input was read from the cache", share)
			}
		})
	}
}

// Control: without the stored prompts, the new instructions replace the old ones, and the fake
// notices that the conversation has changed.
func TestConversationThatForgetsItsPromptIsNoticed(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	for name, protocol := range cachingModels {
		t.Run(name, func(t *testing.T) {
			if _, changes := tenTurns(t, protocol, true); len(changes) == 0 || !strings.Contains(changes[0], "has changed") {
				t.Errorf("changes are %q", changes)
			}
		})
	}
}
