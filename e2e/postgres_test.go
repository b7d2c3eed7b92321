package e2e_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/postgrestest"
)

// While PostgreSQL is away, /readyz and the answers say so, whether the process still has its lease
// or not. When it is back, the process continues by itself with everything that it accepted.
func TestAnOutageOfPostgresIsReportedAndLosesNothing(t *testing.T) {
	t.Parallel()
	effort.SkipPostgres(t)
	p := postgrestest.Start(t)
	s := e2e.Start(t, append(e2e.OnPostgres(p.URL("")), shortLease)...)
	session := s.NewSession()
	s.WaitEnded(s.Prompt(session, "hello", event.Prompt).RequestID, answerWithin)
	p.Stop()
	said := func(status string) func() bool {
		return func() bool {
			code, body := s.Get("/readyz")
			return code == http.StatusServiceUnavailable && strings.Contains(body, status) && strings.Contains(body, "PostgreSQL")
		}
	}
	e2e.Eventually(t, answerWithin, "/readyz names the outage", said(`"status":"standby"`))
	if code, body := s.Get("/sessions/" + session + "/messages"); code != http.StatusServiceUnavailable || !strings.Contains(body, "PostgreSQL cannot be reached") {
		t.Errorf("a request is answered with %d: %s", code, body)
	}
	if _, code := s.TryPrompt(session, "are you there?", event.Prompt, "once"); code != http.StatusServiceUnavailable {
		t.Errorf("a prompt is answered with %d", code)
	}
	if err := p.Restart(); err != nil {
		t.Fatal(err)
	}
	s.WaitReady()
	a, code := s.TryPrompt(session, "are you there?", event.Prompt, "once")
	if code != http.StatusOK {
		t.Fatalf("after the outage, a prompt is answered with %d", code)
	}
	s.WaitEnded(a.RequestID, answerWithin)
	if n := len(s.Messages(session)); n != 4 {
		t.Errorf("the history has %d messages, want 4", n)
	}
}

// The backup that docs/operations.md describes: pg_dump while the server runs, and pg_restore into
// another database.
func TestABackupWithTheToolsOfPostgresIsRestored(t *testing.T) {
	t.Parallel()
	effort.SkipPostgres(t)
	if _, err := exec.LookPath("pg_dump"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("pg_dump is needed: apt-get install postgresql-client")
	}
	p := postgrestest.Start(t)
	s := e2e.Start(t, append(e2e.OnPostgres(p.URL("")), shortLease)...)
	session := s.NewSession()
	s.WaitEnded(s.Prompt(session, "hello", event.Prompt).RequestID, answerWithin)
	dump := filepath.Join(t.TempDir(), "lilac.dump")
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	run("pg_dump", "--format=custom", "--file="+dump, p.URL(""))
	if err := p.Do("CREATE DATABASE lilac2"); err != nil {
		t.Fatal(err)
	}
	second := strings.Replace(p.URL(""), "/postgres?", "/lilac2?", 1)
	run("pg_restore", "--no-owner", "--dbname="+second, dump)
	restored := e2e.Start(t, append(e2e.OnPostgres(second), shortLease)...)
	if n := len(restored.Messages(session)); n != 2 {
		t.Errorf("the restored history has %d messages", n)
	}
	restored.WaitEnded(restored.Prompt(session, "hello again", event.Prompt).RequestID, answerWithin)
	s.WaitEnded(s.Prompt(session, "and you", event.Prompt).RequestID, answerWithin) // two databases, two owners
}
