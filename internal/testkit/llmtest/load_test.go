package llmtest_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

func TestFiveHundredConcurrentStreams(t *testing.T) {
	effort.SkipSlow(t)
	const streams, tokens = 500, 20
	text := strings.Repeat("word ", tokens)
	s := llmtest.New(t, func(llmtest.Request) llmtest.Script {
		return llmtest.Script{Text: llmtest.Words(text), Delay: 20 * time.Millisecond}
	})
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: streams}}
	defer client.CloseIdleConnections()
	m := adapters["openai"](s.URL, client, llm.Retry{}, 0)
	var wg sync.WaitGroup
	begun := time.Now()
	for range streams {
		wg.Go(func() {
			if h := collect(t.Context(), m, prompt); h.err != nil || h.text != text {
				t.Errorf("heard %q, error %v", h.text, h.err)
			}
		})
	}
	wg.Wait()
	// The scripts alone take 0.42 s; one after the other, they would take 210 s.
	if took := time.Since(begun); took > 3*time.Minute {
		t.Errorf("it took %v", took)
	} else {
		t.Logf("%d tokens in %v", streams*tokens, took)
	}
}

func TestConversationMovesBetweenProviders(t *testing.T) {
	script := llmtest.Script{
		Reasoning: []string{"hm"}, Signature: "s==", Text: []string{"Look"},
		Calls: []llmtest.Call{{ID: "functions.read:0", Name: "read", Input: `{}`}},
	}
	for from, b := range adapters {
		for to, other := range adapters {
			h := collect(t.Context(), start(t, b, 0, 0, script).model, prompt)
			if h.err != nil {
				t.Fatal(h.err)
			}
			r := start(t, other, 0, 0, llmtest.Say("ok"))
			call := h.done.Message.ToolCalls()[0]
			req := prompt
			req.Messages = append(req.Messages[:1:1], h.done.Message,
				chat.Message{Role: chat.Tool, Parts: []chat.Part{chat.ToolResult(call.ToolCallID, "read", "x", false)}})
			if h := collect(t.Context(), r.model, req); h.err != nil {
				t.Fatal(h.err)
			}
			got := r.server.Requests()[0]
			if from != to && (strings.Contains(string(got.Body), "s==") || strings.Contains(string(got.Body), "hm\"")) {
				t.Errorf("from %s to %s: reasoning was sent: %s", from, to, got.Body)
			}
			if to == "anthropic" && strings.Contains(string(got.Body), "functions.read:0") {
				t.Errorf("an id that Anthropic refuses was sent: %s", got.Body)
			}
			if got.LastText() != "x" {
				t.Errorf("from %s to %s: the result reads %q", from, to, got.LastText())
			}
		}
	}
}
