package listing_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"lilac/internal/model/listing"
)

func TestWindowIsReadFromEveryKindOfServer(t *testing.T) {
	type routes map[string]string
	for name, c := range map[string]struct {
		routes         routes
		window, output int
	}{
		"a list that states it": {routes{"GET /v1/models": `{"data":[{"id":"other","context_length":1},{"id":"m","context_length":65536,"max_completion_tokens":8192}]}`}, 65536, 8192},
		"vLLM":                  {routes{"GET /v1/models": `{"data":[{"id":"m","max_model_len":32768}]}`}, 32768, 0},
		"llama.cpp": {routes{
			"GET /v1/models": `{"data":[{"id":"/models/m.gguf","meta":{"n_ctx_train":131072}}]}`,
			"GET /props":     `{"default_generation_settings":{"n_ctx":8192}}`,
		}, 8192, 0},
		"Ollama, configured": {routes{
			"GET /v1/models": `{"data":[{"id":"m","owned_by":"library"},{"id":"n"}]}`,
			"POST /api/show": `{"parameters":"stop \"x\"\nnum_ctx                        16384","model_info":{"llama.context_length":131072}}`,
		}, 16384, 0},
		"Ollama, loaded": {routes{
			"GET /v1/models":   `{"data":[{"id":"m"}]}`,
			"POST /api/show":   `{"model_info":{"llama.context_length":131072}}`,
			"then GET /api/ps": `{"models":[{"name":"n","context_length":1},{"name":"m:latest","context_length":4096}]}`,
		}, 4096, 0},
		"Ollama, not loaded": {routes{
			"GET /v1/models": `{"data":[{"id":"m"}]}`,
			"POST /api/show": `{"model_info":{"llama.context_length":131072}}`,
			"GET /api/ps":    `{"models":[]}`,
		}, 0, 0},
		"Ollama, loaded by the question": {routes{
			"GET /v1/models":     `{"data":[{"id":"m"}]}`,
			"POST /api/show":     `{"model_info":{"llama.context_length":131072}}`,
			"GET /api/ps":        `{"models":[]}`,
			"POST /api/generate": `{"model":"m","response":"","done":true,"done_reason":"load"}`,
			"then GET /api/ps":   `{"models":[{"name":"m:latest","model":"m:latest","context_length":4096}]}`,
		}, 4096, 0},
		"Ollama, with the tag that it adds": {routes{
			"GET /v1/models": `{"object":"list","data":[{"id":"m:latest"},{"id":"n:latest"}]}`,
			"POST /api/show": `{"parameters":"num_ctx 2048","model_info":{"llama.context_length":131072}}`,
		}, 2048, 0},
		"Ollama, loaded under the name of another model with its weights": {routes{
			"GET /v1/models":     `{"data":[{"id":"m:latest"},{"id":"n:latest"},{"id":"base:latest"}]}`,
			"POST /api/show":     `{"details":{"family":"llama","parameter_size":"893K","quantization_level":"F32"},"model_info":{"llama.context_length":131072}}`,
			"GET /api/ps":        `{"models":[]}`,
			"POST /api/generate": `{"model":"m","response":"","done":true,"done_reason":"load"}`,
			"then GET /api/ps": `{"models":[{"name":"n:latest","details":{"family":"qwen3"},"context_length":1},` +
				`{"name":"base:latest","details":{"family":"llama","parameter_size":"893K","quantization_level":"F32"},"context_length":4096}]}`,
		}, 4096, 0},
		"Ollama, loaded by another program with a smaller window": {routes{
			"GET /v1/models":     `{"data":[{"id":"m:latest"}]}`,
			"POST /api/show":     `{"model_info":{"llama.context_length":131072}}`,
			"GET /api/ps":        `{"models":[{"name":"m:latest","context_length":2048}]}`,
			"POST /api/generate": `{"model":"m","response":"","done":true,"done_reason":"load"}`,
			"then GET /api/ps":   `{"models":[{"name":"m:latest","context_length":32768}]}`,
		}, 32768, 0},
		"LM Studio": {routes{
			"GET /v1/models":     `{"data":[{"id":"m"},{"id":"n"}]}`,
			"GET /api/v0/models": `{"data":[{"id":"n","loaded_context_length":1},{"id":"m","max_context_length":131072,"loaded_context_length":16384}]}`,
		}, 16384, 0},
		"TGI": {routes{
			"GET /v1/models": `{"data":[{"id":"m"}]}`,
			"GET /info":      `{"model_id":"m","max_input_tokens":4000,"max_total_tokens":4096}`,
		}, 4096, 0},
		"nothing": {routes{}, 0, 0},
		"no JSON": {routes{"GET /v1/models": `{"data":[{"id":"m"}]}`, "GET /props": "<html>"}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			then := "" // the prefix of routes after the model was loaded
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, ok := c.routes[then+r.Method+" "+r.URL.Path]
				sent, _ := io.ReadAll(r.Body)
				if r.URL.Path == "/api/generate" && strings.Contains(string(sent), `"keep_alive":"1m"`) { // without it, some are configured to unload at once
					then = "then "
				}
				switch {
				case !ok:
					http.NotFound(w, r)
					return
				case r.Header.Get("Authorization") != "Bearer key":
					t.Errorf("%s has no key", r.URL.Path)
				}
				if r.Method == http.MethodPost && !strings.Contains(string(sent), `"model":"m"`) {
					t.Errorf("%s was asked %s", r.URL.Path, sent)
				}
				_, _ = io.WriteString(w, body)
			}))
			defer server.Close()
			s := listing.Window(t.Context(), listing.Endpoint{BaseURL: server.URL + "/v1", Key: "key"}, "m")
			if s.ContextTokens != c.window || s.MaxOutputTokens != c.output || s.Ollama != (c.window > 0 && strings.HasPrefix(name, "Ollama")) {
				t.Errorf("the sizes are %+v", s)
			}
		})
	}
}
