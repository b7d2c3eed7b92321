package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

// A Status is the outcome of a check.
type Status string

// The outcomes. Absent means that a part that no model must have was not seen.
const (
	OK     Status = "ok"
	Failed Status = "failed"
	Absent Status = "absent"
)

// A Check is one line of the report.
type Check struct {
	Name   string `json:"check"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
}

// A Report says what worked.
type Report struct {
	Checks []Check `json:"checks"`
	// Usage is that of all calls.
	Usage chat.Usage `json:"usage"`
	// Err is the error of the call that failed, or nil.
	Err error `json:"-"`
}

// OK reports whether the model can serve an agent: it called the tool and understood the
// result.
func (r Report) OK() bool {
	for _, c := range r.Checks {
		if c.Status == Failed {
			return false
		}
	}
	return len(r.Checks) > 0
}

// First returns the first failed check.
func (r Report) First() (Check, bool) {
	for _, c := range r.Checks {
		if c.Status == Failed {
			return c, true
		}
	}
	return Check{}, false
}

// The tool and its secret. The word in the result is one that no model says by chance.
const (
	toolName = "look_up_word"
	word     = "lilac-7341"
	prompt   = "Call the tool " + toolName + " with the key \"garden\". After you have its result, answer with exactly the word that it returned."
)

var tools = []llm.ToolSpec{{
	Name:        toolName,
	Description: "Returns the word for a key.",
	Schema:      json.RawMessage(`{"type":"object","properties":{"key":{"type":"string","description":"The key."}},"required":["key"],"additionalProperties":false}`),
}}

// maxOutputTokens leaves room for the thinking of models that always think.
const maxOutputTokens = 4096

// call is one finished call of the model.
type call struct {
	message chat.Message
	usage   chat.Usage
	stop    llm.StopReason
	model   string
	chunks  int
	first   time.Duration // until the first chunk
	took    time.Duration
}

// Run makes the calls and reports what worked. now returns the time.
func Run(ctx context.Context, m llm.Model, now func() time.Time) Report {
	var r Report
	conv := []chat.Message{chat.Text(chat.User, prompt)}
	first, err := ask(ctx, m, conv, now)
	if err != nil {
		return r.failed("call", err)
	}
	r.called(first)
	for i := range first.message.Parts { // some hosts send calls without ids
		if p := &first.message.Parts[i]; p.Type == chat.TypeToolCall && p.ToolCallID == "" {
			p.ToolCallID = fmt.Sprintf("call_%d", i)
		}
	}
	calls := first.message.ToolCalls()
	if len(calls) == 0 {
		r.add("tool", Failed, "the model did not call the tool; it answered %q", shorten(first.message.Text()))
		return r
	}
	if problem := checkCall(calls[0]); problem != "" {
		r.add("tool", Failed, "%s", problem)
		return r
	}
	r.add("tool", OK, "the model called the tool with the right input")
	results := chat.Message{Role: chat.Tool}
	for _, c := range calls {
		results.Parts = append(results.Parts, chat.ToolResult(c.ToolCallID, c.ToolName, word, false))
	}
	conv = append(conv, first.message, results)
	second, err := ask(ctx, m, conv, now)
	if err != nil {
		return r.failed("result", err)
	}
	r.Usage = r.Usage.Add(second.usage)
	if text := second.message.Text(); !strings.Contains(text, word) {
		r.add("result", Failed, "the model did not repeat the word that the tool returned; it answered %q", shorten(text))
		return r
	}
	r.add("result", OK, "the model understood the result of the tool")
	r.observed(first, second)
	return r
}

func (r *Report) add(name string, status Status, format string, args ...any) {
	r.Checks = append(r.Checks, Check{name, status, fmt.Sprintf(format, args...)})
}

func (r Report) failed(name string, err error) Report {
	r.Err = err
	r.add(name, Failed, "%s", fault.ToWire(err).Message)
	return r
}

// called reports the first call.
func (r *Report) called(c call) {
	name := ""
	if c.model != "" {
		name = ", by " + c.model
	}
	r.add("call", OK, "answered after %s%s", c.took.Round(time.Millisecond), name)
	r.Usage = c.usage
}

// observed reports the parts that a model need not have.
func (r *Report) observed(calls ...call) {
	var thinking, streamed bool
	var usage chat.Usage
	for _, c := range calls {
		usage = usage.Add(c.usage)
		streamed = streamed || c.chunks > 2
		for _, p := range c.message.Parts {
			thinking = thinking || p.Type == chat.TypeReasoning
		}
	}
	if streamed {
		r.add("stream", OK, "the answer arrived in pieces, the first after %s", calls[0].first.Round(time.Millisecond))
	} else {
		r.add("stream", Absent, "the answer arrived at once")
	}
	if thinking {
		r.add("thinking", OK, "the model showed its thinking, and accepted it back")
	} else {
		r.add("thinking", Absent, "the model showed no thinking")
	}
	if usage.InputTokens+usage.OutputTokens > 0 {
		r.add("usage", OK, "%d input and %d output tokens", usage.InputTokens, usage.OutputTokens)
	} else {
		r.add("usage", Absent, "the endpoint reports no usage; Lilac estimates it")
	}
}

func ask(ctx context.Context, m llm.Model, messages []chat.Message, now func() time.Time) (call, error) {
	begun := now()
	var out call
	limit := maxOutputTokens
	if most := m.Info().MaxOutputTokens; most > 0 {
		limit = min(limit, most)
	}
	for c, err := range m.Stream(ctx, llm.Request{
		System: "You are a test of an agent. Follow the instructions exactly.", Messages: messages, Tools: tools,
		MaxOutputTokens: limit, Session: "lilac-models-test",
	}) {
		if err != nil {
			return out, err
		}
		if out.chunks++; out.chunks == 1 {
			out.first = now().Sub(begun)
		}
		if c.Kind == llm.ChunkDone {
			out.message, out.usage, out.stop, out.model = c.Message, c.Usage, c.Stop, c.Model
			out.took = now().Sub(begun)
			return out, nil
		}
	}
	return out, cutOff(ctx)
}

func cutOff(ctx context.Context) error {
	if ctx.Err() != nil {
		return llm.ContextError(ctx)
	}
	return fault.Wrap(fault.Unavailable, errors.New("no end of the answer"), "The answer broke off.")
}

// checkCall returns what is wrong with a call of the tool, or "".
func checkCall(p chat.Part) string {
	var in struct {
		Key string `json:"key"`
	}
	switch {
	case p.ToolName != toolName:
		return fmt.Sprintf("the model called the tool %q, which does not exist", shorten(p.ToolName))
	case json.Unmarshal(p.Input, &in) != nil || in.Key != "garden":
		return fmt.Sprintf("the model called the tool with the wrong input %q", shorten(string(p.Input)))
	}
	return ""
}

func shorten(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 80 {
		return string(r[:79]) + "…"
	}
	return s
}
