package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"lilac/internal/e2e"
	"lilac/internal/event"
	"lilac/internal/llmtest"
)

// Messages that arrive at random moments of runs, with kills between them, are
// all in the history afterwards, once each, and every request that was made of
// them has ended.
func TestSteersAreNeitherLostNorDoubled(t *testing.T) {
	model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		return llmtest.Script{Text: llmtest.Words(fmt.Sprintf("I have seen %d messages so far.", len(r.Messages))), Delay: 5 * time.Millisecond}
	})
	s := e2e.Start(t, modelEnv(model.URL)...)
	random := rand.New(rand.NewPCG(1, 2))
	sessions := []string{s.NewSession(), s.NewSession(), s.NewSession()}
	queues := []event.Queue{event.Steer, event.FollowUp, event.Interrupt, event.Steer, event.Prompt}
	total := many(60, 1000)
	for i := range total {
		session := sessions[i%len(sessions)]
		queue := queues[random.IntN(len(queues))]
		content := fmt.Sprintf("message %d of the test", i)
		e2e.Eventually(t, answerWithin, content+" is accepted", func() bool {
			_, code := s.TryPrompt(session, content, queue, content)
			return code == 200
		})
		if i%20 == 19 {
			s.Kill()
			s.Restart()
		}
	}
	for n, session := range sessions {
		e2e.Eventually(t, 2*answerWithin, "the session is idle with all its messages", func() bool {
			var info struct{ State string }
			s.Request("GET", "/sessions/"+session, nil, &info)
			return info.State == "idle" && countUsers(s.Messages(session)) >= (total-n+len(sessions)-1)/len(sessions)
		})
		seen := map[string]int{}
		for _, m := range s.Messages(session) {
			if m.Role == "user" {
				seen[m.Text()]++
			}
		}
		for i := n; i < total; i += len(sessions) {
			if got := seen[fmt.Sprintf("message %d of the test", i)]; got != 1 {
				t.Errorf("message %d stands %d times in the history", i, got)
			}
		}
	}
	applied := map[string]int{}
	for _, e := range s.Topic("evt.request") {
		if p, err := event.Decode(e); err == nil {
			if m, ok := p.(event.MessageApplied); ok {
				applied[m.MessageID]++
			}
		}
	}
	if len(applied) != total {
		t.Errorf("%d messages were applied, want %d", len(applied), total)
	}
	for id, n := range applied {
		if n != 1 {
			t.Errorf("message %s was applied %d times", id, n)
		}
	}
}

func countUsers(messages []e2e.Said) int {
	n := 0
	for _, m := range messages {
		if m.Role == "user" {
			n++
		}
	}
	return n
}

// A steer goes into the request that runs, before its next model call.
func TestSteerReachesTheRunningRequest(t *testing.T) {
	model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		last := r.Messages[len(r.Messages)-1]
		switch {
		case len(last.Results) == 0 && strings.Contains(r.Last(), "begin"):
			return llmtest.Script{Calls: []llmtest.Call{{ID: "w", Name: "bash", Input: `{"command":"sleep 2"}`}}}
		case strings.Contains(r.Last(), "turn left"):
			return llmtest.Say("I turn left.")
		}
		return llmtest.Say("I go straight on.")
	})
	s := e2e.Start(t, modelEnv(model.URL)...)
	if !canRunCommands() {
		needs(t, "bubblewrap (apt-get install bubblewrap)")
	}
	session := s.NewSession()
	first := s.Prompt(session, "begin", event.Prompt)
	e2e.Eventually(t, 10*time.Second, "the tool runs", func() bool {
		for _, e := range s.Story(first.RequestID).Entries {
			if e.Kind == "tool_start" {
				return true
			}
		}
		return false
	})
	steer := s.Prompt(session, "turn left", event.Steer)
	if steer.RequestID != first.RequestID {
		t.Errorf("the steer went to %s, want %s", steer.RequestID, first.RequestID)
	}
	s.WaitEnded(first.RequestID, answerWithin)
	text, wrong := e2e.OutputText(t, s.Output(first.RequestID))
	if !strings.Contains(text, "I turn left.") || len(wrong) > 0 {
		t.Errorf("the answer is %q: %q", text, wrong)
	}
}
