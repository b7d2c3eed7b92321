package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
)

// The promised times of a takeover (docs/operations.md).
const (
	takesOverAfterStop  = 2 * time.Second
	takesOverAfterDeath = 12 * time.Second
)

// shortLease is the duration of a lease in the short form of tests that wait for its end.
const shortLease = "LILAC_LEASE=2s"

// A second process waits, says so, and takes over with everything when the first is asked to stop.
func TestAStandbyTakesOverFromAProcessThatIsAskedToStop(t *testing.T) {
	t.Parallel()
	env := e2e.Postgres(t)
	first := e2e.Start(t, env...)
	session := first.NewSession()
	first.WaitEnded(first.Prompt(session, "hello", event.Prompt).RequestID, answerWithin)
	second := startStandby(t, env...)
	if code, body := second.Get("/sessions"); code != http.StatusServiceUnavailable || !strings.Contains(body, "standby") {
		t.Errorf("another route of the standby answers %d: %s", code, body)
	}
	nodes := func(s *e2e.Server) (states string) {
		var list struct {
			Nodes []struct {
				Addr   string
				Active bool
			}
		}
		s.Request("GET", "/nodes", nil, &list)
		for _, n := range list.Nodes {
			states += fmt.Sprintf("%s %v ", n.Addr, n.Active)
		}
		return states
	}
	e2e.Eventually(t, answerWithin, "both processes are listed", func() bool { return nodes(first) == first.Addr+" true "+second.Addr+" false " })
	began := time.Now()
	first.Terminate(effort.Within(takesOverAfterStop))
	second.WaitReady()
	if took := time.Since(began); took > effort.Within(takesOverAfterStop) {
		t.Errorf("the takeover took %s", took)
	}
	e2e.Eventually(t, answerWithin, "only the second process is listed", func() bool { return nodes(second) == second.Addr+" true " })
	if n := len(second.Messages(session)); n != 2 {
		t.Errorf("the second process has %d messages, want the question and its answer", n)
	}
	second.WaitEnded(second.Prompt(session, "hello again", event.Prompt).RequestID, answerWithin)
	// A process that is killed and started again on the same machine does not wait for its own lease.
	second.Kill()
	began = time.Now()
	second.Restart()
	if took := time.Since(began); took > effort.Within(takesOverAfterStop) {
		t.Errorf("the start after a kill took %s", took)
	}
}

// The first process hangs while it answers. The second takes over and answers once. When the first
// goes on, it notices, stops its work, and waits as a standby; it then takes over from the second.
func TestAProcessThatHangsIsReplacedAndWritesNothingMore(t *testing.T) {
	needsCommands(t)
	t.Parallel()
	model := newToolModel(t)
	env := append(e2e.Postgres(t), model.env()...)
	if !effort.Long() {
		env = append(env, shortLease)
	}
	first := e2e.Start(t, env...)
	session := first.NewSession()
	sent := first.Prompt(session, "append a line", event.Prompt)
	second := startStandby(t, env...)
	first.Pause()
	began := time.Now()
	second.WaitReady()
	if took := time.Since(began); took > effort.Within(takesOverAfterDeath) {
		t.Errorf("the takeover took %s", took)
	}
	second.WaitEnded(sent.RequestID, answerWithin)
	first.Resume()
	e2e.Eventually(t, answerWithin, "the first process is a standby", func() bool { return isStandby(first) })
	if _, code := first.TryPrompt(session, "more", event.Prompt, "key"); code != http.StatusServiceUnavailable {
		t.Errorf("the first process answers a prompt with %d", code)
	}
	if n := countEnds(second); n != 1 {
		t.Errorf("the request ended %d times", n)
	}
	answers := 0
	for _, m := range second.Messages(session) {
		if m.Role == "assistant" && strings.Contains(m.Text(), toolModelEnd) {
			answers++
		}
	}
	if answers != 1 {
		t.Errorf("the history has %d answers", answers)
	}
	second.Terminate(answerWithin)
	first.WaitReady()
	if n := countEnds(first); n != 1 {
		t.Errorf("after it took over again, the request ended %d times", n)
	}
}

// Neither the log nor the settings show the password of the database.
func TestThePasswordOfTheDatabaseIsNotShown(t *testing.T) {
	t.Parallel()
	const password = "pass-word-of-the-database"
	url := strings.Replace(e2e.NewSchema(t), "postgres@", "postgres:"+password+"@", 1)
	s := e2e.Start(t, append(e2e.OnPostgres(url), "LILAC_LOG_LEVEL=debug")...)
	var settings json.RawMessage
	s.Request("GET", "/settings", nil, &settings)
	if !strings.Contains(string(settings), "database.url") {
		t.Error("control: the setting is not listed")
	}
	s.Terminate(answerWithin)
	s.Env = e2e.OnPostgres(strings.Replace(url, "/postgres?", "/nothing?", 1))
	s.Spawn()
	if !s.WaitExit(answerWithin) {
		t.Error("a start with a wrong database waits")
	}
	if !strings.Contains(s.Log(), "createdb") {
		t.Errorf("a start with a wrong database does not say what to do")
	}
	for what, text := range map[string]string{"the log": s.Log(), "the settings": string(settings)} {
		if strings.Contains(text, password) {
			t.Errorf("%s has the password", what)
		}
	}
}

// startStandby starts a second process and waits until it is a standby.
func startStandby(t *testing.T, env ...string) *e2e.Server {
	t.Helper()
	s := e2e.New(t, env...)
	s.Spawn()
	e2e.Eventually(t, answerWithin, "the second process is a standby", func() bool { return isStandby(s) })
	if code := s.Request("GET", "/healthz", nil, nil); code != http.StatusOK {
		t.Errorf("/healthz of the standby answers %d", code)
	}
	return s
}

func isStandby(s *e2e.Server) bool {
	code, body := s.Get("/readyz")
	var ready struct{ Status string }
	return code == http.StatusServiceUnavailable && json.Unmarshal([]byte(body), &ready) == nil && ready.Status == "standby"
}
