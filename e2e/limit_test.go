package e2e_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

// A model that calls tools endlessly is stopped at its limit. The question to the user survives a
// kill and costs nothing until it is answered.
func TestALimitAsksAndAKillInThePauseLosesNothing(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		// Hold the model until the question was answered twice, so that it does not reach the next
		// limit.
		answered := make(chan struct{})
		goOn := sync.OnceFunc(func() { close(answered) })
		defer goOn()
		s, calls := looping(t, bus, "limits: {request: {steps: 3}}\n", func(call int64) {
			if call > 3 {
				<-answered
			}
		})
		session := s.NewSession()
		a := s.Prompt(session, "go", event.Prompt)
		waits := func() (number int, question string) {
			var out struct {
				Paused struct {
					Number   int
					Question string
				}
			}
			s.Request("GET", "/sessions/"+session, nil, &out)
			return out.Paused.Number, out.Paused.Question
		}
		e2e.Eventually(t, answerWithin, "the request asks", func() bool { n, _ := waits(); return n == 1 })
		s.Kill()
		s.Restart()
		if n, question := waits(); n != 1 || !strings.Contains(question, "3 steps") || calls.Load() != 3 {
			t.Errorf("after the kill: pause %d, %q, %d calls", n, question, calls.Load())
		}
		for range 2 {
			code := s.Request("POST", "/requests/"+a.RequestID+"/continue", nil, nil)
			if code != http.StatusOK && code != http.StatusConflict {
				t.Errorf("the answer was answered %d", code)
			}
		}
		goOn()
		e2e.Eventually(t, answerWithin, "the request asks again", func() bool { n, _ := waits(); return n == 2 })
		if calls.Load() != 6 {
			t.Errorf("%d calls after two answers to one question, want 6", calls.Load())
		}
		s.Prompt(session, "stop", event.Prompt)
		if end := s.WaitEnded(a.RequestID, answerWithin); end.State != "cancelled" || end.Steps != 6 {
			t.Errorf("ended as %s after %d steps: %s", end.State, end.Steps, end.Detail)
		}
	})
}

func TestControlWithoutALimitAModelLoops(t *testing.T) {
	effort.SkipDetail(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		s, calls := looping(t, bus, "limits: {request: {steps: 0}}\n", func(int64) {})
		session := s.NewSession()
		a := s.Prompt(session, "go", event.Prompt)
		e2e.Eventually(t, answerWithin, "the model is called 20 times", func() bool { return calls.Load() >= 20 })
		s.Cancel(session)
		s.WaitEnded(a.RequestID, answerWithin)
	})
}

// looping starts a server whose model never finishes. It calls before at each model call.
func looping(t *testing.T, bus e2e.Engine, config string, before func(call int64)) (*e2e.Server, *atomic.Int64) {
	t.Helper()
	var calls atomic.Int64
	model := llmtest.New(t, func(llmtest.Request) llmtest.Script {
		before(calls.Add(1))
		return llmtest.Script{Calls: []llmtest.Call{{ID: "call", Name: "glob", Input: `{"pattern":"*"}`}}}
	})
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return e2e.Start(t, append(append(bus(t), modelEnv(model.URL)...), "LILAC_CONFIG="+file)...), &calls
}
