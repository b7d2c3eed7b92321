package e2e_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

// failedJob is the part of GitHub's webhook about a failed job that the README's rule uses.
const failedJob = `{"action":"completed","workflow_job":{"conclusion":"failure","head_branch":"main","name":"test","url":%q}}`

// readmeRule returns the example of the README with test addresses for GitHub.
func readmeRule(t *testing.T, hosts string) string {
	t.Helper()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, found := strings.Cut(string(readme), "```yaml\nwebhooks:")
	example, _, ended := strings.Cut(example, "```")
	if !found || !ended {
		t.Fatal("the README has no example of a webhook any more")
	}
	example = "webhooks:" + example
	if lines := strings.Count(example, "\n"); lines > 10 {
		t.Errorf("the example has %d lines", lines)
	}
	github := regexp.MustCompile(`(?m)^sandbox: .*api\.github\.com.*GITHUB_TOKEN.*$`)
	if !github.MatchString(example) {
		t.Fatalf("the example opens no way to GitHub:\n%s", example)
	}
	return github.ReplaceAllLiteralString(example, "sandbox: {network: {hosts: "+hosts+"}}")
}

// The example of the README: CI fails on main, the webhook wakes the agent, and the agent reads
// the log from GitHub with a token that it never sees. It reports the cause in #ops, at most once
// in ten minutes, even if the program is killed as soon as the webhook is accepted.
func TestTheStoryOfTheReadme(t *testing.T) {
	needsCommands(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		const token, broke = "canary-of-github-1357", "--- FAIL: TestSums: got 3, want 4"
		var asked, strangers, withToken atomic.Int64
		storage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "" {
				withToken.Add(1)
			}
			fmt.Fprintln(w, "ok  sums/a\n"+broke+"\nexit 1")
		}))
		defer storage.Close()
		github := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+token || r.URL.Path != "/jobs/1/logs" {
				strangers.Add(1)
				return
			}
			asked.Add(1)
			w.Header().Set("Location", fmt.Sprintf("http://localhost:%d/log", portOf(storage)))
			w.WriteHeader(http.StatusFound)
		}))
		defer github.Close()
		authority := filepath.Join(t.TempDir(), "authority.pem")
		block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: github.Certificate().Raw})
		if err := os.WriteFile(authority, block, 0o600); err != nil {
			t.Fatal(err)
		}
		var calls atomic.Int64
		model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
			last := r.Messages[len(r.Messages)-1]
			tries := calls.Add(1)
			for _, log := range last.Results {
				for line := range strings.Lines(log) {
					if strings.Contains(line, "FAIL") {
						return llmtest.Say("main is broken: " + strings.TrimSpace(line))
					}
				}
				if tries > 5 { // the kill may have interrupted the command, which is then repeated
					return llmtest.Say("I have no log: " + log)
				}
			}
			url := regexp.MustCompile(`http://[^"\s)]+/logs`).FindString(string(r.Body))
			// This is like curl -sL, which some machines lack.
			command := ask + `ask "$(ask ` + url + ` | sed -n 's/^Location: \([^\r]*\)\r*$/\1/p')"; env`
			input, _ := json.Marshal(map[string]string{"command": command})
			return llmtest.Script{Calls: []llmtest.Call{{ID: fmt.Sprint("call-", tries), Name: "bash", Input: string(input)}}}
		})
		d := e2e.NewDiscord(t, discordtest.Options{})
		ops := d.Channel(d.Guild, "ops")
		d.Configure(readmeRule(t, fmt.Sprintf(`{127.0.0.1: {ports: [%d], internal: true, headers: {Authorization: "Bearer ${GITHUB_TOKEN}"}}, localhost: {ports: [%d], internal: true}}`, portOf(github), portOf(storage))))
		s := e2e.New(t, slices.Concat(bus(t), modelEnv(model.URL), d.Env(), []string{"GITHUB_WEBHOOK_SECRET=" + e2e.HookSecret, "GITHUB_TOKEN=" + token, "SSL_CERT_FILE=" + authority})...)
		s.Restart()
		e2e.Eventually(t, answerWithin, "the bot is connected", func() bool { return d.Connected() > 0 })
		d.Say(ops, d.Ada, "good morning", discordtest.SayOptions{})
		e2e.Eventually(t, answerWithin, "the channel is known", func() bool {
			return slices.ContainsFunc(s.Topic("evt.adapter"), func(e event.Event) bool { return strings.Contains(string(e.Data), "good morning") })
		})
		body := fmt.Sprintf(failedJob, fmt.Sprintf("https://127.0.0.1:%d/jobs/1", portOf(github)))
		if code, _ := s.HookOf("workflow_job", "github", "green", strings.Replace(body, "failure", "success", 1)); code != http.StatusAccepted {
			t.Fatalf("answered with %d", code)
		}
		if code, _ := s.HookOf("workflow_job", "github", "red", body); code != http.StatusAccepted {
			t.Fatalf("answered with %d", code)
		}
		d.Kill(s)
		s.Restart()
		d.Shown(ops, "what broke", e2e.Finished("main is broken: "+broke))
		if code, _ := s.HookOf("workflow_job", "github", "red-again", body); code != http.StatusAccepted {
			t.Errorf("another one: %d", code)
		}
		e2e.Eventually(t, answerWithin, "all are handled", func() bool { return source(t, s, "webhook", "github").Waiting == 0 })
		if ours := d.Ours(ops); len(ours) != 1 {
			t.Errorf("in #ops there is %+v", ours)
		}
		if asked.Load() == 0 || strangers.Load() != 0 || withToken.Load() != 0 {
			t.Errorf("GitHub was asked %d times with the token and %d times otherwise; its storage was shown the token %d times", asked.Load(), strangers.Load(), withToken.Load())
		}
		for _, r := range model.Requests() {
			if strings.Contains(string(r.Body), token) {
				t.Error("the model was told the token")
			}
		}
	})
}
