package app

import (
	"net/http"
	"net/http/httptest"
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
