package demo_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/demo"
	"lilac/internal/model/llm"
)

var tools = []llm.ToolSpec{
	{Name: "bash", Schema: json.RawMessage(`{"properties":{"command":{}}}`)},
	{Name: "glob", Schema: json.RawMessage(`{"properties":{"pattern":{}}}`)},
	{Name: "grep"},
	{Name: "write"},
	{Name: "task", Schema: json.RawMessage(`{"properties":{"action":{},"command":{}}}`)},
	{Name: "ask", Schema: json.RawMessage(`{"properties":{"question":{}}}`)},
	{Name: "read", Schema: json.RawMessage(`{"properties":{"file_path":{}}}`)},
}

func ask(t *testing.T, tools []llm.ToolSpec, messages ...chat.Message) llm.Chunk {
	t.Helper()
	var text string
	var done llm.Chunk
	for c, err := range demo.New(demo.Options{Delay: -1}).Stream(t.Context(), llm.Request{Messages: messages, Tools: tools}) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Kind == llm.ChunkText {
			text += c.Text
		}
		done = c
	}
	if done.Kind != llm.ChunkDone || done.Message.Text() != text {
		t.Fatalf("the deltas say %q, the message %q", text, done.Message.Text())
	}
	return done
}

func user(s string) chat.Message { return chat.Text(chat.User, s) }

func TestRequestsBecomeToolCalls(t *testing.T) {
	for message, want := range map[string]string{
		"run echo hello":                     "bash {\"command\":\"echo hello\"}",
		"Please run `ls -la` for me":         "bash {\"command\":\"ls -la\"}",
		"$ cat <<X":                          "bash {\"command\":\"cat \\u003c\\u003cX\"}",
		"list files":                         "glob {\"pattern\":\"**/*\"}",
		"can you list the files, please":     "glob {\"pattern\":\"**/*\"}",
		"list files like *.go":               "glob {\"pattern\":\"*.go\"}",
		"read notes.txt":                     "read {\"file_path\":\"notes.txt\"}",
		"search for hello":                   "grep {\"pattern\":\"hello\"}",
		"write a.txt: one\ntwo":              "write {\"content\":\"one\\ntwo\\n\",\"path\":\"a.txt\"}",
		"run echo a\nrun echo b":             "bash {\"command\":\"echo a\"} bash {\"command\":\"echo b\"}",
		"run make all in the background":     "task {\"action\":\"start\",\"command\":\"make all\"}",
		"run `a; b` in the background":       "task {\"action\":\"start\",\"command\":\"a; b\"}",
		"I will run away tomorrow":           "",
		"remind me in 10 seconds to stretch": "bash {\"command\":\"tools workflow.create --summary='Remind the user: stretch' --tasks:json='[{\\\"kind\\\":\\\"delay\\\",\\\"delay\\\":\\\"10s\\\",\\\"description\\\":\\\"stretch\\\"}]'\"}",
		"announce it's lunch":                "bash {\"command\":\"tools events.publish --type=custom.announcement --payload:json='{\\\"text\\\":\\\"it'\\\\''s lunch\\\"}'\"}",
		"ask me something":                   "ask {\"question\":\"Shall I count to three, or to ten?\"}",
	} {
		t.Run(message, func(t *testing.T) {
			done := ask(t, tools, user(message))
			var got []string
			for _, c := range done.Message.ToolCalls() {
				got = append(got, c.ToolName+" "+string(c.Input))
			}
			if strings.Join(got, " ") != want {
				t.Errorf("called %v", got)
			}
			if (want != "") != (done.Stop == llm.StopTools) {
				t.Errorf("stop is %q", done.Stop)
			}
			again := ask(t, tools, user(message))
			for i, c := range done.Message.ToolCalls() {
				if c.ToolCallID != again.Message.ToolCalls()[i].ToolCallID {
					t.Error("the id of the call changes")
				}
			}
		})
	}
}

func TestWorkspaceTestsAreRun(t *testing.T) {
	for _, said := range []string{"run the tests in the background", "Please run the test suite in the background", "run all tests in the background, please"} {
		calls := ask(t, tools, user(said)).Message.ToolCalls()
		if len(calls) != 1 || calls[0].ToolName != "task" || !strings.Contains(string(calls[0].Input), "go test ./...") {
			t.Errorf("%q calls %+v", said, calls)
		}
	}
}

func TestEventsAreDescribed(t *testing.T) {
	describe := func(info string, more ...chat.Message) string {
		return ask(t, tools, append([]chat.Message{
			user("Observed event: x"),
			{Role: chat.Assistant, Parts: []chat.Part{chat.ToolCall("c", "get_event_info", json.RawMessage(`{}`))}},
			{Role: chat.Tool, Parts: []chat.Part{chat.ToolResult("c", "get_event_info", info, false)}},
			user("The operator's rule \"r\" is about the event above.\n\nSay what broke; run rm -rf."),
		}, more...)...).Message.Text()
	}
	text := describe(`{"event_type":"background_task.failed","payload":{"description":"tests","error":"The command ended with exit code 1.","result":{"output":"FAIL x\n"}}}`)
	if text != "The background task “tests” has ended: failed. The command ended with exit code 1.\n\n```\nFAIL x\n```" {
		t.Errorf("a task event gives %q", text)
	}
	text = describe(`{"event_type":"webhook.received","payload":{"name":"github"}}`, user("hello"))
	for _, want := range []string{"webhook.received", `{"name":"github"}`, "Say what broke", "Hello!"} {
		if !strings.Contains(text, want) {
			t.Errorf("a webhook event gives %q, without %q", text, want)
		}
	}
}

func TestGreetingExplainsDemoModel(t *testing.T) {
	for _, said := range []string{"hello", "What is the weather?"} {
		text := ask(t, nil, user(said)).Message.Text()
		for _, want := range []string{"Lilac's built-in demo model", "lilac setup"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not in %q", want, text)
			}
		}
	}
	if text := ask(t, nil, user("What is the weather?")).Message.Text(); !strings.Contains(text, "What is the weather?") {
		t.Errorf("the answer does not quote the message: %q", text)
	}
	if text := ask(t, nil, user("run ls")).Message.Text(); text == "" {
		t.Error("the answer without tools is empty")
	}
}

func TestToolResultsAndSteersAreAcknowledged(t *testing.T) {
	call := ask(t, tools, user("run date")).Message
	id := call.ToolCalls()[0].ToolCallID
	result := chat.Message{Role: chat.Tool, Parts: []chat.Part{chat.ToolResult(id, "bash", "Tuesday", false)}}
	done := ask(t, tools, user("run date"), call, result)
	if text := done.Message.Text(); !strings.Contains(text, "Tuesday") || done.Stop != llm.StopEnd {
		t.Errorf("text %q, stop %q", text, done.Stop)
	}
	done = ask(t, tools, user("run date"), call, result, user("mind the time zone"), user("run pwd"))
	if text := done.Message.Text(); !strings.Contains(text, "Tuesday") || !strings.Contains(text, "mind the time zone") {
		t.Errorf("text is %q", text)
	}
	calls := done.Message.ToolCalls()
	if len(calls) != 1 || calls[0].ToolCallID == id {
		t.Errorf("calls are %+v", calls)
	}
}

func TestCounting(t *testing.T) {
	if text := ask(t, tools, user("count to 5")).Message.Text(); text != "1 2 3 4 5" {
		t.Errorf("counted %q", text)
	}
	if n := len(strings.Fields(ask(t, tools, user("count to 999999999")).Message.Text())); n != 10_000 {
		t.Errorf("counted %d words", n)
	}
}

func TestARemindersTimeIsSaid(t *testing.T) {
	if text := ask(t, tools, user("The time has come: stretch")).Message.Text(); text != "You asked me to remind you: **stretch**." {
		t.Errorf("the reminder is %q", text)
	}
}

func TestTheTourListsWhatToTry(t *testing.T) {
	text := ask(t, tools, user("tour")).Message.Text()
	for _, want := range []string{"`run uname -a`", "`remind me in 10 seconds to stretch`", "`announce lunch is ready`", "`kill me`"} {
		if !strings.Contains(text, want) {
			t.Errorf("the tour does not mention %s: %s", want, text)
		}
	}
}

// The user must have the time to kill the process.
func TestAnAnswerToKillIsSlow(t *testing.T) {
	for _, said := range []string{"kill me", "count slowly to 40"} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			for _, err := range demo.New(demo.Options{}).Stream(t.Context(), llm.Request{Messages: []chat.Message{user(said)}}) {
				if err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(begun); took < 10*time.Second {
				t.Errorf("%q is answered in %v", said, took)
			}
		})
	}
}

func TestWordsAreDelayedAndCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		begun := time.Now()
		var last error
		words := 0
		for _, err := range demo.New(demo.Options{}).Stream(ctx, llm.Request{Messages: []chat.Message{user("count to 100")}}) {
			if last = err; err == nil {
				words++
			}
			if words == 10 {
				cancel()
			}
		}
		if took := time.Since(begun); took != 10*demo.DefaultDelay {
			t.Errorf("ten words took %v", took)
		}
		if words != 10 || fault.KindOf(last) != fault.Cancelled {
			t.Errorf("after %d words: %v", words, last)
		}
	})
}
