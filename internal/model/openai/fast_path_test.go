package openai_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
	"lilac/internal/model/openai"
)

// result is what came of a stream.
type result struct {
	Deltas  []string
	Message chat.Message
	Failure fault.Kind
}

// cannedStream is a server without a network.
type cannedStream []string

func (a cannedStream) RoundTrip(*http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "text/event-stream")
	for _, chunk := range a {
		_, _ = fmt.Fprintf(w, "data: %s\n\n", chunk)
	}
	return w.Result(), nil
}

func collect(t testing.TB, chunks ...string) result {
	t.Helper()
	m := openai.New(llm.Options{
		BaseURL: "http://model.test", Model: "m", HTTPClient: &http.Client{Transport: cannedStream(chunks)},
		Retry: llm.Retry{Max: -1},
	})
	var h result
	for chunk, err := range m.Stream(t.Context(), llm.Request{Messages: []chat.Message{chat.Text(chat.User, "x")}}) {
		switch {
		case err != nil:
			h.Failure = fault.KindOf(err)
			return h
		case chunk.Kind == llm.ChunkDone:
			h.Message = chunk.Message
		default:
			h.Deltas = append(h.Deltas, chunk.Text)
		}
	}
	return h
}

const ending = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`

// plainChunks are chunks as servers send them for every token, and chunks that
// look like one but are not.
var plainChunks = []string{
	`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","system_fingerprint":null,"choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}],"usage":null}`,
	`{"choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"finish_reason":null}]}`,
	`{"choices":[{"delta":{"role":"assistant","content":"a","reasoning_content":null,"tool_calls":null}}]}`,
	` { "choices" : [ { "index" : 0 , "delta" : { "content" : "spaced" } } ] } `,
	`{"choices":[{"index":0,"delta":{"content":"quote \" backslash \\ slash \/ line \n tab \t é 中 \u00e9 \ud83d\ude00 😀"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"lone \ud83d surrogate"}}]}`,
	"{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"not \xff UTF-8\"}}]}",
	`{"choices":[{"index":0,"delta":{"content":"ends in a backslash \\"}}]}`,
	`{"choices":[{"index":1,"delta":{"content":"another choice"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a"}},{"index":0,"delta":{"content":"b"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a","content":"b"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a"},"delta":{"content":"b"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a"}}],"choices":[{"index":0,"delta":{"content":"b"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a","annotations":[{"type":"x"}]}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"length"}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":""}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a","refusal":"No."}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a","reasoning":"think"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":null}}]}`,
	`{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"a"}]}}]}`,
	`{"choices":[{"index":0,"delta":{"content":7}}]}`,
	`{"choices":[{"index":0,"delta":{"Content":"another name"}}]}`,
	`{"Choices":[{"index":0,"delta":{"content":"names do not care about case"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":3}}`,
	`{"choices":[{"index":0,"delta":{"content":"a"}}],"error":{"message":"broken"}}`,
	`{"choices":[]}`,
	`{"choices":[{"index":0,"delta":{"content":"a"}}]`,
	`{"choices":[{"index":0,"delta":{"content":"a"}}]}}`,
	`{"choices":[{"index":0,"delta":{"content":"a"}}]} x`,
	`{"choices":[{"index":0,"delta":{"content":"a"}},]}`,
	`{"choices":[{"index":0,"delta":{"content":"a",}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":nul}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":nulls}]}`,
	`{"choices":[{"index":00,"delta":{"content":"a"}}]}`,
	`{"created":1.5e3,"choices":[{"index":0,"delta":{"content":"a"}}]}`,
	`{"created":01,"choices":[{"index":0,"delta":{"content":"a"}}]}`,
	`{"id":"bad \x escape","choices":[{"index":0,"delta":{"content":"a"}}]}`,
	"{\"id\":\"a\x01b\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}",
	"{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\x01b\"}}]}",
	`{"choices":[{"index":0,"delta":{"content":"bad \x escape"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"open`,
	`{"choices":[{"index":0,"delta":{"content":"open\`,
}

// general is the same chunk with a field that no server sends, which makes the
// adapter decode it the long way.
func general(chunk string) string {
	rest, ok := strings.CutPrefix(strings.TrimLeft(chunk, " "), "{")
	if !ok {
		return chunk
	}
	return `{"x-general":1,` + rest
}

// TestFastPathMatchesGeneralDecoder compares what is heard with what the general
// decoding makes of the same chunk.
func TestFastPathMatchesGeneralDecoder(t *testing.T) {
	for _, chunk := range plainChunks {
		if diff := cmp.Diff(collect(t, general(chunk), ending), collect(t, chunk, ending)); diff != "" {
			t.Errorf("%q is read in another way (-general +plain):\n%s", chunk, diff)
		}
	}
	if got := collect(t, plainChunks[0], plainChunks[4], ending).Message.Text(); got != " wordquote \" backslash \\ slash / line \n tab \t é 中 é 😀 😀" {
		t.Errorf("the text is %q", got)
	}
}

// FuzzPlainChunk searches for a chunk that the two decodings read differently.
func FuzzPlainChunk(f *testing.F) {
	for _, chunk := range plainChunks {
		f.Add(chunk)
	}
	f.Fuzz(func(t *testing.T, chunk string) {
		if strings.ContainsAny(chunk, "\r\n") || !strings.HasPrefix(chunk, "{\"") {
			return // not one chunk in one line
		}
		if diff := cmp.Diff(collect(t, general(chunk), ending), collect(t, chunk, ending)); diff != "" {
			t.Errorf("read in another way (-general +plain):\n%s", diff)
		}
	})
}
