package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

// twoModels returns the environment of a server with the models openai/first and
// anthropic/second.
func twoModels(first, second *llmtest.Server) []string {
	return []string{
		"OPENAI_BASE_URL=" + first.URL + "/v1", "OPENAI_API_KEY=first-key", "ANTHROPIC_BASE_URL=" + second.URL, "ANTHROPIC_API_KEY=second-key",
		"LILAC_MODEL=openai/first, anthropic/second",
	}
}

func always(script llmtest.Script) func(llmtest.Request) llmtest.Script {
	return func(llmtest.Request) llmtest.Script { return script }
}

type modelRecord struct {
	Model   string      `json:"model"`
	Entries []e2e.Entry `json:"entries"`
}

func recordOf(s *e2e.Server, requestID string) (r modelRecord) {
	s.Request("GET", "/requests/"+requestID, nil, &r)
	return r
}

func TestAnotherModelTakesOverAndTheAnswerSaysSo(t *testing.T) {
	t.Parallel()
	first := llmtest.New(t, always(llmtest.Script{Status: 503, ErrorType: "server_error", ErrorMessage: "The fake is on fire."}))
	second := llmtest.New(t, always(llmtest.Say("I am the second.")))
	d := e2e.NewDiscord(t, discordtest.Options{})
	s := e2e.Start(t, slices.Concat(twoModels(first, second), d.Env())...)
	e2e.Eventually(t, answerWithin, "the bot is connected", func() bool { return d.Connected() > 0 })

	asked := d.MentionUs(d.General, d.Ada, "hello")
	d.Shown(d.General, "the second model answers, and a line below says why", func(m discordtest.Message) bool {
		return strings.Contains(m.Content, "I am the second.") && strings.Contains(m.Content, "anthropic/second continued for openai/first") && strings.Contains(m.Content, "on fire")
	})
	id := e2e.RequestID(d.General, asked)
	s.WaitEnded(id, answerWithin)
	r := recordOf(s, id)
	switched := slices.IndexFunc(r.Entries, func(e e2e.Entry) bool {
		return e.Kind == "model_switched" && strings.Contains(string(e.Data), "on fire")
	})
	if r.Model != "anthropic/second" || switched < 0 || first.Count() != 1 {
		t.Errorf("the record has the model %s, %d entries (switch at %d), and the first model was called %d times", r.Model, len(r.Entries), switched, first.Count())
	}
}

// A provider that asks to wait an hour is not called before, also by the next process.
func TestADemandedWaitOutlivesAKill(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	first := llmtest.New(t, always(llmtest.Script{Status: 429, RetryAfter: "3600", ErrorType: "rate_limit_error", ErrorMessage: "Come back later."}))
	second := llmtest.New(t, always(llmtest.Say("I am the second.")))
	s := e2e.Start(t, twoModels(first, second)...)
	for range 2 {
		accepted := s.Prompt(s.NewSession(), "hello", event.Prompt)
		if story := s.WaitEnded(accepted.RequestID, answerWithin); story.State != string(event.StateDone) || first.Count() != 1 {
			t.Errorf("the request ended as %s: %s; the first model was called %d times", story.State, story.Detail, first.Count())
		}
		s.Kill()
		s.Restart()
	}
	// Control: without the row, the next process asks again.
	s.Exec("DELETE FROM learned WHERE id LIKE 'breaker/%'")
	s.Kill()
	s.Restart()
	s.WaitEnded(s.Prompt(s.NewSession(), "hello", event.Prompt).RequestID, answerWithin)
	if first.Count() != 2 {
		t.Errorf("without what was kept, the first model was called %d times, want 2", first.Count())
	}
}

// A provider with several keys is asked with the next one while one is refused or limited. A key
// that is refused with a demand to wait is not used before; without another key, the request ends.
func TestTheNextKeyTakesOver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		keys   string
		want   []string // the keys of the calls for two prompts
		ends   event.RequestState
	}{
		"a refused key":        {401, "[bad-key, good-key]", []string{"bad-key", "good-key", "good-key"}, event.StateDone},
		"a limited key":        {429, "[bad-key, good-key]", []string{"bad-key", "good-key", "good-key"}, event.StateDone},
		"control: one bad key": {401, "[bad-key]", []string{"bad-key"}, event.StateFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
				if r.Header.Get("Authorization") == "Bearer bad-key" {
					return llmtest.Script{Status: c.status, RetryAfter: "3600", ErrorType: "invalid_request_error", ErrorMessage: "Not with this key."}
				}
				return llmtest.Say("Hello.")
			})
			s := e2e.Start(t, e2e.Configured(t, fmt.Sprintf("model: host/m\nproviders: {host: {type: openai, baseURL: %q, apiKeys: %s}}\n", model.URL+"/v1", c.keys))...)
			for range 2 {
				if story := s.WaitEnded(s.Prompt(s.NewSession(), "hello", event.Prompt).RequestID, answerWithin); story.State != string(c.ends) {
					t.Errorf("the request ended as %s: %s", story.State, story.Detail)
				}
			}
			var got []string
			for _, r := range model.Requests() {
				got = append(got, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("the calls had the keys %q, want %q", got, c.want)
			}
		})
	}
}

func TestIfEveryModelFailsPeopleSeeWhyEachDid(t *testing.T) {
	t.Parallel()
	first := llmtest.New(t, always(llmtest.Script{Status: 402, ErrorType: "insufficient_quota", ErrorMessage: "No money."}))
	second := llmtest.New(t, always(llmtest.Script{Status: 401, ErrorType: "authentication_error", ErrorMessage: "Bad key."}))
	s := e2e.Start(t, twoModels(first, second)...)
	accepted := s.Prompt(s.NewSession(), "hello", event.Prompt)
	story := s.WaitEnded(accepted.RequestID, answerWithin)
	if story.State != string(event.StateFailed) || !strings.Contains(story.Detail, "openai/first") || !strings.Contains(story.Detail, "No money") ||
		!strings.Contains(story.Detail, "anthropic/second") || !strings.Contains(story.Detail, "ANTHROPIC_API_KEY") {
		t.Errorf("the request ended as %s: %s", story.State, story.Detail)
	}
}

func TestTheModelIsChosenWhereYouTalk(t *testing.T) {
	t.Parallel()
	first, second := llmtest.New(t, always(llmtest.Say("I am the first."))), llmtest.New(t, always(llmtest.Say("I am the second.")))
	d := e2e.NewDiscord(t, discordtest.Options{})
	s := e2e.Start(t, slices.Concat(twoModels(first, second), d.Env())...)
	e2e.Eventually(t, answerWithin, "the bot is connected", func() bool { return d.Connected() > 0 })

	if text := d.Answered(d.Slash(d.General, d.Ada.ID, "model", nil)); !strings.Contains(text, "The model here is `openai/first`") || !strings.Contains(text, "`anthropic/second`") {
		t.Errorf("/model says %q", text)
	}
	for typed, want := range map[string][]string{"": {"openai/first", "anthropic/second", "default"}, "SEC": {"anthropic/second"}, "zebra": nil} {
		id := d.Complete(d.General, d.Ada.ID, "model", "name", typed)
		d.AwaitInteraction(t, id)
		if got := d.Interaction(id).Choices; !slices.Equal(got, want) {
			t.Errorf("while %q is typed, %q are suggested", typed, got)
		}
	}
	if text := d.Answered(d.Slash(d.General, d.Ada.ID, "model", map[string]string{"name": "gpt-9"})); !strings.Contains(text, "no single model") {
		t.Errorf("/model with an unknown name says %q", text)
	}
	if text := d.Answered(d.Slash(d.General, d.Ada.ID, "model", map[string]string{"name": "second"})); !strings.Contains(text, "`anthropic/second` answers here") {
		t.Errorf("/model with a name says %q", text)
	}
	asked := d.MentionUs(d.General, d.Ada, "who are you?")
	d.Shown(d.General, "the chosen model answers", e2e.Holds("I am the second."))
	id := e2e.RequestID(d.General, asked)
	s.WaitEnded(id, answerWithin)
	if r := recordOf(s, id); r.Model != "anthropic/second" {
		t.Errorf("the record has the model %q", r.Model)
	}
	if text := d.Answered(d.Slash(d.General, d.Ada.ID, "model", map[string]string{"name": "default"})); !strings.Contains(text, "configured model") {
		t.Errorf("/model with default says %q", text)
	}
	d.MentionUs(d.General, d.Ada, "and now?")
	d.Shown(d.General, "the configured model answers", e2e.Holds("I am the first."))
}

func TestTheModelOfAConversationIsChosenOverHTTP(t *testing.T) {
	t.Parallel()
	first, second := llmtest.New(t, always(llmtest.Say("I am the first."))), llmtest.New(t, always(llmtest.Say("I am the second.")))
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("channels:\n  web: {instructions: Speak like a pirate.}\n  terminal: {model: anthropic/second, effort: low}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := e2e.Start(t, append(twoModels(first, second), "LILAC_CONFIG="+file)...)
	var models struct {
		Default string
		Models  []struct{ Model string }
	}
	if code := s.Request("GET", "/models", nil, &models); code != http.StatusOK || models.Default != "openai/first" || len(models.Models) < 2 {
		t.Errorf("GET /models: %d %+v", code, models)
	}
	session := s.NewSession()
	ask := func(session string) string {
		accepted := s.Prompt(session, "who are you?", event.Prompt)
		s.WaitEnded(accepted.RequestID, answerWithin)
		return recordOf(s, accepted.RequestID).Model
	}
	change := func(body map[string]any, want int) {
		t.Helper()
		if code := s.Request("PATCH", "/sessions/"+session, body, nil); code != want {
			t.Errorf("PATCH %v: %d, want %d", body, code, want)
		}
	}
	if model := ask(session); model != "openai/first" {
		t.Errorf("without a choice, %s answers", model)
	}
	if asked := first.Requests(); !strings.Contains(string(asked[len(asked)-1].Body), "Speak like a pirate.") {
		t.Error("the instructions of the channel are missing")
	}
	change(map[string]any{"model": "nobody/x"}, http.StatusBadRequest)
	change(map[string]any{"effort": "enormous"}, http.StatusBadRequest)
	change(map[string]any{}, http.StatusBadRequest)
	change(map[string]any{"model": "anthropic/second", "instructions": "Be brief."}, http.StatusOK)
	if model := ask(session); model != "anthropic/second" {
		t.Errorf("%s answers, want the chosen model", model)
	}
	if asked := second.Requests(); !strings.Contains(string(asked[len(asked)-1].Body), "Be brief.") {
		t.Error("the instructions of the conversation are missing")
	}
	change(map[string]any{"model": ""}, http.StatusOK)
	if model := ask(session); model != "openai/first" {
		t.Errorf("%s answers, want the configured model again", model)
	}
	var terminal struct{ ID string }
	s.Request("POST", "/sessions", map[string]any{"client": "terminal"}, &terminal)
	if model := ask(terminal.ID); model != "anthropic/second" {
		t.Errorf("in the terminal, %s answers, want the model of the channel", model)
	}
}
