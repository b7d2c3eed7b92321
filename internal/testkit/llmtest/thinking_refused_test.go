package llmtest_test

import (
	"strings"
	"testing"

	"lilac/internal/foundation/chat"
	"lilac/internal/testkit/llmtest"
)

// If a provider refuses the thinking of earlier answers, the call is repeated once without it.
func TestACallIsRepeatedWithoutThinkingThatIsRefused(t *testing.T) {
	refusals := map[string]llmtest.Script{
		"anthropic": {Status: 400, ErrorType: "invalid_request_error", ErrorMessage: "messages.1.content.0: Invalid `signature` in `thinking` block"},
		"responses": {Status: 400, ErrorType: "invalid_request_error", ErrorCode: "invalid_encrypted_content", ErrorMessage: "The encrypted content could not be verified."},
	}
	forEachAdapter(t, func(t *testing.T, name string, b build) {
		refused, ok := refusals[name]
		if !ok {
			return // chat completions have no thinking that goes back signed
		}
		thought := llmtest.Script{Reasoning: []string{"hm"}, Signature: "signed", Text: []string{"one"}}
		r := startServer(t, b, -1, 0, true, thought, refused, llmtest.Say("two"))
		first := collect(t.Context(), r.model, prompt)
		if first.err != nil || first.done == nil {
			t.Fatal(first.err)
		}
		again := prompt
		again.Messages = append(append([]chat.Message{}, prompt.Messages...), first.done.Message, chat.Text(chat.User, "and?"))
		second := collect(t.Context(), r.model, again)
		if second.err != nil || second.text != "two" || second.done == nil || !second.done.WithoutThinking {
			t.Fatalf("heard %q, %+v, %v", second.text, second.done, second.err)
		}
		with, without := string(r.server.Requests()[1].Body), string(r.server.Requests()[2].Body)
		thinks := func(body string) bool {
			return strings.Contains(body, `"thinking"`) || strings.Contains(body, "encrypted_content\":\"")
		}
		if !thinks(with) {
			t.Errorf("control: the first call has no thinking: %s", with)
		}
		if thinks(without) {
			t.Errorf("the repeated call has thinking: %s", without)
		}
	})
}
