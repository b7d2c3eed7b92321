package e2e_test

import (
	"net/http"
	"strings"
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

// loseAnswer sends "wait", and kills Lilac while the model works on it.
func loseAnswer(t *testing.T, s *e2e.Server, m *v1Model, header http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.Addr+"/v1/chat/completions", strings.NewReader(chatBody("wait", "")))
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		r.Header = header.Clone()
	}
	r.Header.Set("Authorization", "Bearer "+v1Key)
	failed := make(chan struct{})
	go func() {
		defer close(failed)
		if got, err := http.DefaultClient.Do(r); err == nil {
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

// The control of the tests before.
func TestAnAttemptOfV1ThatIsNotCountedIsANewCall(t *testing.T) {
	t.Parallel()
	s, m := startV1(t)
	loseAnswer(t, s, m, nil)
	sayWait(t, s)
	if got := conversations(s); got != 2 {
		t.Errorf("there are %d conversations, want 2", got)
	}
}

// The library itself repeats the call while Lilac starts again.
func TestAnUnmodifiedClientOfOpenAISurvivesAKillOfLilac(t *testing.T) {
	t.Parallel()
	needV1Clients(t)
	s, m := startV1(t)
	const script = `import OpenAI from 'openai';
const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY, maxRetries: 9 });
const answer = await client.chat.completions.create({ model: 'lilac', messages: [{ role: 'user', content: 'wait' }] });
process.stdout.write(answer.choices[0].message.content);
`
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
}
