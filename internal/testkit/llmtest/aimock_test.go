package llmtest_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

// aimockVersion is the version of the npm package that .ci/run installs.
const aimockVersion = "1.43.0"

// aimockFixtures are the answers of aimock, by what was said last.
const aimockFixtures = `{"fixtures":[
 {"match":{"toolCallId":"call_two_b"},"response":{"content":"Both say ok."}},
 {"match":{"userMessage":"read two"},"response":{"content":"Reading.","reasoning":"let me see","toolCalls":[
  {"id":"call_two_a","name":"read","arguments":"{\"path\":\"a ‘b’ 😀\"}"},{"id":"call_two_b","name":"read","arguments":"{\"path\":\"c\",\"deep\":{\"list\":[1,{\"x\":\"}\"}]}}"}]}},
 {"match":{"userMessage":"hello"},"response":{"content":"Hi wörld 😀, how are you?","reasoning":"They greet me.",
  "usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,"input_tokens":100,"output_tokens":20}}},
 {"match":{"userMessage":"look"},"response":{"content":"A picture."}},
 {"match":{"userMessage":"limit"},"response":{"error":{"message":"Slow down.","type":"rate_limit_error"},"status":429}},
 {"match":{"userMessage":"long"},"response":{"error":{"message":"prompt is too long: 213462 tokens > 200000 maximum","type":"invalid_request_error"},"status":400}}
]}`

// startAimock starts aimock, a fake provider that nobody of this project wrote, and returns
// its address.
func startAimock(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("LILAC_TEST_AIMOCK")
	node, err := exec.LookPath("node")
	if dir == "" || err != nil {
		how := "needs Node.js 20 and aimock: run npm install --prefix /tmp/aimock @copilotkit/aimock@" + aimockVersion + ", and set LILAC_TEST_AIMOCK to /tmp/aimock/node_modules/@copilotkit/aimock"
		if os.Getenv("CI") == "true" {
			t.Fatal(how)
		}
		t.Skip(how)
	}
	fixtures := filepath.Join(t.TempDir(), "fixtures.json")
	if err := os.WriteFile(fixtures, []byte(aimockFixtures), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, filepath.Join(dir, "dist", "cli.js"), "--port", "0", "--fixtures", fixtures, "--strict", "--chunk-size", "3", "--validate-on-load")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var said []string
	address := ""
	for address == "" && lines.Scan() {
		said = append(said, lines.Text())
		if _, after, ok := strings.Cut(lines.Text(), "listening on "); ok {
			address = strings.TrimSpace(after)
		}
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(io.Discard, out) // its log
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait() // it was killed
	})
	if address == "" {
		t.Fatalf("aimock says no address: %s", strings.Join(said, "\n"))
	}
	return address
}

// Each adapter has the same conversation with aimock as with the fake of this project.
func TestConversationWithAimock(t *testing.T) {
	address := startAimock(t)
	forEachAdapter(t, func(t *testing.T, name string, b build) {
		client := &http.Client{Transport: &http.Transport{}}
		t.Cleanup(client.CloseIdleConnections)
		m := b(address, client, llm.Retry{Max: -1}, time.Minute)
		conversation := []chat.Message{}
		turn := func(next ...chat.Message) result {
			t.Helper()
			conversation = append(conversation, next...)
			h := collect(t.Context(), m, llm.Request{System: "Be brief.", Messages: conversation, Session: "s", Tools: []llm.ToolSpec{{
				Name: "read", Description: "Reads.", Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`),
			}}})
			if h.err != nil {
				t.Fatal(h.err)
			}
			conversation = append(conversation, h.done.Message)
			return h
		}
		h := turn(chat.Text(chat.User, "hello"))
		if h.text != "Hi wörld 😀, how are you?" || h.reasoning != "They greet me." || h.done.Stop != llm.StopEnd || h.chunks < 5 {
			t.Errorf("heard %q, thinking %q, stop %q, in %d chunks", h.text, h.reasoning, h.done.Stop, h.chunks)
		}
		if u := h.done.Usage; u.InputTokens != 100 || u.OutputTokens != 20 {
			t.Errorf("usage is %+v", u)
		}
		h = turn(chat.Text(chat.User, "read two"))
		var inputs []string
		results := chat.Message{Role: chat.Tool}
		for _, c := range h.done.Message.ToolCalls() {
			inputs = append(inputs, c.ToolName+" "+string(c.Input))
			results.Parts = append(results.Parts, chat.ToolResult(c.ToolCallID, c.ToolName, "ok", false))
		}
		want := []string{`read {"path":"a ‘b’ 😀"}`, `read {"path":"c","deep":{"list":[1,{"x":"}"}]}}`}
		if !slices.Equal(inputs, want) || h.text != "Reading." || h.done.Stop != llm.StopTools {
			t.Errorf("heard %q and the calls %q, stop %q", h.text, inputs, h.done.Stop)
		}
		if h = turn(results); h.text != "Both say ok." {
			t.Errorf("heard %q after the results", h.text)
		}
		image := chat.Part{Type: chat.TypeImage, Data: json.RawMessage(`"iVBORw0KGgo="`)}
		if h = turn(chat.Message{Role: chat.User, Parts: []chat.Part{chat.TextPart("look"), image}}); h.text != "A picture." {
			t.Errorf("heard %q about a picture", h.text)
		}
		for say, want := range map[string]struct {
			kind fault.Kind
			code string
		}{"limit": {fault.RateLimited, ""}, "long": {fault.Invalid, llm.CodeContextLength}} {
			h := collect(t.Context(), m, llm.Request{Messages: []chat.Message{chat.Text(chat.User, say)}})
			if f := fault.ToWire(h.err); h.err == nil || fault.KindOf(h.err) != want.kind || f.Code != want.code {
				t.Errorf("%s: %v", say, h.err)
			}
		}
	})
}
