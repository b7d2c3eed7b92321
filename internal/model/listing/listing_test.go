package listing_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/foundation/fault"
	"lilac/internal/model/listing"
)

func TestAskReadsTheListsOfHosts(t *testing.T) {
	for _, tt := range []struct {
		name string
		base string // path of the base URL
		body string
		path string
		want []listing.Model
	}{
		{"OpenAI", "/v1", `{"object":"list","data":[{"id":"b"},{"id":"a"},{"id":"a"},{"id":""}]}`, "/v1/models", []listing.Model{{ID: "a"}, {ID: "b"}}},
		{"no path", "", `{"data":[{"id":"a"}]}`, "/v1/models", []listing.Model{{ID: "a"}}},
		{"a complete address", "/v1/chat/completions", `{"data":[{"id":"a"}]}`, "/v1/models", []listing.Model{{ID: "a"}}},
		{
			"OpenRouter", "/api/v1", `{"data":[{"id":"x/a","name":"A","context_length":200,"top_provider":{"context_length":100,"max_completion_tokens":10}}]}`, "/api/v1/models",
			[]listing.Model{{ID: "x/a", Name: "A", ContextTokens: 200, MaxOutputTokens: 10}},
		},
		{"vLLM", "/v1", `{"data":[{"id":"a","max_model_len":"4096"}]}`, "/v1/models", []listing.Model{{ID: "a", ContextTokens: 4096}}},
		{"llama.cpp", "/v1", `{"data":[{"id":"a","meta":{"n_ctx":512}}],"models":[{"name":"other"}]}`, "/v1/models", []listing.Model{{ID: "a", ContextTokens: 512}}},
		{"Gemini", "/v1beta/openai", `{"data":[{"id":"models/gemini-3"}]}`, "/v1beta/openai/models", []listing.Model{{ID: "gemini-3"}}},
		{"Together", "/v1", `[{"id":"a","context_length":-1}]`, "/v1/models", []listing.Model{{ID: "a"}}},
		{"Ollama, without models", "/v1", `{"object":"list","data":null}`, "/v1/models", nil},
		{"a page", "/v1", `<html>hello</html>`, "/v1/models", nil},
		{"an object", "/v1", `{"hello":"world"}`, "/v1/models", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path, key := "", ""
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				path, key = r.URL.Path, r.Header.Get("Authorization")
				_, _ = w.Write([]byte(tt.body))
			}))
			defer s.Close()
			a, err := listing.Ask(t.Context(), listing.Endpoint{BaseURL: s.URL + tt.base, Key: "k"})
			if err != nil || path != tt.path || key != "Bearer k" {
				t.Fatalf("%v, asked %s with %q", err, path, key)
			}
			if want := tt.name != "a page" && tt.name != "an object"; a.List != want {
				t.Errorf("it is a list: %t", a.List)
			}
			if diff := cmp.Diff(tt.want, a.Models); diff != "" {
				t.Errorf("models (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAskSendsTheKeyOnlyToItsHost(t *testing.T) {
	var leaked string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { leaked = r.Header.Get("X-Api-Key") }))
	defer other.Close()
	s := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	defer s.Close()
	a, err := listing.Ask(t.Context(), listing.Endpoint{Anthropic: true, BaseURL: s.URL, Key: "k"})
	if err != nil || a.Status != http.StatusFound || leaked != "" {
		t.Errorf("%+v, %v; the other host got %q", a, err, leaked)
	}
	for _, base := range []string{"", "::", "http://127.0.0.1:1"} {
		if _, err := listing.Ask(t.Context(), listing.Endpoint{BaseURL: base}); fault.KindOf(err) == fault.Internal || err == nil {
			t.Errorf("%q: %v", base, err)
		}
	}
}

func TestHasKnowsNamesWithDatesAndTags(t *testing.T) {
	a := listing.Answer{Models: []listing.Model{{ID: "claude-5-20260101"}, {ID: "gpt-5"}, {ID: "qwen3:latest"}, {ID: "llama3:8b"}}}
	for name, want := range map[string]bool{"qwen3": true, "qwen3:latest": true, "llama3": false, "claude-5": true, "gpt-5": true, "gpt-5-latest": true, "gpt-4": false, "gpt-5-mini": false} {
		if a.Has(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}
