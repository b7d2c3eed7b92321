package e2e_test

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

// A rule that triggers itself indirectly comes to an end: the workflows and sub-agents of a
// request count as part of the rule's work.
func TestAChainOfEventsEndsAlsoByWayOfOthers(t *testing.T) {
	effort.SkipDetail(t)
	needsCommands(t)
	t.Parallel()
	const (
		publish = `tools events.publish --type=custom.again`
		wait    = `tools workflow.create --summary=again --tasks:json='[{"kind":"delay","description":"x","delay":"1s"}]'`
	)
	for name, way := range map[string]struct{ woken, then string }{
		"a workflow that waits for a moment":                  {wait, publish},
		"workflows that wait for a moment, each for the next": {wait, wait},
		"a workflow that waits for an event":                  {`tools workflow.create --summary=again --tasks:json='[{"kind":"wait_for_event","description":"x","types":["custom.step"]}]'; tools events.publish --type=custom.step`, publish},
		"a sub-agent":                                         {`tools task.start --prompt="do it"`, publish},
		"a workflow that wakes itself":                        {`tools workflow.create --summary=again --tasks:json='[{"kind":"wait_for_event","description":"x","types":["custom.step"]}]'; tools events.publish --type=custom.step`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
				// Collect all messages since the model's last answer: the rule's prompt may come
				// with a tool result and with the end of a background task.
				var text string
				results := 0
				for _, m := range slices.Backward(r.Messages) {
					if m.Role == "assistant" && !slices.Contains(m.Calls, "get_event_info") { // get_event_info calls are made by Lilac to deliver an event, not by the model
						break
					}
					text += m.Text + "\n"
					results += len(m.Results)
				}
				command := way.woken
				if !strings.Contains(text, "The rule") {
					if results > 0 || strings.Contains(text, `rule "background_task"`) {
						return llmtest.Say("Done.")
					}
					command = cmp.Or(way.then, way.woken)
				}
				return llmtest.Script{Calls: []llmtest.Call{{ID: "call-1", Name: "bash", Input: `{"command":` + strconv.Quote(command) + `}`}}}
			})
			s := e2e.Start(t, slices.Concat(modelEnv(model.URL), e2e.Configured(t, `
rules:
  again:
    when: {type: custom.again}
    do: {agent: {prompt: "The rule."}}
    session: title:ops
  step:
    when: {type: custom.step}
    do: {drop: true}
`))...)
			session := firstInChain(t, s)
			e2e.Eventually(t, 2*answerWithin, "the chain ends", func() bool {
				return strings.Contains(s.Log(), "a chain of events ends here") || wasAsked(model, "a chain of 8 events that caused each other")
			})
			e2e.Eventually(t, answerWithin, "what runs is over", func() bool {
				var info struct{ State string }
				s.Request("GET", "/sessions/"+session, nil, &info)
				return info.State == "idle"
			})
			events := len(envEvents(s, event.Type("custom.again"))) + len(envEvents(s, event.Type("custom.step")))
			if events > 2*(event.MaxDepth+1) {
				t.Errorf("%d events caused each other", events)
			}
			t.Logf("%d events, %d calls of the model", events, model.Count())
		})
	}
}

// firstInChain publishes the first event of a chain, in a new session.
func firstInChain(t *testing.T, s *e2e.Server) (session string) {
	t.Helper()
	session = named(t, s, "ops")
	if code := s.Request("POST", "/events", map[string]any{"id": "first", "type": "custom.again", "metadata": map[string]any{"trigger_session_id": session}}, nil); code != 200 {
		t.Fatalf("the event was answered %d", code)
	}
	return session
}

// A rule's budget also covers the later work of its workflows, even if the program was killed in
// between.
func TestABudgetHoldsForWhatWorkflowsDoAfterAKill(t *testing.T) {
	effort.SkipDetail(t)
	needsCommands(t)
	t.Parallel()
	model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		script := llmtest.Say("Done.")
		if last := r.Messages[len(r.Messages)-1]; len(last.Results) == 0 {
			delay := "3s"
			if r.N == 1 {
				delay = "15s" // the kill comes first, on a busy machine too
			}
			wait := `tools workflow.create --summary=again --tasks:json='[{"kind":"delay","description":"x","delay":"` + delay + `"}]'`
			script = llmtest.Script{Calls: []llmtest.Call{{ID: "call-1", Name: "bash", Input: `{"command":` + strconv.Quote(wait) + `}`}}}
		}
		script.Usage = llmtest.Usage{Input: 90, Output: 10}
		return script
	})
	s := e2e.Start(t, slices.Concat(modelEnv(model.URL), e2e.Configured(t, `
rules:
  again:
    when: {type: custom.again}
    do: {agent: {prompt: "The rule."}}
    session: title:ops
    budget: {tokens: 450}
`))...)
	session := firstInChain(t, s)
	s.WaitEnded("env:"+session+":first", answerWithin)
	s.Kill()
	s.Restart()
	// Two calls for the rule, two for the first workflow, and one for the second, which creates a
	// third workflow before it is stopped.
	e2e.Eventually(t, 2*answerWithin, "the third workflow is over", func() bool { return strings.Contains(s.Log(), "cannot wake the agent for a workflow") })
	if n := model.Count(); n != 5 {
		t.Errorf("the model was called %d times", n)
	}
}
