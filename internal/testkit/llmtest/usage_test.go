package llmtest_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
)

// usageStreams holds a short answer with a given usage, and a usage with a given input
// count.
var usageStreams = map[string]struct {
	answer func(usage string) string
	input  string
}{
	"anthropic": {func(usage string) string {
		return events(`{"type":"message_start","message":{"model":"m","usage":`+usage+`}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Yes."}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":null}`, `{"type":"message_stop"}`)
	}, `{"input_tokens":%s,"output_tokens":2}`},
	"responses": {func(usage string) string {
		return events(`{"type":"response.output_text.delta","output_index":0,"delta":"Yes."}`,
			`{"type":"response.completed","response":{"status":"completed","output":[],"usage":`+usage+`}}`)
	}, `{"input_tokens":%s,"output_tokens":2}`},
	"openai": {func(usage string) string {
		return events(`{"choices":[{"delta":{"content":"Yes."},"finish_reason":"stop"}],"usage":`+usage+`}`, `{"choices":[],"usage":null}`, "[DONE]")
	}, `{"prompt_tokens":%s,"completion_tokens":2,"prompt_tokens_details":0}`},
}

func TestUsageIsDecodedLeniently(t *testing.T) {
	forEachAdapter(t, func(t *testing.T, name string, b build) {
		report := usageStreams[name]
		check := func(usage string, want chat.Usage) {
			t.Helper()
			m := b("http://model.test", &http.Client{Transport: cannedResponse(report.answer(usage))}, llm.Retry{Max: -1}, time.Minute)
			h := collect(t.Context(), m, prompt)
			if h.err != nil || h.text != "Yes." {
				t.Errorf("usage %s: heard %q, error %v", usage, h.text, h.err)
				return
			}
			got := h.done.Usage
			got.CostMicros = 0
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("usage %s (-want +got):\n%s", usage, diff)
			}
		}
		for count, want := range map[string]int64{
			"12": 12, "12.0": 12, `"12"`: 12, "1e3": 1000, "null": 0, `"many"`: 0, `"inf"`: 0, "{}": 0, "-5": 0,
			"9223372036854775790": 1e12, "18446744073709551615": 1e12,
		} {
			check(fmt.Sprintf(report.input, count), chat.Usage{InputTokens: want, OutputTokens: 2})
		}
		for _, none := range []string{"null", `"much"`, "[1]", "7", "{}"} {
			check(none, chat.Usage{})
		}
	})
}
