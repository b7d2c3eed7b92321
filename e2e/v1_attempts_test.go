package e2e_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"lilac/internal/testkit/e2e"
)

// conversations returns how many conversations the programs of /v1 have.
func conversations(s *e2e.Server) int {
	return s.Count(`SELECT count(*) FROM sessions WHERE client = 'v1-ide'`)
}

// sayWait sends "wait", and checks the answer.
func sayWait(t *testing.T, s *e2e.Server, header ...string) {
	t.Helper()
	if got, raw := v1(t, t.Context(), s, "chat/completions", chatBody("wait", ""), header...); got.StatusCode != http.StatusOK || textIn(t, raw) != "You said wait" {
		t.Errorf("%d %s", got.StatusCode, raw)
	}
}

// post sends a call to a server that may be killed meanwhile.
func post(t *testing.T, s *e2e.Server, path, body string, header http.Header) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.Addr+"/v1/"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if header != nil {
		r.Header = header.Clone()
	}
	r.Header.Set("Authorization", "Bearer "+v1Key)
	return http.DefaultClient.Do(r)
}

// loseAnswer sends "wait", and kills Lilac while the model works on it.
func loseAnswer(t *testing.T, s *e2e.Server, m *v1Model, header http.Header) {
	t.Helper()
	failed := make(chan struct{})
	go func() {
		defer close(failed)
		if got, err := post(t, s, "chat/completions", chatBody("wait", ""), header); err == nil {
			t.Errorf("the call got status %d although Lilac was killed", got.StatusCode)
			_ = got.Body.Close()
		}
	}()
	e2e.Eventually(t, answerWithin, "the model is asked", func() bool { return m.count("wait") > 0 })
	s.Kill()
	<-failed
	s.Restart()
	close(m.holds)
}

// OpenAI's libraries repeat a failed call without a key, and count their attempts.
func TestACountedAttemptOfV1RunsOnce(t *testing.T) {
	t.Parallel()
	const count = "X-Stainless-Retry-Count"
	s, m := startV1(t)
	loseAnswer(t, s, m, http.Header{count: {"0"}})
	for _, step := range []struct {
		what, attempt string
		want          int
	}{
		{"a repetition", "1", 1},
		{"a repetition after its answer was delivered, which must be of a call that never arrived", "1", 2},
		{"a first attempt with the same words", "0", 3},
	} {
		sayWait(t, s, count, step.attempt)
		if got := conversations(s); got != step.want {
			t.Errorf("after %s, there are %d conversations, want %d", step.what, got, step.want)
		}
	}
}

// opencode and Crush repeat a failed call by themselves. They name their conversation, but count no
// attempts; Crush uses OpenAI's library, but counts 0 each time.
func TestARepeatedCallOfV1InANamedChatRunsOnce(t *testing.T) {
	t.Parallel()
	for name, count := range map[string][]string{"opencode": nil, "Crush": {"X-Stainless-Retry-Count", "0"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, m := startV1(t)
			chat := func(id string) []string { return append([]string{"X-Session-Id", id}, count...) }
			header := http.Header{"X-Session-Id": {"ses_1"}}
			if count != nil {
				header.Set(count[0], count[1])
			}
			loseAnswer(t, s, m, header)
			for _, step := range []struct {
				what, chat string
				want       int
			}{
				{"the same words in another chat", "ses_2", 2},
				{"a repetition", "ses_1", 2},
				{"the same words after the answer was delivered", "ses_1", 3},
			} {
				sayWait(t, s, chat(step.chat)...)
				if got := conversations(s); got != step.want {
					t.Errorf("after %s, there are %d conversations, want %d", step.what, got, step.want)
				}
			}
		})
	}
}

// LangChain, LlamaIndex, the AI SDK of Vercel, and most scripts repeat a failed call as it was, without a mark.
func TestARepeatedCallOfV1WithoutAMarkRunsOnce(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*testing.T, *e2e.Server, *v1Model){
		"Lilac is killed": func(t *testing.T, s *e2e.Server, m *v1Model) { loseAnswer(t, s, m, nil) },
		"Lilac is stopped": func(t *testing.T, s *e2e.Server, m *v1Model) {
			refused := make(chan struct{})
			go func() {
				defer close(refused)
				if got, raw := v1(t, t.Context(), s, "chat/completions", chatBody("wait", "")); got.StatusCode != http.StatusServiceUnavailable {
					t.Errorf("%d %s", got.StatusCode, raw)
				}
			}()
			e2e.Eventually(t, answerWithin, "the model is asked", func() bool { return m.count("wait") > 0 })
			s.Terminate(answerWithin)
			<-refused
			s.Restart()
			close(m.holds)
		},
		"the connection breaks": func(t *testing.T, s *e2e.Server, m *v1Model) {
			ctx, cancel := context.WithCancel(t.Context())
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				v1(t, ctx, s, "chat/completions", chatBody("wait", ""))
			}()
			e2e.Eventually(t, answerWithin, "the model is asked", func() bool { return m.count("wait") > 0 })
			size := func() int { return s.Count(`SELECT length(value) FROM inbox WHERE source = 'v1-open'`) }
			open := size()
			cancel()
			<-gone
			e2e.Eventually(t, answerWithin, "the loss is noticed", func() bool { return size() > open })
			close(m.holds)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, m := startV1(t)
			lose(t, s, m)
			for _, step := range []struct {
				what   string
				header []string
				want   int
			}{
				{"the same words in another conversation", []string{"Lilac-Session", "other"}, 2},
				{"a repetition", nil, 2},
				{"the same words after the answer was delivered", nil, 3},
			} {
				sayWait(t, s, step.header...)
				if got := conversations(s); got != step.want {
					t.Errorf("after %s, there are %d conversations, want %d", step.what, got, step.want)
				}
			}
		})
	}
}

// The end of a stream says whether its answer was delivered.
func TestAStreamOfV1ThatBreaksIsRepeated(t *testing.T) {
	t.Parallel()
	const body = `{"model":"lilac","input":"wait","stream":true}`
	s, m := startV1(t)
	got, err := post(t, s, "responses", body, nil)
	if err != nil {
		t.Fatal(err)
	}
	e2e.Eventually(t, answerWithin, "the model is asked", func() bool { return m.count("wait") > 0 })
	s.Kill()
	if begun, err := io.ReadAll(got.Body); err == nil || !strings.Contains(string(begun), "response.created") {
		t.Errorf("the stream ended with %q, %v", begun, err)
	}
	_ = got.Body.Close()
	s.Restart()
	close(m.holds)
	for i, what := range []string{"a repetition", "the same words after the end of the stream"} {
		if got, raw := v1(t, t.Context(), s, "responses", body); got.StatusCode != http.StatusOK || !strings.Contains(string(raw), "response.completed") {
			t.Errorf("%d %s", got.StatusCode, raw)
		}
		if got := conversations(s); got != i+1 {
			t.Errorf("after %s, there are %d conversations, want %d", what, got, i+1)
		}
	}
}

// A batch of equal calls has as many answers, also if all of them are repeated after a crash.
func TestEqualCallsOfV1AtOnceAreCallsOfTheirOwn(t *testing.T) {
	t.Parallel()
	const n = 3
	s, m := startV1(t)
	ask := func(status int) (done func()) {
		var calls sync.WaitGroup
		for range n {
			calls.Go(func() {
				got, err := post(t, s, "chat/completions", chatBody("wait", ""), nil)
				if err == nil {
					defer got.Body.Close()
				}
				if (err == nil) != (status != 0) || err == nil && got.StatusCode != status {
					t.Errorf("a call ended with %v, %v", got, err)
				}
			})
		}
		return calls.Wait
	}
	ended := ask(0)
	e2e.Eventually(t, answerWithin, "all calls are accepted", func() bool { return conversations(s) == n })
	s.Kill()
	ended()
	s.Restart()
	ended = ask(http.StatusOK)
	close(m.holds)
	ended()
	if got := conversations(s); got != n {
		t.Errorf("there are %d conversations, want %d", got, n)
	}
}

// The libraries themselves repeat the call while Lilac starts again.
func TestUnmodifiedClientsOfV1SurviveAKillOfLilac(t *testing.T) {
	t.Parallel()
	needV1Clients(t)
	for name, script := range map[string]string{
		"OpenAI": `import OpenAI from 'openai';
const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY, maxRetries: 9 });
const answer = await client.chat.completions.create({ model: 'lilac', messages: [{ role: 'user', content: 'wait' }] });
process.stdout.write(answer.choices[0].message.content);
`,
		"LangChain": `import { ChatOpenAI } from '@langchain/openai';
const model = new ChatOpenAI({ model: 'lilac', apiKey: process.env.API_KEY, configuration: { baseURL: process.env.BASE_URL } });
process.stdout.write((await model.invoke('wait')).content);
`,
		"the AI SDK, chat": `import { createOpenAI } from '@ai-sdk/openai';
import { generateText } from 'ai';
const provider = createOpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY });
process.stdout.write((await generateText({ model: provider.chat('lilac'), prompt: 'wait', maxRetries: 4 })).text);
`,
		"the AI SDK, responses": `import { createOpenAI } from '@ai-sdk/openai';
import { generateText } from 'ai';
const provider = createOpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY });
process.stdout.write((await generateText({ model: provider('lilac'), prompt: 'wait', maxRetries: 4 })).text);
`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, m := startV1(t)
			cmd, answer := v1Program(t, s, script), strings.Builder{}
			cmd.Stdout = &answer
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			e2e.Eventually(t, answerWithin, "the model is asked", func() bool { return m.count("wait") > 0 })
			s.Kill()
			close(m.holds)
			s.Restart()
			if err := cmd.Wait(); err != nil || answer.String() != "You said wait" {
				t.Errorf("the client got %q, %v", answer.String(), err)
			}
			if n := conversations(s); n != 1 {
				t.Errorf("the call ran in %d conversations", n)
			}
			if raw, err := v1Program(t, s, script).Output(); err != nil || string(raw) != "You said wait" {
				t.Errorf("the client got %q, %v", raw, err)
			}
			if n := conversations(s); n != 2 {
				t.Errorf("with a new call of the same words, there are %d conversations", n)
			}
		})
	}
}
