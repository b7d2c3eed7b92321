package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
	"lilac/internal/operate/config"
)

// The error for a rejected API key names the setting that holds the key of that provider.
func TestARefusedKeyNamesItsSetting(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"message":"no"}}`, http.StatusUnauthorized)
	}))
	defer server.Close()
	for provider, want := range map[string]string{
		"openai": "Check OPENAI_API_KEY or providers.openai.apiKey.",
		"local":  "Check providers.local.apiKey.",
	} {
		m := newModel(config.ModelChoice{Provider: provider, Name: "m", Type: config.OpenAI, BaseURL: server.URL, APIKey: "wrong"}, &llm.Registry{})
		var refused error
		for _, err := range m.Stream(t.Context(), llm.Request{Messages: []chat.Message{chat.Text(chat.User, "hi")}}) {
			refused = err
		}
		if said := fault.ToWire(refused).Message; !strings.HasSuffix(said, want) {
			t.Errorf("%s: %q, want it to end with %q", provider, said, want)
		}
	}
}

// A call that cannot be signed is not sent, and the error says what is missing.
func TestMissingCloudCredentialsAreNamed(t *testing.T) {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		t.Setenv(name, "")
	}
	for kind, anthropic := range map[string]config.ProviderType{"openai": config.OpenAI, "anthropic": config.Anthropic} {
		m := NewModel(config.ModelChoice{Provider: "bedrock", Name: "m", Type: anthropic, BaseURL: "https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1", Auth: config.AuthAWS})
		var refused error
		for _, err := range m.Stream(t.Context(), llm.Request{Messages: []chat.Message{chat.Text(chat.User, "hi")}}) {
			refused = err
		}
		if fault.KindOf(refused) != fault.Unauthenticated || !strings.Contains(fault.ToWire(refused).Message, "AWS_ACCESS_KEY_ID") {
			t.Errorf("%s: %v", kind, refused)
		}
	}
}

// OpenAI's newest models take tools only through Responses, in every region. Every other host
// gets chat completions, unless the configuration says otherwise.
func TestTheAPIOfAnEndpoint(t *testing.T) {
	for _, c := range []struct {
		baseURL string
		api     config.API
		want    string
	}{
		{"https://api.openai.com/v1", "", "/v1/responses"},
		{"https://eu.api.openai.com/v1", "", "/v1/responses"},
		{"https://us.api.openai.com/v1", "", "/v1/responses"},
		{"https://api.openai.com/v1", config.APIChat, "/v1/chat/completions"},
		{"https://api.openai.com.example.org/v1", "", "/v1/chat/completions"},
		{"https://openrouter.ai/api/v1", "", "/api/v1/chat/completions"},
		{"https://openrouter.ai/api/v1", config.APIResponses, "/api/v1/responses"},
	} {
		asked := ""
		client := &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			if asked == "" {
				asked = r.URL.Path
			}
			return nil, errors.New("not connected")
		})}
		m := newOpenAI(config.ModelChoice{BaseURL: c.baseURL, API: c.api}, llm.Options{BaseURL: c.baseURL, APIKey: "k", Model: "m", HTTPClient: client, Retry: llm.Retry{Max: -1}, Learned: (&llm.Registry{}).Get(c.baseURL, "m", "openai")})
		for range m.Stream(t.Context(), llm.Request{Messages: []chat.Message{chat.Text(chat.User, "hi")}}) {
			continue
		}
		if asked != c.want {
			t.Errorf("%s with api %q asks %s, want %s", c.baseURL, c.api, asked, c.want)
		}
	}
}

// The options of the models section reach the wire of each protocol. body replaces Lilac's own
// fields, and headers are added.
func TestTheOptionsOfAModelReachTheWire(t *testing.T) {
	for name, c := range map[string]struct {
		kind config.ProviderType
		api  config.API
		want map[string]string
	}{
		"chat completions": {config.OpenAI, config.APIChat, map[string]string{"reasoning_effort": `"low"`, "service_tier": `"flex"`, "temperature": "0.25"}},
		"responses":        {config.OpenAI, config.APIResponses, map[string]string{"reasoning": `{"effort":"low"`, "service_tier": `"flex"`, "temperature": "0.25"}},
		"anthropic":        {config.Anthropic, "", map[string]string{"output_config": `{"effort":"low"}`, "service_tier": `"flex"`, "temperature": "0.25"}},
	} {
		t.Run(name, func(t *testing.T) {
			var sent map[string]json.RawMessage
			var title string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
					t.Error(err)
				}
				title = r.Header.Get("X-Title")
				w.WriteHeader(http.StatusBadRequest)
			}))
			defer server.Close()
			m := newModel(config.ModelChoice{
				Provider: "p", Name: "m", Type: c.kind, API: c.api, BaseURL: server.URL + "/v1", APIKey: "k", ContextTokens: 8000, MaxOutputTokens: 1000,
				Options: config.Model{Effort: "low", Body: map[string]any{"service_tier": "flex", "temperature": 0.25}},
				Headers: http.Header{"X-Title": {"Lilac"}},
			}, &llm.Registry{})
			for range m.Stream(t.Context(), llm.Request{Messages: []chat.Message{chat.Text(chat.User, "hi")}}) {
				continue
			}
			for field, want := range c.want {
				if !strings.HasPrefix(string(sent[field]), want) {
					t.Errorf("%s is %s, want %s", field, sent[field], want)
				}
			}
			if title != "Lilac" {
				t.Errorf("the header is %q", title)
			}
		})
	}
}

// A model whose window nobody knows learns it from its endpoint before the first call, and once.
func TestTheWindowOfAnUnknownModelIsAskedFor(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Path == "/v1/models" {
			asked++
			_, _ = w.Write([]byte(`{"data":[{"id":"m","max_model_len":4096}]}`))
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	m := newModel(config.ModelChoice{Provider: "p", Name: "m", Type: config.OpenAI, BaseURL: server.URL + "/v1", ContextUnknown: true, ContextTokens: 100_000, MaxOutputTokens: 1000}, &llm.Registry{})
	for range 2 {
		for range m.Stream(t.Context(), llm.Request{Messages: []chat.Message{chat.Text(chat.User, "hi")}}) {
			continue
		}
	}
	if got := m.Info().ContextTokens; got != 4096 || asked != 1 {
		t.Errorf("the window is %d after %d questions", got, asked)
	}
}

// transport answers calls.
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// Portkey answers nothing without its header, which the provider or its models have.
func TestAListIsAskedWithTheHeadersOfAModel(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Portkey-Provider") != "openai" {
			http.Error(w, `{"status":"failure","message":"The key gateway-key needs x-portkey-provider"}`, http.StatusBadRequest)
			return
		}
		_, _ = w.Write([]byte(`{"data":[{"id":"m"}]}`))
	}))
	defer server.Close()
	cfg := &config.Config{Providers: map[string]config.Provider{"pk": {Type: config.OpenAI, BaseURL: server.URL, APIKey: "gateway-key"}}}
	if _, err := ListModels(t.Context(), cfg, "pk"); err == nil || !strings.HasSuffix(fault.ToWire(err).Message, "it answers with status 400: The key *** needs x-portkey-provider.") {
		t.Errorf("without headers: %v", err)
	}
	of := cfg.Providers["pk"]
	of.Headers = config.Headers{"x-portkey-provider": "openai"}
	alone := &config.Config{Providers: map[string]config.Provider{"pk": of}}
	if models, err := ListModels(t.Context(), alone, "pk"); err != nil || len(models) != 1 {
		t.Errorf("with headers of the provider: %v, %v", models, err)
	}
	cfg.Models = map[string]config.Model{"pk/a": {}, "pk/m": {Headers: config.Headers{"x-portkey-provider": "openai"}}, "pkx/m": {Headers: config.Headers{"x": "y"}}}
	if models, err := ListModels(t.Context(), cfg, "pk"); err != nil || len(models) != 1 {
		t.Errorf("with headers: %v, %v", models, err)
	}
}

// A provider whose API is set keeps it, whatever another one with the same address learned.
func TestProvidersWithDifferentAPIsLearnApart(t *testing.T) {
	var paths []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.Path)
		if r.URL.Path == "/v1/responses" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"))
	}))
	defer server.Close()
	var learned llm.Registry
	for _, api := range []config.API{config.APIResponses, config.APIChat} {
		m := newModel(config.ModelChoice{Provider: "p", Name: "m", Type: config.OpenAI, API: api, BaseURL: server.URL + "/v1", ContextTokens: 8000}, &learned)
		for _, err := range m.Stream(t.Context(), llm.Request{Messages: []chat.Message{chat.Text(chat.User, "hi")}}) {
			if err != nil {
				t.Fatalf("%s: %v", api, err)
			}
		}
	}
	if want := []string{"/v1/responses", "/v1/chat/completions", "/v1/chat/completions"}; !slices.Equal(paths, want) {
		t.Errorf("called %v, want %v", paths, want)
	}
}

// Ollama silently cuts prompts that are longer than its window. Somebody may start it again with
// another one while Lilac runs.
func TestASmallerWindowOfOllamaIsNoticedBeforeTheNextCall(t *testing.T) {
	window, loaded := 32_768, false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/models":
			fmt.Fprint(w, `{"data":[{"id":"m:latest"}]}`)
		case "/api/show":
			fmt.Fprint(w, `{"model_info":{"llama.context_length":131072}}`)
		case "/api/generate":
			loaded = true
			fmt.Fprint(w, `{"model":"m","done":true,"done_reason":"load"}`)
		case "/api/ps":
			models := ""
			if loaded {
				models = fmt.Sprintf(`{"name":"m:latest","context_length":%d}`, window)
			}
			fmt.Fprintf(w, `{"models":[%s]}`, models)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	choice := config.ModelChoice{Provider: "ollama", Name: "m", Type: config.OpenAI, BaseURL: server.URL + "/v1", ContextUnknown: true, ContextTokens: 100_000, MaxOutputTokens: 1000}
	var learned llm.Registry
	for _, size := range []int{32_768, 4096, 16_384, 65_536} {
		window, loaded = size, false // it was started again
		for range 2 {
			m := newModel(choice, &learned)
			llm.Prepare(t.Context(), m)
			if got := m.Info().ContextTokens; got != size {
				t.Errorf("the window is %d, want %d", got, size)
			}
		}
	}
}
