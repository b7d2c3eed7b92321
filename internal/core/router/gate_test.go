package router_test

import (
	"context"
	"iter"
	"strings"
	"testing"

	"lilac/internal/core/router"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

// asked is what a question costs.
var asked = chat.Usage{InputTokens: 30, OutputTokens: 12}

// says is a model that always answers the same.
type says string

func (says) Info() llm.Info { return llm.Info{} }

func (s says) Stream(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if s == "error" {
			yield(llm.Chunk{}, fault.New(fault.Unavailable, "no"))
			return
		}
		if yield(llm.Chunk{Kind: llm.ChunkText, Text: string(s)}, nil) {
			yield(llm.Chunk{Kind: llm.ChunkDone, Usage: asked}, nil)
		}
	}
}

func TestOnlyAValidYesForwards(t *testing.T) {
	for answer, want := range map[string]bool{
		`{"forward": true, "reason": "asked"}`:                 true,
		"\n {\"forward\":true,\"reason\":\"\"} ":               true,
		`{"forward": false, "reason": "chat"}`:                 false,
		`{"forward": true}`:                                    false,
		`{"forward": "true", "reason": "x"}`:                   false,
		`{"forward": true, "reason": "x", "more": 1}`:          false,
		`Sure! {"forward": true, "reason": "x"}`:               false,
		`{"forward": true, "reason": "x"} {"forward": true}`:   false,
		"```json\n{\"forward\": true, \"reason\": \"x\"}\n```": false,
		"":      false,
		"error": false,
		`{"forward": true, "reason": "` + strings.Repeat("x", 5000) + `"}`: false,
	} {
		gate := router.ModelGate(func() llm.Model { return says(answer) })
		got, err := gate(t.Context(), []chat.Message{chat.Text(chat.User, "hi")})
		if got.Forward != want || want && err != nil {
			t.Errorf("%.60q: %v, %v", answer, got, err)
		}
		if cut := answer == "error" || len(answer) > 5000; got.Used != asked && !cut {
			t.Errorf("%.60q: it used %+v, want %+v", answer, got.Used, asked)
		}
	}
}
