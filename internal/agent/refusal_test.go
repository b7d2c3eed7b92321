package agent_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/agent"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/fallback"
	"lilac/internal/model/llm"
)

func TestUnexplainedRefusalOfALongConversationIsCompactedOnce(t *testing.T) {
	refused := reply{err: fault.New(fault.Invalid, "The server refused it.")}
	large := llm.Info{ContextTokens: 128_000, MaxOutputTokens: 8_000}
	for name, c := range map[string]struct {
		messages  []chat.Message
		script    []reply
		compacted int
		kind      fault.Kind
		says      string
	}{
		"compaction helps":        {long(30), []reply{refused, say("Hi")}, 1, "", ""},
		"compaction doesn't help": {long(30), []reply{refused, refused, say("Hi")}, 1, fault.Invalid, "The server refused it."},
		"a short conversation":    {long(1), []reply{refused, say("Hi")}, 0, fault.Invalid, "The server refused it."},
	} {
		t.Run(name, func(t *testing.T) {
			m, h := &model{info: large, script: c.script}, newHost()
			in := question()
			in.Messages, h.history = c.messages, c.messages
			out := agent.Run(t.Context(), agent.Config{Model: m, Tools: nil}, in, all(h))
			if fault.KindOf(out.Err) != c.kind {
				t.Errorf("error is %v", out.Err)
			}
			if out.Err != nil && !strings.Contains(out.Err.Error(), c.says) {
				t.Errorf("the error does not say why: %v", out.Err)
			}
			if got := h.summaries; got != c.compacted {
				t.Errorf("%d compactions, want %d:\n%s", got, c.compacted, strings.Join(h.log, "\n"))
			}
		})
	}
}

func TestContextLengthErrorNamesTheSetting(t *testing.T) {
	refused := reply{err: &fault.Error{Kind: fault.Invalid, Code: llm.CodeContextLength, Message: "Too long: 9 > 8. Set contextTokens."}}
	m, h := &model{info: small, script: []reply{refused, refused}}, newHost()
	in := question()
	in.Messages, h.history = long(30), long(30)
	out := agent.Run(t.Context(), agent.Config{Model: m}, in, all(h))
	if out.Err == nil || !strings.Contains(out.Err.Error(), "contextTokens") || !strings.Contains(out.Err.Error(), "9 > 8") {
		t.Errorf("error is %v", out.Err)
	}
}

// refusal returns the error of an adapter for a response.
func refusal(status int, body string) error {
	_, endpoint := llm.Options{Model: "m"}.Endpoint("acme", "Acme")
	return endpoint.Fault(llm.Refusal(status, nil, []byte(body), time.Now()))
}

func TestRefusedMediaBecomesANote(t *testing.T) {
	broken := reply{err: fault.New(fault.Unavailable, "The server has trouble.")}
	for name, c := range map[string]struct {
		script []reply
		calls  int
		shown  bool // the image is in the last call
	}{
		"404":                 {[]reply{{err: fault.New(fault.NotFound, "No endpoints.")}, say("Hi")}, 2, false},
		"413":                 {[]reply{{err: fault.New(fault.TooLarge, "Too large.")}, say("Hi")}, 2, false},
		"413, a proxy":        {[]reply{{err: refusal(413, "<html>413 Request Entity Too Large</html>")}, say("Hi")}, 2, false},
		"413, Anthropic":      {[]reply{{err: refusal(413, `{"error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`)}, say("Hi")}, 2, false},
		"a payload":           {[]reply{{err: refusal(400, `{"error":{"message":"Request payload size exceeds the limit: 20971520 bytes."}}`)}, say("Hi")}, 2, false},
		"recognized by words": {[]reply{{err: &fault.Error{Kind: fault.Invalid, Code: llm.CodeMediaRefused, Message: "No images."}}, say("Hi")}, 2, false},
		"500, once":           {[]reply{broken, say("Hi")}, 2, true},
		"500, again":          {[]reply{broken, broken, say("Hi")}, 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			m, h := &model{script: c.script}, newHost()
			in := question()
			in.Messages = append(in.Messages, chat.Message{Role: chat.User, Parts: []chat.Part{{Type: chat.TypeImage, Data: []byte(`"iVBORw0KGgo="`), Filename: "scan.png"}}})
			out := agent.Run(t.Context(), agent.Config{Model: m, Retries: 4, Backoff: func(int) time.Duration { return 0 }}, in, all(h))
			if out.Err != nil || len(m.asked) != c.calls {
				t.Fatalf("%d calls: %v", len(m.asked), out.Err)
			}
			if last := written(m.asked[len(m.asked)-1].Messages); strings.Contains(last, "iVBORw0KGgo=") != c.shown {
				t.Errorf("the last call is %s", last)
			}
		})
	}
}

// silentModel is silent until its limit or that of the request ends, as the adapters are.
type silentModel struct {
	inChain bool // its failures are those of a chain
	limit   time.Duration
	calls   int
	// busy is the number of calls, from the second on, that fail at once instead.
	busy int
}

func (m *silentModel) Info() llm.Info { return llm.Info{} }

func (m *silentModel) Stream(_ context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		m.calls++
		if m.calls > 1 && m.calls <= 1+m.busy {
			yield(llm.Chunk{}, fault.New(fault.Unavailable, "It is overloaded."))
			return
		}
		limit := m.limit
		if req.SilenceLimit > 0 {
			limit = min(limit, req.SilenceLimit)
		}
		time.Sleep(limit)
		silent := &fault.Error{Kind: fault.Timeout, Code: llm.CodeSilent, Message: "It sent nothing."}
		if m.inChain {
			silent = &fault.Error{Kind: fault.Timeout, Code: fallback.CodeAllFailed, Message: "No model could answer.", Err: errors.Join(silent)}
		}
		yield(llm.Chunk{}, silent)
	}
}

func TestSilentModelEndsWithinFiveMinutes(t *testing.T) {
	for name, c := range map[string]struct {
		limit       time.Duration
		busy, calls int
		inChain     bool
	}{
		"short":                   {time.Minute, 0, 5, false},
		"default":                 {2 * time.Minute, 0, 3, false},
		"between other failures":  {2 * time.Minute, 2, 5, false},
		"long":                    {4 * time.Minute, 0, 2, false},
		"as long as all attempts": {5 * time.Minute, 0, 1, false},
		"no time for another":     {5*time.Minute - time.Second, 0, 1, false},
		"in a chain":              {2 * time.Minute, 0, 3, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				m := &silentModel{limit: c.limit, busy: c.busy, inChain: c.inChain}
				out := agent.Run(t.Context(), agent.Config{Model: m, Retries: 10}, question(), all(newHost()))
				if took := time.Since(begun); fault.KindOf(out.Err) != fault.Timeout || took > 5*time.Minute || m.calls != c.calls {
					t.Errorf("%d calls took %v: %v", m.calls, took, out.Err)
				}
			})
		})
	}
}
