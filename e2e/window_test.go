package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
)

// Ollama cuts a prompt that is too long for its window without a word, and its usual window has no
// room for an agent. So Lilac asks for the window before the first prompt, and makes Ollama load the
// model, because it only knows the window of a loaded one. The answers are Ollama's.
//
// A window that was too small is asked for again, because somebody may have followed the advice.
func TestTheWindowOfOllamaIsKnownBeforeTheFirstPrompt(t *testing.T) {
	t.Parallel()
	var window, prompts atomic.Int32
	var loaded atomic.Bool
	ollama := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := ""
		switch r.URL.Path {
		case "/v1/models":
			answer = `{"object":"list","data":[{"id":"test-model:latest","object":"model","owned_by":"library"}]}`
		case "/api/show":
			answer = `{"details":{"family":"llama"},"model_info":{"general.architecture":"llama","llama.context_length":131072},"capabilities":["completion","tools"]}`
		case "/api/ps":
			answer = `{"models":[]}`
			if loaded.Load() {
				answer = fmt.Sprintf(`{"models":[{"name":"test-model:latest","model":"test-model:latest","size":1,"context_length":%d}]}`, window.Load())
			}
		case "/api/generate":
			loaded.Store(true)
			answer = `{"model":"test-model","response":"","done":true,"done_reason":"load"}`
		case "/v1/chat/completions":
			prompts.Add(1)
			w.Header().Set("Content-Type", "text/event-stream")
			answer = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Hello.\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
		default:
			http.NotFound(w, r)
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(ollama.Close)
	window.Store(4096)
	s := e2e.Start(t, modelEnv(ollama.URL)...)
	ask := func() e2e.RequestInfo {
		return s.WaitEnded(s.Prompt(s.NewSession(), "hi", event.Prompt).RequestID, 30*time.Second)
	}
	req := ask()
	if req.State != "failed" || prompts.Load() > 0 || !strings.Contains(req.Detail, "(4096 tokens) is too small") || !strings.Contains(req.Detail, "OLLAMA_CONTEXT_LENGTH") {
		t.Errorf("after %d prompts, the request is %s: %s", prompts.Load(), req.State, req.Detail)
	}
	s.Kill()
	window.Store(32_768)
	loaded.Store(false)
	s.Restart()
	if req := ask(); req.State != "done" || prompts.Load() != 1 {
		t.Errorf("with a larger window, the request is %s after %d prompts: %s", req.State, prompts.Load(), req.Detail)
	}
}
