package titles

import (
	"context"
	"iter"
	"strings"
	"testing"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
)

func TestAnAnswerBecomesATitleOfOneShortLine(t *testing.T) {
	for answer, want := range map[string]string{
		"Dandelions in winter":                       "Dandelions in winter",
		" \"Dandelions in winter.\"\n":               "Dandelions in winter",
		"**Dandelions**\n\nThat is what it is about": "Dandelions",
		"# Löwenzahn im Winter":                      "Löwenzahn im Winter",
		"a\x1b[31mb":                                 "a[31mb",
		"":                                           "",
		"\"\"":                                       "",
		strings.Repeat("x", 61):                      "",
		strings.Repeat("ß", 60):                      strings.Repeat("ß", 60),
	} {
		if got := clean(answer); got != want {
			t.Errorf("clean(%q) = %q, want %q", answer, got, want)
		}
	}
}

type fixed struct {
	got llm.Request
	say string
}

func (f *fixed) Info() llm.Info { return llm.Info{Price: &llm.Price{Input: 1, Output: 2}} }

func (f *fixed) Stream(_ context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	f.got = req
	return func(yield func(llm.Chunk, error) bool) {
		yield(llm.Chunk{Kind: llm.ChunkDone, Message: chat.Text(chat.Assistant, f.say), Usage: chat.Usage{InputTokens: 100, OutputTokens: 10}}, nil)
	}
}

func TestTheModelReadsABoundedBeginning(t *testing.T) {
	m := &fixed{say: "A title"}
	title, used, err := Name(t.Context(), m, strings.Repeat("q", 1<<20), "answer \"quoted\"")
	if err != nil || title != "A title" || used.CostMicros != 120 {
		t.Errorf("got %q, %+v, %v", title, used, err)
	}
	if sent := m.got.Messages[0].Text(); len(sent) > 3*maxExcerpt || !strings.Contains(sent, `answer \"quoted\"`) || m.got.MaxOutputTokens == 0 {
		t.Errorf("the model gets %d bytes: %.200s", len(sent), sent)
	}
}
