package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"lilac/internal/agent/tool"
	"lilac/internal/core/session"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/model/llm"
)

func TestTheAgentAsksAPerson(t *testing.T) {
	asks := func(_ context.Context, req llm.Request, say func(string)) (chat.Message, error) {
		last := req.Messages[len(req.Messages)-1]
		if last.Role != chat.Tool {
			return chat.Message{Role: chat.Assistant, Parts: []chat.Part{chat.ToolCall("q", session.AskToolName, json.RawMessage(`{"question":"Which color?","choices":["red","blue"]}`))}}, nil
		}
		text, failed := last.ToolResults()[0].OutputText()
		say(fmt.Sprint(text, " ", failed))
		return chat.Text(chat.Assistant, fmt.Sprint(text, " ", failed)), nil
	}
	for name, c := range map[string]struct{ answer, want string }{
		"in other words": {"Green, please.", "Green, please. false"},
		"a choice":       {"BLUE", "blue false"},
		"its number":     {"1.", "red false"},
		"nothing":        {"", "Nobody answered in time. Say what you wanted to know, and what you did without it. true"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			o := rigOptions{dir: dir, do: asks, tools: []tool.Tool{session.AskTool()}, change: func(o *session.Options) {
				if c.answer == "" {
					o.Settings.Limits.QuestionWait = 20 * time.Millisecond
				}
			}}
			r := newRig(t, o)
			r.send(req1, "m1", event.Prompt, "go", from(operator))
			if c.answer != "" {
				p := r.pauses(1)
				if left := time.Until(time.UnixMilli(p.Until)); p.Kind != session.ForReply || left < 6*24*time.Hour || p.Question != "Which color?" {
					t.Fatalf("paused with %+v", p)
				}
				r.stop() // the question survives a restart
				r = newRig(t, o)
				r.pauses(1)
				r.send(req1, "m2", event.Steer, c.answer, from(operator))
			}
			r.waitForEnd(req1)
			if text, _ := r.output(req1); text != c.want {
				t.Errorf("the text is %q, want %q", text, c.want)
			}
			r.checkPaired()
		})
	}
}

func TestAnInvalidQuestionIsNotAsked(t *testing.T) {
	for input, want := range map[string]string{
		`{"question":" "}`: "The question is empty.",
		`{"question":"a","choices":["1","2","3","4","5","6"]}`: "There are 6 choices",
		`{"choices":["1"]}`: "question",
	} {
		do := func(_ context.Context, req llm.Request, say func(string)) (chat.Message, error) {
			last := req.Messages[len(req.Messages)-1]
			if last.Role != chat.Tool {
				return chat.Message{Role: chat.Assistant, Parts: []chat.Part{chat.ToolCall("q", session.AskToolName, json.RawMessage(input))}}, nil
			}
			text, _ := last.ToolResults()[0].OutputText()
			say(text)
			return chat.Text(chat.Assistant, text), nil
		}
		r := newRig(t, rigOptions{do: do, tools: []tool.Tool{session.AskTool()}})
		r.send(req1, "m1", event.Prompt, "go", from(operator))
		r.waitForEnd(req1)
		if text, _ := r.output(req1); !strings.Contains(text, want) {
			t.Errorf("%s: %q", input, text)
		}
		r.stop()
	}
}
