package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// modelHost is a chat completions endpoint whose model calls the tool, and repeats its
// result unless it is deaf.
func modelHost(t *testing.T, deaf bool) map[string]string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer key-of-the-test" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"data":[{"id":"gpt-5"},{"id":"home-made","context_length":4096}]}`)
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		delta, reason := `{"tool_calls":[{"index":0,"id":"c1","function":{"name":"look_up_word","arguments":"{\"key\":\"garden\"}"}}]}`, "tool_calls"
		if strings.Contains(string(body), `"role":"tool"`) {
			delta, reason = `{"content":"It is lilac-7341."}`, "stop"
			if deaf {
				delta = `{"content":"What?"}`
			}
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":%s}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":%q}]}\n\ndata: [DONE]\n\n", delta, reason)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return map[string]string{"OPENAI_API_KEY": "key-of-the-test", "OPENAI_BASE_URL": s.URL + "/v1", "HOME": t.TempDir()}
}

func TestModelsAreListedWithWhatIsKnownOfThem(t *testing.T) {
	env := modelHost(t, false)
	out, errOut, code := call(t, "", env, "models")
	if code != 0 || !strings.Contains(out, "openai/gpt-5") || !strings.Contains(out, "1.25") || !strings.Contains(out, "thinking,tools") ||
		!strings.Contains(out, "openai/home-made  4096") || !strings.Contains(errOut, "catwalk") {
		t.Errorf("ended with %d: %s %s", code, out, errOut)
	}
	out, errOut, code = call(t, "", env, "models", "HOME", "--json")
	var listed struct{ Models []offer }
	if code != 0 || json.Unmarshal([]byte(out), &listed) != nil || len(listed.Models) != 1 || listed.Models[0].Known {
		t.Errorf("ended with %d: %s %s", code, out, errOut)
	}
	env["OPENAI_API_KEY"] = "another-key"
	if _, errOut, code := call(t, "", env, "models"); code == 0 || !strings.Contains(errOut, "OPENAI_API_KEY") || strings.Contains(errOut, "another-key") {
		t.Errorf("a wrong key ended with %d: %s", code, errOut)
	}
}

func TestModelsTestMakesARealCall(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		out, errOut, code := call(t, "", modelHost(t, deaf), "models", "test", "openai/gpt-5")
		if (code == 0) == deaf || !strings.Contains(out, "called the tool with the right input") || deaf != strings.Contains(errOut, "What?") {
			t.Errorf("deaf %v: ended with %d: %s %s", deaf, code, out, errOut)
		}
	}
	if out, errOut, code := call(t, "", modelHost(t, false), "models", "test"); code != 0 || !strings.Contains(out, "openai/gpt-5.4") {
		t.Errorf("the configured model ended with %d: %s %s", code, out, errOut)
	}
	refuses := httptest.NewServer(http.NotFoundHandler())
	defer refuses.Close()
	for _, args := range [][]string{{"models", "test", "openai/m"}, {"setup", "--provider", "openai", "--base-url", refuses.URL, "--model", "m", "--yes"}} {
		env := map[string]string{"HOME": t.TempDir(), "OPENAI_BASE_URL": refuses.URL, "OPENAI_API_KEY": "key-of-the-test"}
		if _, errOut, code := call(t, "", env, args...); code == 0 || strings.Count(errOut, "does not know the model") != 1 || strings.Contains(errOut, "..") {
			t.Errorf("a model that does not exist ended with %d: %s", code, errOut)
		}
	}
	if _, errOut, code := call(t, "", map[string]string{"HOME": t.TempDir()}, "models", "test", "demo"); code == 0 || !strings.Contains(errOut, "nothing to test") {
		t.Errorf("the demo ended with %d: %s", code, errOut)
	}
}
