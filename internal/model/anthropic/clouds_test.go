package anthropic_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/anthropic"
	"lilac/internal/model/llm"
)

// cloud records a call, and answers it.
type cloud struct {
	url, body string
	header    http.Header
}

func (c *cloud) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	c.url, c.body, c.header = r.URL.String(), string(body), r.Header
	const answer = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"Hi.\"}}\n\n" +
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answer))}, err
}

// Google's endpoint has the model in its address and a version in the body; Amazon's is like
// Anthropic's own.
func TestClaudeInTheClouds(t *testing.T) {
	const project = "https://europe-west1-aiplatform.googleapis.com/v1/projects/p/locations/europe-west1"
	const raw = project + "/publishers/anthropic/models/claude-opus-4-5@20251101:streamRawPredict"
	for _, c := range []struct {
		base, model, url, version string
	}{
		{project, "claude-opus-4-5@20251101", raw, "vertex-2023-10-16"},
		{project + "/publishers/anthropic/models/", "anthropic/claude-opus-4-5@20251101", raw, "vertex-2023-10-16"},
		{"https://bedrock-mantle.us-east-1.api.aws/anthropic", "eu.anthropic.claude-opus-5-v1:0", "https://bedrock-mantle.us-east-1.api.aws/anthropic/v1/messages", ""},
		{"https://gateway.test/v1", "claude-opus-5", "https://gateway.test/v1/messages", ""},
	} {
		var net cloud
		m := anthropic.New(llm.Options{BaseURL: c.base, Model: c.model, HTTPClient: &http.Client{Transport: &net}, Retry: llm.Retry{Max: -1}})
		text := ""
		for chunk, err := range m.Stream(t.Context(), llm.Request{Messages: []chat.Message{chat.Text(chat.User, "hello")}}) {
			if err != nil {
				t.Fatal(err)
			}
			text += chunk.Text
		}
		var body struct {
			Model   string `json:"model"`
			Version string `json:"anthropic_version"`
			Stream  bool   `json:"stream"`
		}
		if err := json.Unmarshal([]byte(net.body), &body); err != nil {
			t.Fatal(err)
		}
		onVertex := c.version != ""
		if net.url != c.url || text != "Hi." || body.Version != c.version || !body.Stream || (body.Model == "") != onVertex || (net.header.Get("Anthropic-Version") == "") != onVertex {
			t.Errorf("%s: heard %q from %s with %+v and %v", c.base, text, net.url, body, net.header)
		}
	}
}
