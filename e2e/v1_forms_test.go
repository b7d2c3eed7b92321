package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

// Chat programs ask for titles, tags, and suggestions in calls of their own. With the model for that, such a
// call begins no conversation, also if it names one, and the model gets no tools.
func TestACallOfThePlainModelOfV1BeginsNoConversation(t *testing.T) {
	t.Parallel()
	s, m := startV1(t)
	const plain = `{"model":"lilac-plain","messages":[{"role":"system","content":"Name chats."},{"role":"user","content":"Title: birds"}]%s}`
	named := []string{"Lilac-Session", "birds"}
	got, raw := v1(t, t.Context(), s, "chat/completions", fmt.Sprintf(plain, ""), named...)
	if err := llmtest.ValidateAnswer("CreateChatCompletionResponse", raw); err != nil || textIn(t, raw) != "You said Title: birds" || got.Header.Get("Lilac-Session") != "" {
		t.Errorf("%v: %d %s", err, got.StatusCode, raw)
	}
	if sent := string(m.last().Body); strings.Contains(sent, `"tools"`) || !strings.Contains(sent, `"content":"Name chats."`) {
		t.Errorf("the model got %s", sent)
	}
	if _, raw := v1(t, t.Context(), s, "chat/completions", fmt.Sprintf(plain, `,"stream":true`), named...); !strings.Contains(string(raw), "You said Title: birds") {
		t.Errorf("the stream is %s", raw)
	}
	if _, raw := v1(t, t.Context(), s, "responses", `{"model":"lilac-plain","input":"Title: birds"}`, named...); !strings.Contains(string(raw), "You said Title: birds") {
		t.Errorf("the response is %s", raw)
	}
	if n := conversations(s); n != 0 {
		t.Errorf("there are %d conversations", n)
	}
	if n := s.Count(`SELECT count(*) FROM usage_calls WHERE purpose = 'program'`); n != 3 {
		t.Errorf("%d calls are counted, want 3", n)
	}
	v1(t, t.Context(), s, "chat/completions", chatBody("hello", ""), named...)
	if n := conversations(s); n != 1 {
		t.Errorf("control: with the agent, there are %d conversations", n)
	}
}

// The limits of a conversation do not add up the calls of a program, but those of the day do.
func TestThePlainModelOfV1ObeysTheLimitsOfTheDay(t *testing.T) {
	t.Parallel()
	model := llmtest.New(t, func(llmtest.Request) llmtest.Script { return llmtest.Say("Birds") })
	s := e2e.New(t, append(modelEnv(model.URL), e2e.Configured(t, `{v1: {tokens: {ide: {token: `+v1Key+`}}}, limits: {session: {steps: 1}, day: {steps: 2}}}`)...)...)
	s.Restart()
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		if got, raw := v1(t, t.Context(), s, "chat/completions", `{"model":"lilac-plain","messages":[{"role":"user","content":"Title: birds"}]}`); got.StatusCode != want {
			t.Errorf("call %d: %d %s", i+1, got.StatusCode, raw)
		}
	}
}

// A client that asks for JSON gets JSON alone: the fake model writes a sentence before the schema.
func TestAClientOfV1ThatAsksForJSONGetsJSON(t *testing.T) {
	t.Parallel()
	s, _ := startV1(t)
	const schema = `{"type":"object","title":"Person"}`
	quoted, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	inStream := strings.Trim(string(quoted), `"`)
	chat := `,"response_format":{"type":"json_schema","json_schema":{"name":"person","schema":` + schema + `}}`
	response := `{"model":"lilac","input":"who","text":{"format":{"type":"json_schema","name":"person","schema":` + schema + `}}%s}`
	_, raw := v1(t, t.Context(), s, "chat/completions", chatBody("who", chat))
	if got := textIn(t, raw); got != schema {
		t.Errorf("the answer is %q", got)
	}
	_, raw = v1(t, t.Context(), s, "responses", fmt.Sprintf(response, ""))
	if err := llmtest.ValidateAnswer("Response", raw); err != nil || !strings.Contains(string(raw), `"output_text":"`+inStream+`"`) {
		t.Errorf("%v: the response is %s", err, raw)
	}
	for path, body := range map[string]string{"chat/completions": chatBody("who", chat+`,"stream":true`), "responses": fmt.Sprintf(response, `,"stream":true`)} {
		if _, raw := v1(t, t.Context(), s, path, body); !strings.Contains(string(raw), inStream) || strings.Contains(string(raw), "You said") {
			t.Errorf("%s: the stream is %s", path, raw)
		}
	}
	// The fake model gives no JSON here. The client gets what there is.
	_, raw = v1(t, t.Context(), s, "chat/completions", chatBody("who", `,"response_format":{"type":"json_object"}`))
	if got := textIn(t, raw); !strings.HasPrefix(got, "You said who") {
		t.Errorf("the answer is %q", got)
	}
}

// A client that lost its connection reads its response later.
func TestAResponseOfV1CanBeReadAgain(t *testing.T) {
	t.Parallel()
	s, m := startV1(t)
	read := func(id string, header ...string) (status int, state, text string) {
		t.Helper()
		got, raw := v1(t, t.Context(), s, "responses/"+id, "", header...)
		var out struct {
			Status string
			Text   string `json:"output_text"`
		}
		if err := json.Unmarshal(raw, &out); err != nil {
			t.Fatal(err)
		}
		if got.StatusCode == http.StatusOK {
			if err := llmtest.ValidateAnswer("Response", raw); err != nil {
				t.Error(err)
			}
		}
		return got.StatusCode, out.Status, out.Text
	}
	done := make(chan string)
	go func() {
		defer close(done)
		_, raw := v1(t, t.Context(), s, "responses", `{"model":"lilac","input":"wait"}`, "Idempotency-Key", "k")
		var out struct{ ID string }
		if err := json.Unmarshal(raw, &out); err != nil {
			t.Error(err)
		}
		done <- out.ID
	}()
	e2e.Eventually(t, answerWithin, "the model is asked", func() bool { return m.count("wait") == 1 })
	row := s.Rows(`SELECT session_id, id FROM requests`)[0]
	session, message := row[0], row[1][strings.LastIndexByte(row[1], ':')+1:]
	running := "resp_" + session + "_" + message
	if status, state, _ := read(running); status != http.StatusOK || state != "in_progress" {
		t.Errorf("a running response: %d %s", status, state)
	}
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		v1(t, ctx, s, "responses", `{"model":"lilac","input":"next"}`, "Lilac-Session", session)
	}()
	e2e.Eventually(t, answerWithin, "the next call is queued", func() bool { return len(s.Rows(`SELECT id FROM requests`)) == 2 })
	leave()
	<-left
	queued := s.Rows(`SELECT id FROM requests WHERE state = 'queued'`)[0][0]
	if status, state, _ := read("resp_" + session + "_" + queued[strings.LastIndexByte(queued, ':')+1:]); status != http.StatusOK || state != "in_progress" {
		t.Errorf("a queued response: %d %s", status, state)
	}
	close(m.holds)
	id := <-done
	if id != running {
		t.Fatalf("the response is %s, want %s", id, running)
	}
	s.Kill()
	s.Restart()
	if status, state, text := read(id); status != http.StatusOK || state != "completed" || text != "You said wait" {
		t.Errorf("a response after a kill: %d %s %q", status, state, text)
	}
	for _, unknown := range []string{"x", "resp_x_y", "resp_" + session + "_x"} {
		if status, _, _ := read(unknown); status != http.StatusNotFound {
			t.Errorf("%s: %d", unknown, status)
		}
	}
	if status, _, _ := read(id, "Authorization", "Bearer "+v1OtherKey); status != http.StatusNotFound {
		t.Errorf("a response of another program: %d", status)
	}
}
