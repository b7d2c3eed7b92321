package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lilac/internal/agent"
	"lilac/internal/agent/tool"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

// reading answers with a text that has the key in its first line, once for each call.
func reading(size int) tool.Tool {
	return named("read", func(_ context.Context, c tool.Call) (tool.Result, error) {
		return tool.Result{Text: "the key of " + c.ID + "\n" + strings.Repeat("filler line\n", size/12)}, nil
	})
}

// What a tool has answered reaches the model before it may be summarised,
// however small the window is. A model that waits for it would ask for ever.
func TestAToolResultReachesTheModelFirst(t *testing.T) {
	for name, c := range map[string]struct {
		info     llm.Info
		before   []chat.Message
		results  int
		size     int
		forced   bool
		shortens bool
	}{
		"it fits":                        {info: llm.Info{ContextTokens: 16_384, MaxOutputTokens: 8_192}, results: 1, size: 17_000},
		"it fits when the rest goes":     {info: llm.Info{ContextTokens: 16_384, MaxOutputTokens: 8_192}, before: long(30), results: 1, size: 17_000},
		"larger than the window":         {info: llm.Info{ContextTokens: 8_192, MaxOutputTokens: 8_192}, results: 1, size: 40_000, shortens: true},
		"many at once":                   {info: llm.Info{ContextTokens: 16_384, MaxOutputTokens: 8_192}, before: long(30), results: 8, size: 30_000, shortens: true},
		"the provider finds it too long": {results: 2, size: 30_000, forced: true, shortens: true},
	} {
		t.Run(name, func(t *testing.T) {
			var parts []chat.Part
			for i := range c.results {
				parts = append(parts, call(fmt.Sprint("file", i), "read", `{}`))
			}
			m := &model{info: c.info, summary: func(llm.Request) reply { return say("They asked.") }, script: []reply{calls("", parts...)}}
			if c.forced {
				m.script = append(m.script, reply{err: &fault.Error{Kind: fault.Invalid, Code: "context_length", Message: "Too long."}})
			}
			m.script = append(m.script, say("Done."))
			in := question()
			in.Messages = append(c.before, chat.Text(chat.User, "read the files"))
			if out := play(t, t.Context(), m, agent.Config{Tools: []tool.Tool{reading(c.size)}}, in, newHost()); out.Err != nil {
				t.Fatal(out.Err)
			}
			last := m.asked[len(m.asked)-1]
			seen := toolTexts(last.Messages)
			for i := range c.results {
				if want := fmt.Sprintf("the key of file%d", i); !strings.Contains(seen, want) {
					t.Errorf("the model never saw %q", want)
				}
			}
			if shortened := strings.Contains(seen, "Too long for the context"); shortened != c.shortens {
				t.Errorf("shortened: %v", shortened)
			}
			if n := agent.EstimateTokens(last.Messages); c.info.ContextTokens > 0 && n+last.MaxOutputTokens > c.info.ContextTokens {
				t.Errorf("%d tokens and room for %d in a window of %d", n, last.MaxOutputTokens, c.info.ContextTokens)
			}
			if p := malformed(last.Messages); p != "" {
				t.Error(p)
			}
		})
	}
}

func toolTexts(messages []chat.Message) string {
	var b strings.Builder
	for _, m := range messages {
		for _, p := range m.ToolResults() {
			text, _ := p.OutputText()
			b.WriteString(text)
		}
	}
	return b.String()
}

func TestAPersonsMessageIsSentCompleteOrRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.IntRange(1, 8_000).Draw(t, "words")
		text := strings.Repeat("word ", words) + "the end"
		m := &model{
			info:    llm.Info{ContextTokens: rapid.IntRange(2_000, 20_000).Draw(t, "window"), MaxOutputTokens: rapid.IntRange(100, 20_000).Draw(t, "output")},
			summary: func(llm.Request) reply { return say("They asked.") },
			script:  []reply{say("Hi")},
		}
		in := question()
		in.Messages = append(long(rapid.IntRange(0, 30).Draw(t, "before")), chat.Text(chat.User, text))
		out := agent.Run(t.Context(), agent.Config{Model: m}, in, all(newHost()))
		switch {
		case fault.KindOf(out.Err) == fault.TooLarge && len(m.asked) == 0:
			if n := agent.EstimateTokens([]chat.Message{chat.Text(chat.User, text)}); n < m.info.ContextTokens*7/10 {
				t.Fatalf("refused %d tokens in a window of %d", n, m.info.ContextTokens)
			}
		case out.Err != nil:
			t.Fatal(out.Err)
		case m.asked[0].Messages[len(m.asked[0].Messages)-1].Text() != text:
			t.Fatal("the model was asked something else")
		case agent.EstimateTokens(m.asked[0].Messages)+m.asked[0].MaxOutputTokens > m.info.ContextTokens*9/8:
			t.Fatalf("%d tokens and room for %d in a window of %d", agent.EstimateTokens(m.asked[0].Messages), m.asked[0].MaxOutputTokens, m.info.ContextTokens)
		}
	})
}
