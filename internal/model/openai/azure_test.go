package openai_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
	"lilac/internal/model/openai"
	"lilac/internal/model/responses"
)

// sentTo records where a call goes and with which key.
type sentTo struct{ url, bearer, apiKey string }

func (s *sentTo) RoundTrip(r *http.Request) (*http.Response, error) {
	*s = sentTo{r.URL.String(), r.Header.Get("Authorization"), r.Header.Get("Api-Key")}
	return &http.Response{StatusCode: 400, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}"))}, nil
}

func TestAzureGetsItsKeyPathAndVersion(t *testing.T) {
	for base, want := range map[string]struct{ chat, responses string }{
		"https://x.openai.azure.com/openai/v1": {
			"https://x.openai.azure.com/openai/v1/chat/completions", "https://x.openai.azure.com/openai/v1/responses",
		},
		"https://x.openai.azure.com/openai/v1?api-version=preview": {
			"https://x.openai.azure.com/openai/v1/chat/completions?api-version=preview", "https://x.openai.azure.com/openai/v1/responses?api-version=preview",
		},
		"https://x.openai.azure.com/openai/deployments/gpt?api-version=2024-10-21": {
			"https://x.openai.azure.com/openai/deployments/gpt/chat/completions?api-version=2024-10-21", "https://x.openai.azure.com/openai/responses?api-version=2024-10-21",
		},
		"https://gateway.azure-api.net/openai/deployments/gpt/chat/completions?api-version=2024-10-21": {
			"https://gateway.azure-api.net/openai/deployments/gpt/chat/completions?api-version=2024-10-21", "https://gateway.azure-api.net/openai/responses?api-version=2024-10-21",
		},
	} {
		var got sentTo
		o := llm.Options{BaseURL: base, APIKey: "secret", Model: "gpt", HTTPClient: &http.Client{Transport: &got}, Retry: llm.Retry{Max: -1}}
		for target, m := range map[string]llm.Model{want.chat: openai.New(o), want.responses: responses.New(o)} {
			for range m.Stream(t.Context(), llm.Request{Messages: []chat.Message{chat.Text(chat.User, "hi")}}) {
			}
			if got != (sentTo{url: target, apiKey: "secret"}) {
				t.Errorf("%s: sent %+v", base, got)
			}
		}
	}
	// Control: every other host gets the key as a bearer token.
	var got sentTo
	m := openai.New(llm.Options{BaseURL: "https://azure.com.example.org/v1", APIKey: "secret", Model: "gpt", HTTPClient: &http.Client{Transport: &got}, Retry: llm.Retry{Max: -1}})
	for range m.Stream(t.Context(), llm.Request{Messages: []chat.Message{chat.Text(chat.User, "hi")}}) {
	}
	if got != (sentTo{url: "https://azure.com.example.org/v1/chat/completions", bearer: "Bearer secret"}) {
		t.Errorf("sent %+v", got)
	}
}
