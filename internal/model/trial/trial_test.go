package trial_test

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
	"lilac/internal/model/trial"
)

// script is a model that gives prepared answers.
type script struct {
	answers []llm.Chunk
	err     error // after the answers
	seen    []llm.Request
}

func (s *script) Info() llm.Info { return llm.Info{Provider: "p", Name: "m", MaxOutputTokens: 100} }

func (s *script) Stream(_ context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		s.seen = append(s.seen, req)
		if len(s.answers) == 0 {
			yield(llm.Chunk{}, s.err)
			return
		}
		next := s.answers[0]
		s.answers = s.answers[1:]
		text := llm.Chunk{Kind: llm.ChunkText, Text: "x"}
		if first := yield(text, nil); first && yield(text, nil) {
			yield(next, nil)
		}
	}
}

func said(parts ...chat.Part) llm.Chunk {
	return llm.Chunk{Kind: llm.ChunkDone, Message: chat.Message{Role: chat.Assistant, Parts: parts}, Usage: chat.Usage{InputTokens: 10, OutputTokens: 5}}
}

func called(id, name, input string) llm.Chunk {
	return said(chat.ToolCall(id, name, json.RawMessage(input)))
}

func TestTrial(t *testing.T) {
	good := called("1", "look_up_word", `{"key":"garden"}`)
	for _, tt := range []struct {
		name    string
		answers []llm.Chunk
		failed  string // the check that fails, and its detail
		detail  string
	}{
		{"works", []llm.Chunk{good, said(chat.TextPart("lilac-7341"))}, "", ""},
		{"a call without an id", []llm.Chunk{called("", "look_up_word", `{"key":"garden"}`), said(chat.TextPart("It is **lilac-7341**."))}, "", ""},
		{"refused at once", nil, "call", "No credit."},
		{"no call", []llm.Chunk{said(chat.TextPart("I cannot."))}, "tool", "I cannot."},
		{"a wrong tool", []llm.Chunk{called("1", "bash", `{}`)}, "tool", `"bash"`},
		{"a wrong input", []llm.Chunk{called("1", "look_up_word", `{"k":1}`)}, "tool", "wrong input"},
		{"the result is refused", []llm.Chunk{good}, "result", "No credit."},
		{"the result is ignored", []llm.Chunk{good, said(chat.TextPart("Done."))}, "result", "Done."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := &script{answers: tt.answers, err: fault.New(fault.Denied, "No credit.")}
			r := trial.Run(t.Context(), m, time.Now)
			failed, bad := r.First()
			if bad != (tt.failed != "") || r.OK() == bad || failed.Name != tt.failed || !strings.Contains(failed.Detail, tt.detail) {
				t.Fatalf("the report is %+v", r.Checks)
			}
			if tt.failed == "" {
				second := m.seen[1].Messages
				result := second[len(second)-1].Parts[0]
				if result.ToolCallID == "" || result.ToolCallID != second[1].ToolCalls()[0].ToolCallID || r.Usage.Tokens() != 30 {
					t.Errorf("the result is %+v, the usage %+v", result, r.Usage)
				}
			}
		})
	}
}
