package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

// If a rule has used up its budget in a channel, one message there says so.
func TestPeopleOnDiscordReadOnceThatARuleStopped(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
			if strings.Contains(r.LastText(), "Say what broke.") {
				return llmtest.Say("The build broke.")
			}
			return llmtest.Say("Hello.")
		})
		s, d := onDiscord(t, bus, model.URL)
		d.Rules("ci: {when: {type: build.*}, do: {agent: {prompt: Say what broke.}}, budget: {runs: 1}}")
		d.MentionUs(d.General, d.Ada, "hello")
		d.Shown(d.General, "the channel has a conversation", e2e.Finished("Hello."))
		e2e.Eventually(t, answerWithin, "the rule is in force", func() bool {
			var out struct{ Rules []struct{ Name string } }
			s.Request("GET", "/rules", nil, &out)
			return len(out.Rules) > 0 && out.Rules[0].Name == "ci"
		})
		publish := func(from, n int) {
			for i := range n {
				e := map[string]any{"id": fmt.Sprint("e", from+i), "type": "build.failed", "metadata": map[string]any{"trigger_session_id": d.General}}
				if code := s.Request("POST", "/events", e, nil); code != http.StatusOK {
					t.Fatalf("the event was answered %d", code)
				}
			}
		}
		publish(0, 1)
		d.Shown(d.General, "the first event is handled", e2e.Finished("The build broke."))
		publish(1, 5)
		const stopped = "The rule ci has used up its budget for today in this conversation (1 of 1 runs)"
		d.Shown(d.General, "people are told", func(m discordtest.Message) bool {
			return strings.HasPrefix(m.Content, stopped) && len(m.Buttons) == 0
		})
		s.WaitEnded(s.Prompt(d.General, "and now?", "prompt").RequestID, answerWithin)
		told := 0
		for _, m := range d.Ours(d.General) {
			if strings.Contains(m.Content, stopped) {
				told++
			}
		}
		if told != 1 || model.Count() != 3 {
			t.Errorf("people were told %d times, the model was called %d times; want 1 and 3", told, model.Count())
		}
	})
}
