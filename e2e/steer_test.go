package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

// Messages arrive at random moments of runs, with kills in between. In the end, each message is in
// the history once, and every request has ended.
func TestSteersAreNeitherLostNorDoubled(t *testing.T) {
	messages := 20
	if effort.Full() {
		messages = many(60, 1000)
	}
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		for _, wrong := range steerAndKill(t, bus, messages, protected{}) {
			t.Error(wrong)
		}
	})
}

func TestControlSteersAreDoubledWithoutTheirKeys(t *testing.T) {
	effort.SkipDetail(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		noticed(t, steerAndKill(t, bus, 40, protected{noKey: true}), "stands 2 times")
	})
}

func TestControlSteersAreLostWithAMailboxInMemory(t *testing.T) {
	effort.SkipDetail(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		noticed(t, steerAndKill(t, bus, 40, protected{env: "LILAC_WITHOUT=mailbox"}), "stands 0 times")
	})
}

// steerAndKill sends messages to three busy sessions and ends the process at times, each time in a
// different way. It returns the problems in the sessions at the end.
func steerAndKill(t *testing.T, bus e2e.Engine, total int, without protected) (wrong []string) {
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	// A control needs data that can be lost, so nothing is answered before the kill.
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	defer release()
	if without.env == "" {
		release()
	}
	model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		<-held
		return llmtest.Script{Text: llmtest.Words(fmt.Sprintf("I have seen %d messages so far.", len(r.Messages))), Delay: 5 * time.Millisecond}
	})
	s := e2e.Start(t, slices.Concat(bus(t), modelEnv(model.URL), []string{without.env})...)
	random := rand.New(rand.NewPCG(1, 2))
	sessions := []string{s.NewSession(), s.NewSession(), s.NewSession()}
	queues := []event.Queue{event.Steer, event.FollowUp, event.Interrupt, event.Steer, event.Prompt}
	// How the next process ends: by a kill when it has accepted a message but not responded; by a
	// kill when a message is queued in a mailbox, maybe before the process is ready; or from
	// outside.
	ends := []string{"LILAC_KILL_AT=" + accepted, "LILAC_KILL_AT=waiting", "LILAC_KILL_AT="}
	for i := range total {
		session, key := sessions[i%len(sessions)], fmt.Sprintf("key %d", i)
		queue, content := queues[random.IntN(len(queues))], message(i)
		e2e.Eventually(t, answerWithin, content+" is accepted", func() bool {
			if s.WaitExit(0) {
				s.Restart()
			}
			if without.noKey {
				key += "+"
			}
			_, code := s.TryPrompt(session, content, queue, key)
			return code == http.StatusOK
		})
		if i%10 == 9 {
			if without.env != "" && i == 9 {
				e2e.Eventually(t, answerWithin, "all of them are in mailboxes", func() bool {
					return s.Count("SELECT count(*) FROM session_inbox") > i
				})
			}
			s.Kill()
			release()
			s.Spawn(ends[i/10%len(ends)])
		}
	}
	s.Kill()
	s.Restart()
	// A request that the kills met again and again on its trial waits for at most three minutes.
	within := 5 * time.Minute
	if without.env != "" {
		within = 5 * time.Second // lost messages do not arrive later
	}
	seen := map[string]int{}
	e2e.Poll(within, func() bool {
		clear(seen)
		idle := true
		for _, session := range sessions {
			var info struct{ State string }
			s.Request("GET", "/sessions/"+session, nil, &info)
			idle = idle && info.State == "idle"
			for _, m := range s.Messages(session) {
				if m.Role == "user" {
					seen[session+" "+m.Text()]++
				}
			}
		}
		return idle && len(seen) >= total
	})
	for i := range total {
		if got := seen[sessions[i%len(sessions)]+" "+message(i)]; got != 1 {
			add("%s stands %d times in the history", message(i), got)
		}
	}
	applied := map[string]int{}
	e2e.Poll(within, func() bool {
		clear(applied)
		for _, e := range s.Topic("evt.request") {
			if p, err := event.Decode(e); err == nil {
				if m, ok := p.(event.MessageApplied); ok {
					applied[m.MessageID]++
				}
			}
		}
		return len(applied) >= total
	})
	if len(applied) != total {
		add("%d messages were applied, want %d", len(applied), total)
	}
	for id, n := range applied {
		if n != 1 {
			add("message %s was applied %d times", id, n)
		}
	}
	return wrong
}

func message(i int) string { return fmt.Sprintf("message %d of the test", i) }

// A steer joins the running request before its next model call.
func TestSteerReachesTheRunningRequest(t *testing.T) {
	needsCommands(t)
	e2e.OnEach(t, steersTheRunningRequest)
}

func steersTheRunningRequest(t *testing.T, bus e2e.Engine) {
	model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		last := r.Messages[len(r.Messages)-1]
		switch {
		case len(last.Results) == 0 && strings.Contains(r.LastText(), "begin"):
			return llmtest.Script{Calls: []llmtest.Call{{ID: "w", Name: "bash", Input: `{"command":"while [ ! -e go ]; do sleep 0.05; done"}`}}}
		case strings.Contains(r.LastText(), "turn left"):
			return llmtest.Say("I turn left.")
		}
		return llmtest.Say("I go straight on.")
	})
	s := e2e.Start(t, append(bus(t), modelEnv(model.URL)...)...)
	session := s.NewSession()
	first := s.Prompt(session, "begin", event.Prompt)
	e2e.Eventually(t, answerWithin, "the tool runs", func() bool {
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
	waitTaken(t, s, first.RequestID, steer.MessageID) // the tool is still running
	if err := os.WriteFile(filepath.Join(s.Workspace(session), "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.WaitEnded(first.RequestID, answerWithin)
	text, wrong := e2e.OutputText(t, s.WholeOutput(first.RequestID, answerWithin))
	if !strings.Contains(text, "I turn left.") || len(wrong) > 0 {
		t.Errorf("the answer is %q: %q", text, wrong)
	}
}
