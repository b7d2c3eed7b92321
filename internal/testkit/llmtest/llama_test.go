//go:build llama

// The adapters against the server of llama.cpp, which speaks all three protocols. LLAMA_SERVER is the
// command that starts it:
//
//	LLAMA_SERVER=llama-server go test -tags llama -run Llama ./internal/testkit/llmtest
//
// For a server in another root ("chroot DIR llama-server"), LLAMA_ROOT is that root, and LLAMA_DIR a
// directory in it for the model.

package llmtest_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
	"lilac/internal/testkit/freeport"
)

// llamaServer starts the server with a window, and returns its address.
func llamaServer(t *testing.T, window string) string {
	t.Helper()
	command := strings.Fields(os.Getenv("LLAMA_SERVER"))
	if len(command) == 0 {
		t.Fatal("LLAMA_SERVER names no command that starts the server of llama.cpp")
	}
	dir := os.Getenv("LLAMA_DIR")
	if dir == "" {
		dir = t.TempDir()
	}
	model := filepath.Join(dir, "tiny.gguf")
	if err := os.WriteFile(filepath.Join(os.Getenv("LLAMA_ROOT"), model), gguf(), 0o644); err != nil {
		t.Fatal(err)
	}
	address := freeport.Loopback(t)
	_, port, _ := strings.Cut(address, ":")
	args := append(command[1:], "-m", model, "--host", "127.0.0.1", "--port", port, "-c", window, "-np", "1", "--jinja", "--api-key", key)
	cmd := exec.Command(command[0], args...)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for begun := time.Now(); ; {
		res, err := http.Get("http://" + address + "/health")
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return "http://" + address
			}
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("the server is not ready: %v", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func TestLlamaServer(t *testing.T) {
	url := llamaServer(t, "8192")
	read := llm.ToolSpec{Name: "read", Description: "Reads a file.", Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)}
	refused := read
	refused.Schema = json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"any":true},"required":["path"]}`)
	thinks := llm.Request{System: "Be brief.", Messages: []chat.Message{chat.Text(chat.User, "think")}}
	for name, path := range map[string]string{"openai": "/v1", "responses": "/v1", "anthropic": ""} {
		t.Run(name, func(t *testing.T) {
			m := adapters[name](url+path, http.DefaultClient, llm.Retry{Max: -1}, time.Minute)
			ask := func(text string, tools ...llm.ToolSpec) result {
				t.Helper()
				h := collect(t.Context(), m, llm.Request{System: "Be brief.", Messages: []chat.Message{chat.Text(chat.User, text)}, Tools: tools})
				if h.err != nil || h.done == nil {
					t.Fatalf("%q: %v", text, h.err)
				}
				return h
			}
			if h := ask("hi"); h.text != "Hello from llama.cpp: déjà vu, 日本." || h.done.Usage.InputTokens == 0 || h.done.Usage.OutputTokens == 0 || h.done.Stop != llm.StopEnd {
				t.Errorf("the answer is %q, with %+v, and ends as %s", h.text, h.done.Usage, h.done.Stop)
			}
			for text, want := range map[string][]string{"use one tool": {"a.txt"}, "use two tools": {"a.txt", "b.txt"}} {
				h := ask(text, read)
				var paths []string
				for _, call := range h.done.Message.ToolCalls() {
					var in struct{ Path string }
					if json.Unmarshal(call.Input, &in) == nil && call.ToolName == "read" {
						paths = append(paths, in.Path)
					}
				}
				if strings.Join(paths, " ") != strings.Join(want, " ") || h.done.Stop != llm.StopTools {
					t.Errorf("%s: read %q, and ends as %s; want %q", text, paths, h.done.Stop, want)
				}
				results := chat.Message{Role: chat.Tool}
				for _, call := range h.done.Message.ToolCalls() {
					results.Parts = append(results.Parts, chat.ToolResult(call.ToolCallID, "read", "", false))
				}
				last := collect(t.Context(), m, llm.Request{Messages: []chat.Message{chat.Text(chat.User, text), h.done.Message, results}, Tools: []llm.ToolSpec{read}})
				if last.text != "The file is empty!" {
					t.Errorf("%s: after the results, it says %q, %v", text, last.text, last.err)
				}
			}
			if h := collect(t.Context(), m, thinks); strings.TrimSpace(h.text) != "So it is." || h.reasoning != "First this, then that." {
				t.Errorf("it thinks %q and says %q: %v", h.reasoning, h.text, h.err)
			}
			if h := ask("use one tool", refused); len(h.done.Message.ToolCalls()) != 1 {
				t.Errorf("with a schema that the server refuses: %+v", h.done.Message)
			}
			long := collect(t.Context(), m, llm.Request{Messages: []chat.Message{chat.Text(chat.User, strings.Repeat("long ", 4000))}})
			if fault.ToWire(long.err).Code != llm.CodeContextLength {
				t.Errorf("a prompt that is too long: %v", long.err)
			}
		})
	}
}
