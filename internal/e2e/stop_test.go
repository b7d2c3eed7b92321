package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"lilac/internal/e2e"
	"lilac/internal/event"
	"lilac/internal/llmtest"
)

// slowModel says the numbers up to n, one each delay.
func slowModel(t testing.TB, n int, delay time.Duration) *llmtest.Server {
	return llmtest.New(t, func(llmtest.Request) llmtest.Script {
		return llmtest.Script{Text: llmtest.Words(numbers(n)), Delay: delay}
	})
}

func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d ", i+1)
	}
	return strings.TrimSpace(b.String())
}

// startMany begins a request in each of n sessions and waits until all stream.
func startMany(t *testing.T, s *e2e.Server, n int) []e2e.Accepted {
	t.Helper()
	var all []e2e.Accepted
	for range n {
		all = append(all, s.Prompt(s.NewSession(), "count", event.Prompt))
	}
	for _, a := range all {
		e2e.Eventually(t, 20*time.Second, a.RequestID+" streams", func() bool {
			return len(s.Output(a.RequestID)) > 0
		})
	}
	return all
}

func checkAllAnswered(t *testing.T, s *e2e.Server, all []e2e.Accepted, want string) {
	t.Helper()
	for _, a := range all {
		if info := s.WaitEnded(a.RequestID, 60*time.Second); info.State != string(event.StateDone) {
			t.Errorf("%s ended as %s (%s)", a.RequestID, info.State, info.Detail)
		}
		text, wrong := e2e.OutputText(t, s.Output(a.RequestID))
		if text != want || len(wrong) > 0 {
			t.Errorf("%s answered %q: %q", a.RequestID, text, wrong)
		}
	}
}

func many(short, long int) int {
	if os.Getenv("LILAC_LONG") != "" {
		return long
	}
	return short
}

// A server that is told to stop does so in time, whatever streams, and each
// answer is finished, once, by the next one.
func TestGracefulStopLosesNoAnswer(t *testing.T) {
	const words = 60
	model := slowModel(t, words, 20*time.Millisecond)
	s := e2e.Start(t, modelEnv(model.URL)...)
	all := startMany(t, s, many(20, 100))
	if took := s.Terminate(20 * time.Second); took > 10*time.Second {
		t.Errorf("the stop took %s", took)
	}
	s.Restart()
	checkAllAnswered(t, s, all, numbers(words))
	for _, a := range all {
		if n := s.Story(a.RequestID).Recoveries; n > 1 {
			t.Errorf("%s was taken up %d times", a.RequestID, n)
		}
	}
}

// After kill -9 with many running requests all of them go on soon.
func TestRunningRequestsGoOnAfterKill(t *testing.T) {
	const words = 40
	model := slowModel(t, words, 50*time.Millisecond)
	s := e2e.Start(t, modelEnv(model.URL)...)
	all := startMany(t, s, many(20, 100))
	s.Kill()
	before := model.Count()
	start := time.Now()
	s.Restart()
	e2e.Eventually(t, 30*time.Second, "every request has called its model again", func() bool {
		return model.Count() >= before+len(all)
	})
	took := time.Since(start)
	t.Logf("%d requests went on %s after the start", len(all), took)
	if limit := 5 * 2 * time.Second; took > limit {
		t.Errorf("they went on after %s, want at most %s", took, limit)
	}
	checkAllAnswered(t, s, all, numbers(words))
}

// A cancel ends a tool and everything it started.
func TestCancelStopsTheToolsProcesses(t *testing.T) {
	if !canRunCommands() {
		needs(t, "bubblewrap (apt-get install bubblewrap)")
	}
	mark := fmt.Sprintf("6%d", time.Now().UnixNano()%1e8)
	model := llmtest.New(t, func(llmtest.Request) llmtest.Script {
		return llmtest.Script{Calls: []llmtest.Call{{ID: "c", Name: "bash", Input: `{"command":"sleep ` + mark + ` & sleep ` + mark + `"}`}}}
	})
	s := e2e.Start(t, modelEnv(model.URL)...)
	session := s.NewSession()
	a := s.Prompt(session, "wait", event.Prompt)
	e2e.Eventually(t, 20*time.Second, "the tool's processes run", func() bool { return len(processes(t, "sleep "+mark)) >= 2 })
	start := time.Now()
	s.Cancel(session)
	info := s.WaitEnded(a.RequestID, 10*time.Second)
	e2e.Eventually(t, 10*time.Second, "the tool's processes are gone", func() bool { return len(processes(t, "sleep "+mark)) == 0 })
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("stopping took %s", took)
	}
	if info.State != string(event.StateCancelled) {
		t.Errorf("the request ended as %s", info.State)
	}
}

// processes lists the ids of processes whose command line is exactly line.
func processes(t *testing.T, line string) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Skip("there is no /proc here: run this test on Linux")
	}
	var found []string
	for _, e := range entries {
		data, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err == nil && strings.TrimSpace(strings.ReplaceAll(string(data), "\x00", " ")) == line {
			found = append(found, e.Name())
		}
	}
	return found
}

func canRunCommands() bool {
	_, err := exec.LookPath("bwrap")
	return err == nil
}

// needs skips a test that lacks a program, except in CI, which must have it.
func needs(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("this test needs %s", what)
	}
	t.Skipf("this test needs %s", what)
}
