package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
)

// spooled is a source that turns files into events. It removes a file when it is
// acknowledged, or, if careless is set, when it is printed.
func spooled(careless bool) string {
	answered := `read -r answer id reason || exit`
	if careless {
		answered = `:`
	}
	return `#!/bin/sh
while :; do
    for path in "$1"/*; do
        [ -e "$path" ] || continue
        printf '{"id":"%s","payload":{"path":"%s"}}\n' "${path##*/}" "$path"
        ` + answered + `
        rm "$path"
    done
    read -r next || exit
done
`
}

// Lilac is killed in the transaction of an event, and after it, before the program learns of
// it. Each event is published once. The controls lose an event, or do not
// recognize one that is sent again.
func TestAKillLosesNoEventOfAProgram(t *testing.T) {
	effort.SkipDetail(t)
	const events = 5
	for name, c := range map[string]struct {
		kill     string
		careless bool
		without  string
		// want judges how many events were published once, and how many were sent again.
		want func(once int, duplicates int64) bool
	}{
		"before the commit": {kill: "taking:source:spool:e2", want: func(once int, again int64) bool { return once == events && again == 0 }},
		"after the commit":  {kill: "taken:source:spool:e2", want: func(once int, again int64) bool { return once == events && again == 1 }},
		"control: a program that does not wait for the acknowledgment": {kill: "taking:source:spool:e2", careless: true, want: func(once int, _ int64) bool { return once < events }},
		"control: ids are not remembered":                              {kill: "taken:source:spool:e2", without: "LILAC_WITHOUT=inbox", want: func(_ int, again int64) bool { return again == 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, spool := t.TempDir(), t.TempDir()
			script := filepath.Join(dir, "spool.sh")
			if err := os.WriteFile(script, []byte(spooled(c.careless)), 0o700); err != nil {
				t.Fatal(err)
			}
			for i := range events {
				if err := os.WriteFile(filepath.Join(spool, fmt.Sprint("e", i)), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s := e2e.New(t, e2e.Configured(t, fmt.Sprintf("sources:\n  spool: {command: [sh, %q, %q]}\n", script, spool))...)
			s.Spawn("LILAC_KILL_AT=" + c.kill)
			e2e.Eventually(t, answerWithin, "the server is killed", s.Exited)
			s.Kill()
			s.Restart(c.without)
			e2e.Eventually(t, answerWithin, "all files are handled", func() bool {
				left, err := os.ReadDir(spool)
				return err == nil && len(left) == 0
			})
			once := 0
			for _, times := range envEvents(s, event.SourceReceived) {
				if times == 1 {
					once++
				}
			}
			if counts := source(t, s, "program", "spool"); !c.want(once, counts.Duplicates) {
				t.Errorf("%d of %d events were published once: %v; %+v", once, events, envEvents(s, event.SourceReceived), counts)
			}
		})
	}
}

// A rule wakes the agent for an event of a program. A program that does not run is reported.
func TestAProgramWakesTheAgent(t *testing.T) {
	t.Parallel()
	s := e2e.New(t, slices.Concat(modelEnv(opsModel(t).URL), e2e.Configured(t, `
sources:
  deploys: {command: [sh, -c, 'until [ -e go ]; do sleep 0.05; done; echo "{\"id\":\"1\",\"type\":\"deploy.done\",\"payload\":{\"version\":7}}"; cat > /dev/null']}
  broken: {command: [sh, -c, 'echo no luck >&2; exit 4']}
rules:
  deployed:
    when: {type: deploy.done, if: .metadata.env_name == "deploys"}
    do: {agent: {prompt: "Version {{ .payload.version }} was deployed."}}
    session: title:ops
`))...)
	s.Restart()
	ops := named(t, s, "ops")
	fifo := filepath.Join(filepath.Dir(strings.TrimPrefix(s.Env[len(s.Env)-1], "LILAC_CONFIG=")), "go")
	if err := os.WriteFile(fifo, []byte("now\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e2e.Eventually(t, answerWithin, "the agent has answered", func() bool { answers, _ := said(s, ops); return answers == 1 })
	if trouble := source(t, s, "program", "broken").Trouble; !strings.Contains(trouble, "exit status 4") || !strings.Contains(s.Log(), "no luck") {
		t.Errorf("the trouble of the broken program is %q", trouble)
	}
	var ready struct {
		Parts []struct{ Name, Status string }
	}
	s.Request("GET", "/readyz", nil, &ready)
	if !slices.Contains(ready.Parts, struct{ Name, Status string }{"sources", "warning"}) {
		t.Errorf("/readyz: %+v", ready)
	}
}
