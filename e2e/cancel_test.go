package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lilac/internal/agent/sandbox"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

// cancelWithin bounds the duration of a cancellation.
func cancelWithin() time.Duration { return effort.Within(time.Second) }

// A cancellation kills a tool and all processes that it started.
func TestCancelStopsTheToolsProcesses(t *testing.T) {
	needsCommands(t)
	e2e.OnEachAlone(t, func(t *testing.T, bus e2e.Engine) {
		for _, wrong := range cancelTool(t, bus, cancelWithin(), (*e2e.Server).Cancel, "") {
			t.Error(wrong)
		}
	})
}

func TestControlACancelThatKillsOneProcessIsNoticed(t *testing.T) {
	effort.SkipDetail(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		noticed(t, cancelTool(t, bus, time.Second, (*e2e.Server).Cancel, "LILAC_WITHOUT=group"), "processes are left")
	})
}

func TestControlWithoutACancelNothingStops(t *testing.T) {
	effort.SkipDetail(t)
	nothing := func(*e2e.Server, string) {}
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		noticed(t, cancelTool(t, bus, time.Second, nothing, "LILAC_WITHOUT=group"), "the request is running")
	})
}

// A request that was accepted but has not reached the runner yet can be canceled too, by its ID or
// as the next request of the session.
func TestACancelRightBehindAPromptStopsIt(t *testing.T) {
	effort.SkipDetail(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		s := e2e.Start(t, slices.Concat(bus(t), modelEnv(silent(t)))...)
		for i := range 20 {
			session := s.NewSession()
			a := s.Prompt(session, "wait", event.Prompt)
			cancelOne(t, s, session, a, i%2 == 0)
			stopped(t, s, a)
		}
	})
}

// silent returns the URL of a model that never answers.
func silent(t *testing.T) string {
	t.Helper()
	return llmtest.New(t, func(llmtest.Request) llmtest.Script { return llmtest.Script{Wait: time.Hour} }).URL
}

func cancelOne(t *testing.T, s *e2e.Server, session string, a e2e.Accepted, named bool) {
	t.Helper()
	body := map[string]any{}
	if named {
		body["requestId"] = a.RequestID
	}
	if code := s.Request("POST", "/sessions/"+session+"/cancel", body, nil); code != http.StatusOK {
		t.Errorf("cancel answered %d", code)
	}
}

func stopped(t *testing.T, s *e2e.Server, a e2e.Accepted) {
	t.Helper()
	if state := s.WaitEnded(a.RequestID, answerWithin).State; event.RequestState(state) != event.StateCancelled {
		t.Errorf("%s is %s after its cancel", a.RequestID, state)
	}
}

// cancelTool cancels a command that has started two processes. It returns the problems that remain
// after the timeout.
func cancelTool(t *testing.T, bus e2e.Engine, within time.Duration, cancel func(s *e2e.Server, session string), without string) (wrong []string) {
	t.Helper()
	// No other process uses this number of seconds, so the command line identifies the process.
	line := fmt.Sprintf("sleep 6%d", time.Now().UnixNano()%1e8)
	t.Cleanup(func() {
		for _, pid := range processes(t, line) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	model := llmtest.New(t, func(llmtest.Request) llmtest.Script {
		return llmtest.Script{Calls: []llmtest.Call{{ID: "c", Name: "bash", Input: `{"command":"` + line + ` & ` + line + `"}`}}}
	})
	s := e2e.Start(t, slices.Concat(bus(t), modelEnv(model.URL), []string{without})...)
	session := s.NewSession()
	a := s.Prompt(session, "wait", event.Prompt)
	e2e.Eventually(t, answerWithin, "the tool's processes run", func() bool { return len(processes(t, line)) >= 2 })
	cancel(s, session)
	var state event.RequestState
	var left []int
	e2e.Poll(within, func() bool {
		state, left = event.RequestState(s.Story(a.RequestID).State), processes(t, line)
		return state.Ended() && len(left) == 0
	})
	if state != event.StateCancelled {
		wrong = append(wrong, fmt.Sprintf("the request is %s %s after its cancel", state, within))
	}
	if len(left) > 0 {
		wrong = append(wrong, fmt.Sprintf("%d processes are left %s after the cancel", len(left), within))
	}
	return wrong
}

// processes lists the IDs of processes whose command line is exactly line.
func processes(t *testing.T, line string) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Skip("there is no /proc here: run this test on Linux")
	}
	var found []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		data, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err == nil && strings.TrimSpace(strings.ReplaceAll(string(data), "\x00", " ")) == line {
			found = append(found, pid)
		}
	}
	return found
}

// canRunCommands returns why this machine cannot run the agent's commands.
var canRunCommands = sync.OnceValue(func() error {
	_, err := sandbox.Open(context.Background(), sandbox.ModeAuto)
	return err
})

// needsCommands skips a test on a machine without a sandbox, like needs.
func needsCommands(t *testing.T) {
	t.Helper()
	if err := canRunCommands(); err != nil {
		needs(t, "a sandbox: "+err.Error())
	}
}

// needs skips a test whose required program is missing. In CI, it fails the test instead.
func needs(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("this test needs %s", what)
	}
	t.Skipf("this test needs %s", what)
}
