package llmtest_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/anthropic"
	"lilac/internal/model/llm"
	"lilac/internal/model/openai"
	"lilac/internal/model/responses"
	"lilac/internal/testkit/llmtest"
)

// Every adapter sends what the model is said to accept and its protocol can carry, sends a note
// instead of anything else, and describes the model accordingly: a recording of a model that is
// said not to hear is transcribed instead.
func TestMediaGoToModelsThatAcceptThem(t *testing.T) {
	parts := map[string]chat.Part{
		"image":     {Type: chat.TypeImage, Data: json.RawMessage(`"iVBORw0KGgo="`), MediaType: "image/png", Filename: "f"},
		"PDF":       {Type: chat.TypeFile, Data: json.RawMessage(`"JVBERi0xLg=="`), MediaType: "application/pdf", Filename: "f"},
		"recording": {Type: chat.TypeFile, Data: json.RawMessage(`"c291bmQ="`), MediaType: "audio/mpeg", Filename: "f"},
	}
	accepts := map[string]llm.Options{
		"image":     {Images: true},
		"PDF":       {PDFs: true},
		"recording": {Audio: true},
	}
	for name, c := range map[string]struct {
		adapter func(llm.Options) llm.Model
		carries []string
	}{
		"anthropic": {func(o llm.Options) llm.Model { return anthropic.New(o) }, []string{"image", "PDF"}},
		"responses": {func(o llm.Options) llm.Model { return responses.New(o) }, []string{"image", "PDF"}},
		"openai":    {func(o llm.Options) llm.Model { return openai.New(o) }, []string{"image", "PDF", "recording"}},
	} {
		for said, o := range accepts {
			for kind, part := range parts {
				s := llmtest.New(t, llmtest.Sequence(llmtest.Say("ok")))
				o.BaseURL, o.APIKey, o.Model, o.HTTPClient = s.URL, key, "m", &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
				m := c.adapter(o)
				sent := chat.Message{Role: chat.User, Parts: []chat.Part{chat.TextPart("look"), part}}
				if r := collect(t.Context(), m, llm.Request{Messages: []chat.Message{sent}}); r.err != nil {
					t.Fatal(r.err)
				}
				want := said == kind && slices.Contains(c.carries, kind)
				if note := strings.Contains(string(s.Requests()[0].Body), "A file that you cannot see here"); note == want {
					t.Errorf("%s, a model that accepts the %s gets the %s: %v", name, said, kind, !note)
				}
				info := m.Info()
				if hears := said == "recording" && slices.Contains(c.carries, "recording"); info.Audio != hears || info.Images != (said == "image") {
					t.Errorf("%s, a model that accepts the %s is described as %+v", name, said, info)
				}
			}
		}
	}
}
