package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lilac/internal/core/environment"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

// opsAnswer is the model's answer to an event.
const opsAnswer = "The build is red because of a typo."

// opsModel starts a model that always answers with one sentence.
func opsModel(t testing.TB) *llmtest.Server {
	return llmtest.New(t, func(llmtest.Request) llmtest.Script { return llmtest.Script{Text: llmtest.Words(opsAnswer)} })
}

// ciFailed returns a rule like the one in the README. TestTheStoryOfTheReadme tests the original.
func ciFailed(session string) string {
	return `
webhooks:
  github: {secret: ` + e2e.HookSecret + `}
rules:
  ci-failed:
    when:
      type: webhook.received
      if: .payload.event == "workflow_run" and .payload.body.workflow_run.conclusion == "failure" and .payload.body.workflow_run.head_branch == "main"
    do: {agent: {prompt: "CI failed: {{ .payload.body.workflow_run.html_url }}. Say why."}}
    session: "` + session + `"
    rate: 1/10m
`
}

const failedRun = `{"action":"completed","workflow_run":{"conclusion":"failure","head_branch":"main","html_url":"https://github.example/run/1"}}`

// named creates a web conversation with a title.
func named(t *testing.T, s *e2e.Server, title string) string {
	t.Helper()
	id := s.NewSession()
	if code := s.Request("PATCH", "/sessions/"+id, map[string]string{"title": title}, nil); code >= 300 {
		t.Fatalf("the session was not named: %d", code)
	}
	return id
}

// said counts the model's answers and the events that it received in a session.
func said(s *e2e.Server, session string) (answers, observed int) {
	for _, m := range s.Messages(session) {
		switch {
		case m.Role == "assistant" && strings.Contains(m.Text(), opsAnswer):
			answers++
		case m.Role == "user" && strings.HasPrefix(m.Text(), "Observed event: "):
			observed++
		}
	}
	return answers, observed
}

// envEvents counts the events of a type in the log, by ID.
func envEvents(s *e2e.Server, typ event.Type) map[string]int {
	out := map[string]int{}
	for _, e := range s.Topic("env") {
		if e.Type == typ {
			out[e.ID]++
		}
	}
	return out
}

// source returns the counters of a source since the start.
func source(t *testing.T, s *e2e.Server, kind, name string) (counts environment.SourceCounts) {
	t.Helper()
	e2e.Eventually(t, answerWithin, "the source is listed", func() bool {
		var list struct{ Sources []environment.SourceCounts }
		s.Request("GET", "/sources", nil, &list)
		i := slices.IndexFunc(list.Sources, func(c environment.SourceCounts) bool { return c.Kind == kind && c.Name == name })
		if i >= 0 {
			counts = list.Sources[i]
		}
		return i >= 0
	})
	return counts
}

func TestAFileWakesTheAgent(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		dir := t.TempDir()
		s := e2e.New(t, slices.Concat(bus(t), modelEnv(opsModel(t).URL), e2e.Configured(t, `
files:
  inbox: {paths: ["`+dir+`/later/*.csv"], changes: [create], debounce: 100ms}
rules:
  new-file:
    when: {type: file.changed, if: .metadata.env_name == "inbox"}
    do: {agent: {prompt: "There is a new file, {{ .payload.path }}."}}
    session: title:ops
    rate: 1/10m
`))...)
		s.Restart()
		ops := named(t, s, "ops")
		if err := os.Mkdir(filepath.Join(dir, "later"), 0o700); err != nil {
			t.Fatal(err)
		}
		n := 0
		e2e.Eventually(t, answerWithin, "a file is seen", func() bool {
			n++ // files that existed when the watch started are not reported
			if err := os.WriteFile(filepath.Join(dir, "later", fmt.Sprint(n, ".csv")), []byte("a,b"), 0o600); err != nil {
				t.Fatal(err)
			}
			return e2e.Poll(2*time.Second, func() bool { return len(envEvents(s, event.FileChanged)) > 0 })
		})
		s.Kill()
		s.Restart()
		e2e.Eventually(t, answerWithin, "the agent has answered", func() bool { answers, _ := said(s, ops); return answers > 0 })
		if answers, observed := said(s, ops); answers != 1 || observed != 1 {
			t.Errorf("%d answers to %d events, want one", answers, observed)
		}
	})
}

// If a file was not stable when the process was killed, or was created while it was down, the next
// process reports it once. A source with "missed: skip" does not report it.
func TestFilesThatNobodySawAreToldAfterAKill(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		dir := t.TempDir()
		env := e2e.Configured(t, "")
		configure := func(debounce string) {
			text := fmt.Sprintf("files:\n  found: {paths: [%q], debounce: %s}\n  left: {paths: [%q], debounce: 100ms, missed: skip}\n", dir+"/*.csv", debounce, dir+"/*.csv")
			if err := os.WriteFile(strings.TrimPrefix(env[0], "LILAC_CONFIG="), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write := func(name string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("a,b"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		configure("1h")
		s := e2e.New(t, slices.Concat(bus(t), modelEnv(opsModel(t).URL), env)...)
		s.Restart()
		told := func() map[string]int {
			out := map[string]int{}
			for _, e := range s.Topic("env") {
				if e.Type == event.FileChanged {
					var changed struct {
						Payload struct{ Name, Path, Change string }
					}
					if err := json.Unmarshal(e.Data, &changed); err != nil {
						t.Fatal(err)
					}
					p := changed.Payload
					out[p.Name+" "+p.Change+" "+filepath.Base(p.Path)]++
				}
			}
			return out
		}
		n := 0
		e2e.Eventually(t, answerWithin, "the files are watched", func() bool {
			n++ // files that existed when the watch started are not reported
			write(fmt.Sprint(n, ".csv"))
			return e2e.Poll(2*time.Second, func() bool { return told()[fmt.Sprint("left create ", n, ".csv")] > 0 })
		})
		write("unrested.csv")
		s.Kill()
		write("down.csv")
		configure("100ms")
		for range 2 { // the second start has nothing new to report
			s.Restart()
			e2e.Eventually(t, answerWithin, "both are told", func() bool {
				got := told()
				return got["found create unrested.csv"] > 0 && got["found create down.csv"] > 0
			})
			s.Kill()
		}
		s.Restart()
		got := told()
		if got["found create unrested.csv"] != 1 || got["found create down.csv"] != 1 || got["left create down.csv"] != 0 {
			t.Errorf("told %v", got)
		}
	})
}

// A timer fires every second while the process is killed at each of its steps. No slot becomes two
// events, and the agent is woken as often as the rule allows.
func TestATimerFiresEachSlotOnce(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		s := e2e.New(t, slices.Concat(bus(t), modelEnv(opsModel(t).URL), e2e.Configured(t, `
timers:
  pulse: {every: 1s}
rules:
  pulse:
    when: {type: timer.fired}
    do: {agent: {prompt: "It is {{ .payload.slot }}."}}
    session: title:ops
    rate: 1/10m
`))...)
		s.Restart()
		ops := named(t, s, "ops")
		s.Kill()
		for _, point := range []string{"taking:timer:", "taken:timer:", "taken:timer:"} {
			s.Spawn("LILAC_KILL_AT=" + point)
			if !s.WaitExit(answerWithin) {
				t.Fatal("the process was not killed")
			}
		}
		s.Restart()
		e2e.Eventually(t, answerWithin, "the agent has answered, and the clock goes on", func() bool {
			answers, _ := said(s, ops)
			return answers > 0 && len(envEvents(s, event.TimerFired)) >= 5
		})
		for id, n := range envEvents(s, event.TimerFired) {
			if n != 1 {
				t.Errorf("the slot %s is %d events", id, n)
			}
		}
		if answers, observed := said(s, ops); answers != 1 || observed != 1 {
			t.Errorf("%d answers to %d events, want one", answers, observed)
		}
	})
}
