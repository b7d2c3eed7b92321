package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

const (
	v1Key      = "v1-test-key-0123456789"
	v1OtherKey = "v1-other-key-0123456789"
	v1Config   = `{v1: {tokens: {ide: {token: ` + v1Key + `}, other: {token: ` + v1OtherKey + `, ignoreTools: true}}, origins: ["https://chat.example"]}, channels: {reviews: {instructions: Review strictly.}}}`
)

// v1Model is a model that repeats the last text, and records what it is asked.
type v1Model struct {
	mu       sync.Mutex
	requests []llmtest.Request
	// holds, if set, is closed before it answers "wait".
	holds chan struct{}
}

func (m *v1Model) answer(r llmtest.Request) llmtest.Script {
	m.mu.Lock()
	m.requests = append(m.requests, r)
	m.mu.Unlock()
	text := r.LastText()
	if text == "wait" && m.holds != nil {
		<-m.holds
	}
	return llmtest.Say("You said " + text)
}

// count returns how often the model was asked with a last text.
func (m *v1Model) count(last string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.requests {
		if r.LastText() == last {
			n++
		}
	}
	return n
}

func (m *v1Model) last() llmtest.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.requests[len(m.requests)-1]
}

func startV1(t *testing.T) (*e2e.Server, *v1Model) {
	t.Helper()
	m := &v1Model{holds: make(chan struct{})}
	model := llmtest.New(t, m.answer)
	s := e2e.New(t, append(modelEnv(model.URL), e2e.Configured(t, v1Config)...)...)
	s.Restart()
	return s, m
}

// v1 sends a request and returns the response with its body.
func v1(t testing.TB, ctx context.Context, s *e2e.Server, path, body string, header ...string) (*http.Response, []byte) {
	t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+s.Addr+"/v1/"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+v1Key)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil
		}
		t.Fatal(err)
	}
	defer got.Body.Close()
	raw, err := io.ReadAll(got.Body)
	if err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	return got, raw
}

// chatBody is a chat completion with one message.
func chatBody(text, more string) string {
	return fmt.Sprintf(`{"model":"lilac","messages":[{"role":"user","content":%q}]%s}`, text, more)
}

func textIn(t testing.TB, raw []byte) string {
	t.Helper()
	var out struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.Unmarshal(raw, &out); err != nil || len(out.Choices) != 1 {
		t.Fatalf("not an answer: %v in %s", err, raw)
	}
	return out.Choices[0].Message.Content
}

// Every answer has the form of OpenAI's description of its API.
func TestTheAnswersOfV1HaveTheFormOfTheDescription(t *testing.T) {
	t.Parallel()
	s, _ := startV1(t)
	check := func(schema string, raw []byte) {
		t.Helper()
		if err := llmtest.ValidateAnswer(schema, raw); err != nil {
			t.Errorf("%s: %v", schema, err)
		}
	}
	events := func(raw []byte, schema string) (n int) {
		lines := bufio.NewScanner(bytes.NewReader(raw))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && data != "[DONE]" {
				check(schema, []byte(data))
				n++
			}
		}
		return n
	}
	_, raw := v1(t, t.Context(), s, "models", "")
	check("ListModelsResponse", raw)
	if !strings.Contains(string(raw), `"lilac/reviews"`) {
		t.Errorf("the models are %s", raw)
	}
	_, raw = v1(t, t.Context(), s, "models/lilac/reviews", "")
	check("Model", raw)
	_, raw = v1(t, t.Context(), s, "chat/completions", chatBody("hello", ""))
	check("CreateChatCompletionResponse", raw)
	if got := textIn(t, raw); got != "You said hello" {
		t.Errorf("the answer is %q", got)
	}
	_, raw = v1(t, t.Context(), s, "chat/completions", `{"model":"lilac","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]}]}`)
	if got := textIn(t, raw); !strings.Contains(got, "picture-1.png") {
		t.Errorf("the answer to a picture alone is %q", got)
	}
	_, raw = v1(t, t.Context(), s, "chat/completions", chatBody("hello", `,"stream":true,"stream_options":{"include_usage":true}`))
	if n := events(raw, "CreateChatCompletionStreamResponse"); n < 3 || !strings.HasSuffix(string(raw), "data: [DONE]\n\n") {
		t.Errorf("the stream has %d chunks: %s", n, raw)
	}
	_, raw = v1(t, t.Context(), s, "responses", `{"model":"lilac","input":"hello"}`)
	check("Response", raw)
	_, raw = v1(t, t.Context(), s, "responses", `{"model":"lilac","input":"hello","stream":true}`)
	if n := events(raw, "ResponseStreamEvent"); n < 8 {
		t.Errorf("the stream has %d events: %s", n, raw)
	}
	for body, want := range map[string]int{
		chatBody("x", `,"n":2`): http.StatusBadRequest,
		chatBody("x", `,"tools":[{"type":"function","function":{"name":"f"}}]`): http.StatusBadRequest,
		chatBody("x", `,"response_format":{"type":"grammar"}`):                  http.StatusBadRequest,
		chatBody(" ", ""): http.StatusBadRequest,
		`{"model":"gpt-none","messages":[{"role":"user","content":"x"}]}`:                                                               http.StatusNotFound,
		`{"model":"lilac","messages":[{"role":"tool","content":"x"}]}`:                                                                  http.StatusBadRequest,
		`{"model":"lilac","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://169.254.169.254/"}}]}]}`: http.StatusBadRequest,
		`{"model":"lilac",`: http.StatusBadRequest,
	} {
		got, raw := v1(t, t.Context(), s, "chat/completions", body)
		check("ErrorResponse", raw)
		if got.StatusCode != want {
			t.Errorf("%s: %d %s", body, got.StatusCode, raw)
		}
	}
	for _, key := range []string{"", "wrong-key", e2e.Token} {
		got, raw := v1(t, t.Context(), s, "models", "", "Authorization", "Bearer "+key)
		check("ErrorResponse", raw)
		if got.StatusCode != http.StatusUnauthorized {
			t.Errorf("with the key %q: %d", key, got.StatusCode)
		}
	}
	if got := s.Request("GET", "/sessions", nil, nil, "Authorization", "Bearer "+v1Key); got != http.StatusUnauthorized {
		t.Errorf("the key opens the rest of the API: %d", got)
	}
}

// A header, and the response before select a conversation; another program cannot reach it.
func TestACallOfV1SelectsItsConversation(t *testing.T) {
	t.Parallel()
	s, m := startV1(t)
	heard := func(text string) bool { return strings.Contains(string(m.last().Body), text) }
	first, _ := v1(t, t.Context(), s, "chat/completions", chatBody("the word is canary", ""), "Lilac-Session", "birds")
	session := first.Header.Get("Lilac-Session")
	v1(t, t.Context(), s, "chat/completions", chatBody("which word?", ""))
	if heard("canary") {
		t.Error("control: a call without a selector continues a conversation")
	}
	v1(t, t.Context(), s, "chat/completions", chatBody("which word?", ""), "Lilac-Session", "birds")
	if !heard("canary") {
		t.Error("a name does not select the conversation")
	}
	// LibreChat sends the ID of the person in all of the person's chats.
	const ann = `,"user":"ann","safety_identifier":"ann","prompt_cache_key":"ann"`
	v1(t, t.Context(), s, "chat/completions", chatBody("the word is thrush", ann))
	v1(t, t.Context(), s, "chat/completions", chatBody("which word?", ann))
	v1(t, t.Context(), s, "responses", `{"model":"lilac","input":"which word?"`+ann+`}`)
	if heard("thrush") {
		t.Error("two chats of one person are one conversation")
	}
	v1(t, t.Context(), s, "chat/completions", chatBody("which word?", ""), "Lilac-Session", session)
	if !heard("canary") {
		t.Error("the header does not select the conversation")
	}
	_, raw := v1(t, t.Context(), s, "responses", `{"model":"lilac/reviews","input":"the word is robin","instructions":"Whisper."}`)
	if !heard("Review strictly.") || !heard("Whisper.") {
		t.Error("the instructions are missing")
	}
	var response struct{ ID string }
	if err := json.Unmarshal(raw, &response); err != nil {
		t.Fatal(err)
	}
	v1(t, t.Context(), s, "responses", fmt.Sprintf(`{"model":"lilac","input":"which word?","previous_response_id":%q}`, response.ID))
	if !heard("robin") {
		t.Error("the response before does not select the conversation")
	}
	// Vercel's AI SDK names the messages of answers instead of repeating them.
	_, raw = v1(t, t.Context(), s, "responses", `{"model":"lilac","input":[{"role":"user","content":"the word is wren"}]}`)
	var answer struct{ Output []struct{ ID string } }
	if err := json.Unmarshal(raw, &answer); err != nil || len(answer.Output) != 1 {
		t.Fatalf("not a response: %v in %s", err, raw)
	}
	referring := fmt.Sprintf(`{"model":"lilac","input":[{"role":"user","content":"no bittern"},{"type":"reasoning","id":"rs_1","summary":[]},{"type":"item_reference","id":%q},{"role":"user","content":[{"type":"input_text","text":"which word?"}]}]}`, answer.Output[0].ID)
	v1(t, t.Context(), s, "responses", referring)
	if !heard("wren") || heard("bittern") {
		t.Error("a reference to an answer does not select its conversation")
	}
	if got, raw := v1(t, t.Context(), s, "responses", strings.Replace(referring, answer.Output[0].ID, "msg_1", 1)); got.StatusCode != http.StatusNotFound {
		t.Errorf("a reference to nothing: %d %s", got.StatusCode, raw)
	}
	// Another program, with its own key.
	other := []string{"Authorization", "Bearer " + v1OtherKey}
	if got, _ := v1(t, t.Context(), s, "responses", fmt.Sprintf(`{"model":"lilac","input":"x","previous_response_id":%q}`, response.ID), other...); got.StatusCode != http.StatusNotFound {
		t.Errorf("another program continues a response: %d", got.StatusCode)
	}
	if got, _ := v1(t, t.Context(), s, "responses", referring, other...); got.StatusCode != http.StatusNotFound {
		t.Errorf("another program refers to an answer: %d", got.StatusCode)
	}
	if got, _ := v1(t, t.Context(), s, "chat/completions", chatBody("x", ""), append(other, "Lilac-Session", session)...); got.StatusCode != http.StatusNotFound {
		t.Errorf("another program uses the header: %d", got.StatusCode)
	}
	v1(t, t.Context(), s, "chat/completions", chatBody("which word?", ""), append(other, "Lilac-Session", "birds")...)
	if heard("canary") {
		t.Error("another program reaches a conversation by its name")
	}
	// A client that repeats everything begins a new conversation with what was said before.
	v1(t, t.Context(), s, "chat/completions", `{"model":"lilac","messages":[{"role":"user","content":"the word is finch"},{"role":"assistant","content":"Noted."},{"role":"user","content":"which?"}]}`)
	if !heard("finch") {
		t.Error("what the client sent before is missing")
	}
}

// A key that is repeated never runs twice, also after a kill, and a client that goes away
// does not stop the work.
func TestARepeatedKeyOfV1RunsOnce(t *testing.T) {
	t.Parallel()
	s, m := startV1(t)
	key := []string{"Idempotency-Key", "k1"}
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		v1(t, ctx, s, "chat/completions", chatBody("wait", ""), key...)
	}()
	e2e.Eventually(t, answerWithin, "the model is asked", func() bool { return m.count("wait") == 1 })
	leave()
	<-left
	close(m.holds)
	first, raw := v1(t, t.Context(), s, "chat/completions", chatBody("wait", ""), key...)
	if got := textIn(t, raw); got != "You said wait" {
		t.Errorf("the answer is %q", got)
	}
	s.Kill()
	s.Restart()
	second, raw := v1(t, t.Context(), s, "chat/completions", chatBody("wait", ""), key...)
	if got := textIn(t, raw); got != "You said wait" || m.count("wait") != 1 || first.Header.Get("Lilac-Session") != second.Header.Get("Lilac-Session") {
		t.Errorf("after the kill, the answer is %q, and the model was asked %d times", got, m.count("wait"))
	}
	if got, raw := v1(t, t.Context(), s, "chat/completions", chatBody("something else", ""), key...); got.StatusCode != http.StatusConflict {
		t.Errorf("the key with another body: %d %s", got.StatusCode, raw)
	}
	// Control: without a key, the model is asked again.
	v1(t, t.Context(), s, "chat/completions", chatBody("wait", ""))
	if m.count("wait") != 2 {
		t.Errorf("control: the model was asked %d times", m.count("wait"))
	}
}

// v1ClientsEnv is a directory with the npm packages openai, ai, @ai-sdk/openai, and @langchain/openai.
const v1ClientsEnv = "LILAC_TEST_V1_CLIENTS"

// v1Program returns a program for Node.js that uses those packages. It writes its errors to the
// test's log.
func v1Program(t *testing.T, s *e2e.Server, script string) *exec.Cmd {
	t.Helper()
	modules, dir := os.Getenv(v1ClientsEnv), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "program.mjs"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(modules, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "node", "program.mjs")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "BASE_URL=http://"+s.Addr+"/v1", "API_KEY="+v1Key)
	cmd.Stderr = t.Output()
	return cmd
}

func needV1Clients(t *testing.T) {
	t.Helper()
	if os.Getenv(v1ClientsEnv) == "" {
		t.Skip("needs clients from npm: npm install --prefix DIR openai@7.57.0 ai@7.0.173 @ai-sdk/openai@4.0.118 @langchain/openai@1.5.8 @langchain/core@1.4.0; then set " + v1ClientsEnv + "=DIR")
	}
}

func TestUnmodifiedClientsOfOpenAITalkToLilac(t *testing.T) {
	t.Parallel()
	needV1Clients(t)
	s, _ := startV1(t)
	script, err := os.ReadFile("testdata/v1clients.mjs")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := v1Program(t, s, string(script)).Output()
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"usage", "streamUsage"} {
		if n, _ := got[name].(float64); n <= 0 {
			t.Errorf("%s is %v", name, got[name])
		}
		delete(got, name)
	}
	want := map[string]any{
		"models": []any{"lilac", "lilac/reviews", "lilac-plain"}, "chat": "You said one", "stream": "You said two", "response": "You said three", "retrieved": "You said three", "responseStream": "You said four",
		"json": `{"type":"object","title":"Person"}`, "chatJSON": `{"type":"object","title":"Person"}`,
		"events": []any{
			"response.created", "response.in_progress", "response.output_item.added", "response.content_part.added", "response.output_text.delta",
			"response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed",
		},
		"error": []any{404.0, "model_not_found", "NotFoundError"}, "ai": "You said five", "aiResponses": "You said six", "aiStream": "You said seven",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A program that always sends tools of its own gets an answer without them if the operator has said so,
// and the model learns that they are missing.
func TestToolsOfAProgramOfV1AreIgnoredIfTheOperatorSaysSo(t *testing.T) {
	t.Parallel()
	s, m := startV1(t)
	other := []string{"Authorization", "Bearer " + v1OtherKey}
	for path, body := range map[string]string{
		"chat/completions": chatBody("hello", `,"tools":[{"type":"function","function":{"name":"write_file"}}],"tool_choice":"auto"`),
		"responses":        `{"model":"lilac","input":"hello","tools":[{"type":"function","name":"write_file"}],"tool_choice":"auto"}`,
	} {
		if got, raw := v1(t, t.Context(), s, path, body); got.StatusCode != http.StatusBadRequest || !strings.Contains(string(raw), "v1.tokens.ide.ignoreTools") {
			t.Errorf("%s without the setting: %d %s", path, got.StatusCode, raw)
		}
		got, raw := v1(t, t.Context(), s, path, body, other...)
		if got.StatusCode != http.StatusOK || !strings.Contains(string(raw), "You said hello") {
			t.Errorf("%s: %d %s", path, got.StatusCode, raw)
		}
		if sent := string(m.last().Body); !strings.Contains(sent, "has tools of its own") || strings.Contains(sent, "write_file") {
			t.Errorf("%s: the model got %s", path, sent)
		}
	}
}

// A page of a listed site reads the answer, and so the error of a wrong key; one of another site is refused.
func TestAPageOfAListedSiteCallsV1(t *testing.T) {
	t.Parallel()
	s, _ := startV1(t)
	for _, c := range []struct {
		origin, key string
		status      int
		allow       string
	}{
		{"https://chat.example", v1Key, http.StatusOK, "https://chat.example"},
		{"https://chat.example", "wrong", http.StatusUnauthorized, "https://chat.example"},
		{"https://evil.example", v1Key, http.StatusForbidden, ""},
	} {
		got, raw := v1(t, t.Context(), s, "models", "", "Origin", c.origin, "Sec-Fetch-Site", "cross-site", "Authorization", "Bearer "+c.key)
		if allow := got.Header.Get("Access-Control-Allow-Origin"); got.StatusCode != c.status || allow != c.allow {
			t.Errorf("%s with the key %q: %d, allowed %q, %s", c.origin, c.key, got.StatusCode, allow, raw)
		}
	}
}

// A question of the agent ends an answer of /v1, and the next call answers it: its answer
// is the rest of the request. A program cannot approve a call.
func TestACallOfV1AnswersAQuestion(t *testing.T) {
	t.Parallel()
	model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		last := r.Messages[len(r.Messages)-1]
		for _, text := range last.Results {
			return llmtest.Say("It is " + text)
		}
		if strings.Contains(last.Text, "approve") {
			return llmtest.Script{Text: []string{"Reading. "}, Calls: []llmtest.Call{{ID: "c", Name: "read", Input: `{"path":"x"}`}}}
		}
		return llmtest.Script{Text: []string{"Let me ask. "}, Calls: []llmtest.Call{{ID: "c", Name: "ask", Input: `{"question":"Which color?"}`}}}
	})
	s := e2e.New(t, append(modelEnv(model.URL), e2e.Configured(t, `{v1: {tokens: {ide: {token: `+v1Key+`}}}, policy: [{tool: read, do: ask}]}`)...)...)
	s.Restart()
	_, raw := v1(t, t.Context(), s, "chat/completions", chatBody("paint", ""), "Lilac-Session", "ann")
	if got := textIn(t, raw); got != "Let me ask. \n\nWhich color?" {
		t.Errorf("the first answer is %q", got)
	}
	_, raw = v1(t, t.Context(), s, "chat/completions", chatBody("blue", ""), "Lilac-Session", "ann")
	if got := strings.TrimSpace(textIn(t, raw)); got != "It is blue" {
		t.Errorf("the second answer is %q", got)
	}
	_, raw = v1(t, t.Context(), s, "chat/completions", chatBody("approve", ""), "Lilac-Session", "bob")
	if got := textIn(t, raw); !strings.Contains(got, "May I call read?") {
		t.Errorf("the answer is %q", got)
	}
	for _, text := range []string{"once", "what?"} {
		if got, raw := v1(t, t.Context(), s, "chat/completions", chatBody(text, ""), "Lilac-Session", "bob"); got.StatusCode != http.StatusConflict {
			t.Errorf("a program approves a call with %q: %s", text, raw)
		}
	}
}
