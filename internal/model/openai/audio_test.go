package openai_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
	"lilac/internal/model/openai"
)

type bodyRecorder struct{ body string }

func (b *bodyRecorder) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	b.body = string(body)
	return &http.Response{StatusCode: 400, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}"))}, err
}

func TestRecordingsGoToModelsThatHear(t *testing.T) {
	for name, c := range map[string]struct {
		mediaType string
		hears     bool
		want      string
	}{
		"heard":             {"audio/mpeg", true, `{"input_audio":{"data":"c291bmQ=","format":"mp3"},"type":"input_audio"}`},
		"in another format": {"audio/ogg", true, "[A file that you cannot see here: a.ogg (audio/ogg)]"},
		"to a deaf model":   {"audio/mpeg", false, "[A file that you cannot see here: a.ogg (audio/mpeg)]"},
	} {
		var sent bodyRecorder
		m := openai.New(llm.Options{BaseURL: "http://localhost/v1", Model: "m", Audio: c.hears, HTTPClient: &http.Client{Transport: &sent}, Retry: llm.Retry{Max: -1}})
		part := chat.Part{Type: chat.TypeFile, Data: json.RawMessage(`"c291bmQ="`), MediaType: c.mediaType, Filename: "a.ogg"}
		for range m.Stream(t.Context(), llm.Request{Messages: []chat.Message{{Role: chat.User, Parts: []chat.Part{chat.TextPart("listen"), part}}}}) {
		}
		if !strings.Contains(sent.body, c.want) {
			t.Errorf("%s: the body is %s", name, sent.body)
		}
	}
}
