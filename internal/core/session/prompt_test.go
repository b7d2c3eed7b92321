package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lilac/internal/agent/tool"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/model/llm"
)

// forgetfulPrompts is a prompt table that remembers nothing: the control.
type forgetfulPrompts struct{ session.PromptTable }

func (forgetfulPrompts) Prompt(db.Queryer, string) (session.Prompt, bool, error) {
	return session.Prompt{}, false, nil
}

type namedTool struct{ name, description string }

func (n namedTool) Spec() tool.Spec {
	return tool.Spec{Name: n.name, Description: n.description, Schema: json.RawMessage(`{"type":"object"}`)}
}

func (namedTool) Run(context.Context, tool.Call) (tool.Result, error) {
	return tool.Result{Text: strings.Repeat("a line of output\n", 4_000)}, nil
}

// conversationOf writes a request as lines, each of which later requests must repeat.
func conversationOf(req llm.Request) []string {
	encode := func(v any) string {
		out, _ := json.Marshal(v) // requests always marshal
		return string(out)
	}
	lines := []string{req.System, encode(req.Tools)}
	for _, m := range req.Messages {
		lines = append(lines, encode(m))
	}
	return lines
}

// rewritten returns the first line of a request that the next one does not repeat, or "".
func rewritten(before, after []string) string {
	for i, line := range before {
		if i >= len(after) || after[i] != line {
			return line
		}
	}
	return ""
}

// longTalk runs a conversation through changed instructions, tools, and dates, a restart, and
// tool results that are too long for the window. It returns the requests without summaries.
func longTalk(t *testing.T, forget bool) [][]string {
	t.Helper()
	var calls [][]string
	thought := chat.Part{Type: chat.TypeReasoning, Text: "hm", ProviderOptions: json.RawMessage(`{"anthropic":{"signature":"s"}}`)}
	do := func(_ context.Context, req llm.Request, _ func(string)) (chat.Message, error) {
		if strings.HasPrefix(req.System, "You summarise") {
			return chat.Text(chat.Assistant, "They talked."), nil
		}
		calls = append(calls, conversationOf(req))
		answer := chat.Message{Role: chat.Assistant, Parts: []chat.Part{thought}}
		if strings.HasPrefix(lastUser(req), "read") && req.Messages[len(req.Messages)-1].Role == chat.User {
			answer.Parts = append(answer.Parts, chat.ToolCall(fmt.Sprint("c", len(calls)), "read", json.RawMessage(`{}`)))
			return answer, nil
		}
		answer.Parts = append(answer.Parts, chat.TextPart("answer "+fmt.Sprint(len(calls))))
		return answer, nil
	}
	dir := t.TempDir()
	var days atomic.Int64
	now := func() time.Time { return time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC).AddDate(0, 0, int(days.Load())) }
	start := func(system string, tools ...tool.Tool) *rig {
		r := newRig(t, rigOptions{dir: dir, do: do, tools: tools, change: func(o *session.Options) {
			o.Settings.System, o.Now = system, now
			if forget {
				o.Tables.Prompts = forgetfulPrompts{o.Tables.Prompts}
			}
		}})
		r.model.window, r.model.notes = 30_000, true
		return r
	}
	n := 0
	say := func(r *rig, text string) {
		t.Helper()
		n++
		id := fmt.Sprintf("web:s1:r%d", n)
		r.send(id, fmt.Sprint("m", n), event.Prompt, text)
		if req := r.waitForEnd(id); req.State != event.StateDone {
			t.Fatalf("%s ended as %s: %s", id, req.State, req.Detail)
		}
	}
	r := start("Be brief.", namedTool{"read", "Reads."})
	say(r, "hello")
	say(r, "read a long file")
	days.Add(1)
	say(r, "a day later")
	r.svc.Configure(session.Settings{System: "Be thorough."})
	say(r, "with other instructions")
	r.stop()
	r = start("Be thorough.", namedTool{"read", "Reads a file."}, namedTool{"fly", "Flies."})
	say(r, "with other tools")
	say(r, "and on")
	r.stop()
	return calls
}

func TestConversationOnlyGrowsAtItsEnd(t *testing.T) {
	calls := longTalk(t, false)
	for i := 1; i < len(calls); i++ {
		if line := rewritten(calls[i-1], calls[i]); line != "" {
			t.Errorf("call %d does not repeat %.200s", i+1, line)
		}
	}
	last := strings.Join(calls[len(calls)-1], "\n")
	for _, want := range []string{
		"Today: Sunday, 1 March 2026", "Today: Monday, 2 March 2026", "Too long for the context", "Be thorough.",
		"- fly is new", "- read has changed. Its description: Reads a file.",
	} {
		if strings.Count(last, want) != 1 {
			t.Errorf("the last call has %q %d times", want, strings.Count(last, want))
		}
	}
}

// Control: without what was stored, later calls change the conversation.
func TestConversationChangesWithoutStoredPrompts(t *testing.T) {
	calls := longTalk(t, true)
	changed := 0
	for i := 1; i < len(calls); i++ {
		if rewritten(calls[i-1], calls[i]) != "" {
			changed++
		}
	}
	if changed < 3 {
		t.Errorf("%d calls changed the conversation", changed)
	}
}

// A compaction begins a new prompt: it has the current instructions and tools, and no thinking
// of earlier answers. From then on, the conversation grows at its end again.
func TestCompactionBeginsANewPrompt(t *testing.T) {
	var calls [][]string
	do := func(_ context.Context, req llm.Request, _ func(string)) (chat.Message, error) {
		if strings.HasPrefix(req.System, "You summarise") {
			return chat.Text(chat.Assistant, "They talked."), nil
		}
		calls = append(calls, conversationOf(req))
		return chat.Message{Role: chat.Assistant, Parts: []chat.Part{
			{Type: chat.TypeReasoning, Text: fmt.Sprint("thought ", len(calls))}, chat.TextPart(strings.Repeat("word ", 300)),
		}}, nil
	}
	r := newRig(t, rigOptions{do: do, tools: []tool.Tool{namedTool{"read", "Reads."}}, change: func(o *session.Options) { o.Settings.System = "Be brief." }})
	r.model.window, r.model.notes = 6_000, true
	compacted := 0
	for i := range 16 {
		if i == 2 {
			r.svc.Configure(session.Settings{System: "Be thorough."})
		}
		id := fmt.Sprintf("web:s1:r%d", i)
		r.send(id, fmt.Sprint("m", i), event.Prompt, fmt.Sprint("message ", i, strings.Repeat(" x", 200)))
		if req := r.waitForEnd(id); req.State != event.StateDone {
			t.Fatalf("%s ended as %s: %s", id, req.State, req.Detail)
		}
		if i == 0 || rewritten(calls[i-1], calls[i]) == "" {
			continue
		}
		compacted++
		text := strings.Join(calls[i], "\n")
		if calls[i][0] != "Be thorough." || !strings.Contains(text, "Summary of the conversation") || strings.Contains(text, "thought") || strings.Count(text, "Today: ") != 1 {
			t.Errorf("call %d after a compaction: %.300s", i, text)
		}
	}
	if compacted < 2 || compacted > 8 {
		t.Errorf("the conversation changed %d times", compacted)
	}
	if !slices.ContainsFunc(calls[len(calls)-1], func(l string) bool { return strings.Contains(l, "thought") }) {
		t.Error("thinking after the compaction is not sent back")
	}
	r.read(func(q db.Queryer) error {
		var prompts, prefixes int
		if err := q.QueryRow(`SELECT (SELECT count(*) FROM prompts), (SELECT count(*) FROM prompt_prefixes)`).Scan(&prompts, &prefixes); err != nil {
			return err
		}
		if prompts != 1 || prefixes != 1 {
			t.Errorf("%d prompts with %d prefixes", prompts, prefixes)
		}
		return nil
	})
}

// Conversations with workspaces of their own share the stored beginning of their calls, and each
// one still begins with its own workspace when the instructions have changed.
func TestConversationsInDifferentWorkspacesShareAPrefix(t *testing.T) {
	for _, tt := range []struct {
		name, system string
		prefixes     int
	}{
		{"of the same instructions", "Be brief.", 1},
		{"unless they contain the character that stands for a workspace", "Be brief \ue000.", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			systems := map[string][]string{}
			do := func(_ context.Context, req llm.Request, _ func(string)) (chat.Message, error) {
				systems[req.Session] = append(systems[req.Session], req.System)
				return chat.Text(chat.Assistant, "Yes."), nil
			}
			for i, system := range []string{tt.system, "Be thorough."} {
				r := newRig(t, rigOptions{dir: dir, do: do, change: func(o *session.Options) {
					o.Settings.System, o.Surfaces = system, fakeSurfaces{ownWorkspaces: true}
					o.Workspace = func(sessionID string) string { return "/work/" + sessionID }
				}})
				for _, id := range []string{"s1", "s2"} {
					request := fmt.Sprintf("web:%s:r%d", id, i)
					r.publishTo(id, request, request+"/message", event.RequestMessage{Queue: event.Prompt, MessageID: fmt.Sprint("m", i), Messages: []chat.Message{chat.Text(chat.User, "go")}})
					r.waitForEnd(request)
				}
				r.read(func(q db.Queryer) error {
					var prefixes int
					if err := q.QueryRow(`SELECT count(*) FROM prompt_prefixes`).Scan(&prefixes); err != nil {
						return err
					}
					if prefixes != tt.prefixes {
						t.Errorf("%d prefixes are stored, want %d", prefixes, tt.prefixes)
					}
					return nil
				})
				r.stop()
			}
			for id, got := range systems {
				first := tt.system + " You work in /work/" + id + "."
				if want := []string{first, first}; !slices.Equal(got, want) {
					t.Errorf("%s was called with %q, want %q", id, got, want)
				}
			}
			if len(systems) != 2 {
				t.Errorf("%d conversations called the model, want 2", len(systems))
			}
		})
	}
}
