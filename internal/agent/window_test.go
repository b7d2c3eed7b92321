package agent_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"lilac/internal/agent"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/fallback"
	"lilac/internal/model/llm"
)

// lateModel learns its window when it is prepared.
type lateModel struct{ *model }

func (m lateModel) Prepare(context.Context) { m.info.ContextTokens = 4096 }

// A window is found out before the first call, whose prompt some servers would cut.
func TestAWindowIsFoundOutBeforeTheFirstCall(t *testing.T) {
	m, h := &model{info: llm.Info{Name: "tiny"}, script: []reply{say("Hi")}}, newHost()
	chain := fallback.New([]fallback.Candidate{{Model: lateModel{m}}}, &fallback.Breakers{}, time.Now)
	out := agent.Run(t.Context(), agent.Config{Model: chain, System: strings.Repeat("do. ", 5000)}, question(), all(h))
	if out.Err == nil || !strings.Contains(out.Err.Error(), "(4096 tokens) is too small") || len(m.asked) != 0 {
		t.Errorf("%d calls, %v", len(m.asked), out.Err)
	}
}

// The usual windows of local servers have no room for an agent. It is the window that is too small,
// and not the message that is too long.
func TestAWindowThatIsTooSmallIsNamed(t *testing.T) {
	const tooSmall, tooLong = "is too small: the agent's instructions and tools alone take about 5000", "The message is too long for the model."
	refused := reply{err: &fault.Error{Kind: fault.Invalid, Code: llm.CodeContextLength, Message: "Too long."}}
	for name, c := range map[string]struct {
		window int
		text   string
		script []reply
		calls  int
		says   string
	}{
		"the instructions do not fit":         {4096, "hi", []reply{say("Hi")}, 0, tooSmall},
		"they fit":                            {6000, "hi", []reply{say("Hi")}, 1, ""},
		"the provider says that they do not":  {8192, "hi", []reply{refused, say("Hi")}, 1, tooSmall},
		"they fit, and the message does not":  {8192, strings.Repeat("word ", 20_000), []reply{say("Hi")}, 0, tooLong},
		"nothing fits":                        {4096, strings.Repeat("word ", 20_000), []reply{say("Hi")}, 0, tooSmall},
		"the provider refuses a long message": {32_768, strings.Repeat("word ", 16_000), []reply{refused, say("Hi")}, 1, tooLong},
		"a window that is not known":          {0, "hi", []reply{say("Hi")}, 1, ""},
		"they fit, and are refused":           {128_000, "hi", []reply{refused, say("Hi")}, 1, "Too long."},
		"they are refused, and nobody knows":  {0, "hi", []reply{refused, say("Hi")}, 1, "Too long."},
	} {
		t.Run(name, func(t *testing.T) {
			m, h := &model{info: llm.Info{Name: "tiny", ContextTokens: c.window}, script: c.script}, newHost()
			in := question()
			in.Messages = []chat.Message{chat.Text(chat.User, c.text)}
			h.history = in.Messages
			out := agent.Run(t.Context(), agent.Config{Model: m, System: strings.Repeat("do. ", 5000)}, in, all(h))
			if len(m.asked) != c.calls || (out.Err == nil) != (c.says == "") || out.Err != nil && !strings.Contains(out.Err.Error(), c.says) {
				t.Errorf("%d calls, %v; want %d calls, and %q", len(m.asked), out.Err, c.calls, c.says)
			}
		})
	}
}
