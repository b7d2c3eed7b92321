package e2e_test

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lilac/internal/core/webhook"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

// hookForms lists the webhooks that are sent, by name.
var hookForms = map[string]webhook.Spec{
	"github":   {Name: "github", Secret: e2e.HookSecret},
	"standard": {Name: "standard", Form: webhook.Standard, Secret: "whsec_" + base64.StdEncoding.EncodeToString([]byte(e2e.HookSecret))},
	"once":     {Name: "once", Secret: e2e.HookSecret, BodyOnce: true},
}

// hookRules lists alternative configurations for webhooks; the test switches between them.
var hookRules = []string{
	`{when: {type: webhook.received}, do: {agent: {prompt: "It came."}}, session: title:ops}`,
	`{when: {type: webhook.received}, do: {agent: {prompt: "It came.", deliver: steer}}, session: title:others}`,
	`{when: {type: webhook.received}, do: {publish: {type: custom.hook, payload: .payload.body}}}`,
	`{when: {type: webhook.received}, do: {drop: true}}`,
	`{when: {type: webhook.received}, do: {agent: {prompt: "It came."}}, session: title:ops, debounce: 300ms}`,
	`{when: {type: webhook.received}, do: {agent: {prompt: "It came."}}, session: title:ops, rate: 2/5s}`,
	`{when: {type: webhook.received}, do: {agent: {prompt: "It came."}}, session: title:ops, dryRun: true}`,
	`{when: {type: webhook.received}, do: {agent: {prompt: "It came."}}, session: title:ops, budget: {runs: 3}}`,
	`{when: {type: webhook.received}, do: {agent: {prompt: "It came."}}, session: title:ops, enabled: false}`,
	`{when: {type: webhook.received, if: .payload.body.odd}, do: {agent: {prompt: "It came."}}, session: title:nobody}`,
}

// clockRules lists alternative configurations for timers.
var clockRules = []string{"{}", "{pulse: {every: 1s}}", "{pulse: {every: 2s, missed: skip}}", `{pulse: {cron: "* * * * *"}, other: {every: 1s}}`}

// wakeful is a program with everything that can wake its agent.
type wakeful struct {
	t   *testing.T
	rnd *rand.Rand
	s   *e2e.Server
	// config is the configuration file, dir holds the watched files, and mark is in each command.
	config, dir, mark string
	began             time.Time
	trace             []string

	up    bool
	kills int
	// armed is the point at which the program kills itself. deletes and stops mean that users
	// delete conversations and stop running requests.
	armed          string
	settled        bool // all webhooks are configured
	deletes, stops bool

	wrong []string

	talks []string
	// titled lists the conversations of rules.
	titled []string
	// wishes maps a wish to its conversation. retry holds calls that the server has not accepted
	// yet.
	wishes map[string]string
	retry  []func() bool
	// hooks maps the ID of a delivery to its webhook. occurred lists the published events.
	hooks    map[string]string
	occurred map[string]bool
	// gone lists the deleted conversations.
	gone  map[string]bool
	names []string
	// histories holds the conversations as last read.
	histories map[string][]e2e.Said
}

func newWakeful(t *testing.T, seed uint64) *wakeful {
	w := &wakeful{
		t: t, rnd: rand.New(rand.NewPCG(seed, 17)), began: time.Now(), dir: t.TempDir(), mark: fmt.Sprintf("97%07d.%d", os.Getpid(), seed),
		deletes: seed%4 == 2, stops: seed%4 == 3,
		wishes: map[string]string{}, hooks: map[string]string{}, occurred: map[string]bool{}, gone: map[string]bool{}, histories: map[string][]e2e.Said{},
	}
	env := e2e.Configured(t, "")
	w.config = strings.TrimPrefix(env[0], "LILAC_CONFIG=")
	env = slices.Concat(env, modelEnv(llmtest.New(t, wakened(w.mark)).URL))
	w.settled = true
	w.configure(hookRules[0], clockRules[1])
	w.settled = false
	w.s = e2e.New(t, env...)
	w.s.Restart()
	w.up = true
	for _, title := range []string{"ops", "others", "files", "clock"} {
		w.titled = append(w.titled, named(t, w.s, title))
	}
	w.talks = []string{w.s.NewSession(), w.s.NewSession(), w.s.NewSession()}
	return w
}

func (w *wakeful) err(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

func (w *wakeful) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%6.2f %s", time.Since(w.began).Seconds(), fmt.Sprintf(format, args...)))
}

// configure writes the configuration, which a running program reloads.
func (w *wakeful) configure(hooks, timers string) {
	w.note("rule %s, timers %s", hooks, timers)
	text := "webhooks:\n"
	for name, spec := range hookForms {
		if !w.settled && w.rnd.IntN(8) == 0 {
			continue // its sender retries until it is configured again
		}
		text += fmt.Sprintf("  %s: {form: %s, secret: %q, bodyOnce: %t, queue: %d}\n", name, cmp.Or(spec.Form, webhook.GitHub), spec.Secret, spec.BodyOnce, pick(w.rnd, 3, 1000))
	}
	text += fmt.Sprintf("files:\n  inbox: {paths: [%q], debounce: %s}\ntimers: %s\n", w.dir+"/*.txt", pick(w.rnd, "60ms", "200ms"), timers) + `
tasks: {perSession: 100, total: 200}
rules:
  hook: ` + hooks + `
  derived: {when: {type: custom.hook}, do: {agent: {prompt: "It came."}}, session: title:ops}
  file: {when: {type: file.changed}, do: {agent: {prompt: "A file changed."}}, session: title:files}
  timer: {when: {type: timer.fired}, do: {agent: {prompt: "It is time."}}, session: title:clock}
`
	// Replace the file atomically, as editors do.
	if err := os.WriteFile(w.config+".new", []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(w.config+".new", w.config); err != nil {
		w.t.Fatal(err)
	}
}

func (w *wakeful) do(n int) {
	w.t.Helper()
	switch what := w.rnd.IntN(64); {
	case what < 18:
		w.wish(n)
	case what < 26:
		w.deliver(n)
	case what < 34:
		w.touch(n)
	case what < 39:
		w.occur()
	case what < 43:
		w.configure(pick(w.rnd, hookRules...), pick(w.rnd, clockRules...))
	case what < 46:
		w.endOne()
	case what < 52 && !w.up:
		w.start()
	case what < 50:
		w.kill()
	case what < 52 && w.up:
		w.note("stop")
		w.s.Terminate(answerWithin)
		w.up, w.armed = false, ""
	case what < 57 && w.up:
		w.note("the machine hangs")
		w.s.Pause()
		time.Sleep(time.Duration(w.rnd.IntN(1500)) * time.Millisecond)
		w.s.Resume()
	case what < 59 && w.up:
		w.intervene()
	default:
		time.Sleep(time.Duration(w.rnd.IntN(500)) * time.Millisecond) // simulate slow users
	}
	w.ended()
	w.again()
}

// ended records that the program has killed itself at its point.
func (w *wakeful) ended() {
	w.t.Helper()
	if !w.up || !w.s.Exited() {
		return
	}
	if w.armed == "" {
		w.t.Fatal("the program ended by itself")
	}
	w.note("it is killed at %s", w.armed)
	w.s.Kill()
	w.up, w.armed = false, ""
}

// points lists the points for LILAC_KILL_AT.
var points = []string{
	"task:running", "tasked:running", "task:completed", "tasked:completed", "task:failed", "tasked:stopped", "wait:waiting", "waited:waiting", "wait:resolved",
	"waited:resolved", "taking:timer:", "taken:timer:", "taking:files:", "taken:files:", "taking:webhook:", "taken:webhook:", "taken:occur", "taken:tool:",
	"answer:github", "waiting", "record:tool_start", "recorded:tool_start", "record:tool_end", "recorded:tool_end", "recorded:end",
}

// start starts the program, sometimes with a point at which it kills itself.
func (w *wakeful) start() {
	w.t.Helper()
	w.armed = ""
	if !w.settled && w.kills < 3 && w.rnd.IntN(2) == 0 {
		w.kills++
		w.armed = pick(w.rnd, pick(w.rnd, points...)+fmt.Sprint("@", 1+w.rnd.IntN(3)), fmt.Sprint(pick(w.rnd, "before:", "after:"), 1+w.rnd.IntN(300)))
	}
	w.note("start %s", w.armed)
	w.s.Spawn("LILAC_KILL_AT=" + w.armed)
	w.up = true
	e2e.Eventually(w.t, answerWithin, "the program is ready", func() bool { return w.s.Exited() || w.s.Ready() })
	w.ended()
}

// intervene stops the running request of a conversation, or deletes the conversation.
func (w *wakeful) intervene() {
	talk := pick(w.rnd, w.talks...)
	switch {
	case w.stops:
		w.note("stop in %s: %d", talk, w.s.Request("POST", "/sessions/"+talk+"/cancel", map[string]any{"cancelQueued": w.rnd.IntN(2) == 0}, nil))
	case w.deletes:
		code := w.s.Request("DELETE", "/sessions/"+talk, nil, nil)
		w.note("%s is deleted: %d", talk, code)
		var made struct{ ID string }
		if code == http.StatusNoContent && w.s.Request("POST", "/sessions", map[string]any{}, &made) == http.StatusCreated {
			w.talks = append(slices.DeleteFunc(w.talks, func(other string) bool { return other == talk }), made.ID)
			w.gone[talk] = true
		}
	}
}

func (w *wakeful) kill() {
	if !w.up || w.kills == 3 {
		return // a request that is resumed more often fails, as intended
	}
	w.kills++
	w.note("kill")
	w.s.Kill()
	w.up, w.armed = false, ""
}

// again repeats calls that the server has not accepted yet.
func (w *wakeful) again() {
	if w.up {
		w.retry = slices.DeleteFunc(w.retry, func(send func() bool) bool { return send() })
	}
}

// wish sends a wish to a conversation.
func (w *wakeful) wish(n int) {
	wish, talk := fmt.Sprint("w", n, pick(w.rnd, wakerKinds...)), pick(w.rnd, w.talks...)
	queue := pick(w.rnd, event.Prompt, event.Steer, event.FollowUp)
	w.wishes[wish] = talk
	w.note("%s in %s as %s", wish, talk, queue)
	w.retry = append(w.retry, func() bool {
		_, code := w.s.TryPrompt(talk, "please "+wish, queue, "key-"+wish)
		return code == http.StatusOK || w.gone[talk]
	})
}

// deliver sends a webhook: once, several times concurrently, or a repeated one. Sometimes, a
// webhook with a wrong secret follows.
func (w *wakeful) deliver(n int) {
	names := []string{"github", "standard", "once"}
	id, name := fmt.Sprint("d", n), pick(w.rnd, names...)
	if before := w.deliveries(); len(before) > 0 && w.rnd.IntN(4) == 0 {
		id = pick(w.rnd, before...)
		name = w.hooks[id]
	}
	w.hooks[id] = name
	w.note("%s to %s", id, name)
	body := fmt.Sprintf(`{"id":%q,"odd":%t}`, id, len(id)%2 == 1)
	times := 1 + w.rnd.IntN(3)
	w.retry = append(w.retry, func() bool {
		codes := make([]int, times)
		var wg sync.WaitGroup
		for i := range times {
			// With bodyOnce, the ID does not matter.
			as := id
			if name == "once" {
				as = fmt.Sprint(id, "-", i)
			}
			wg.Go(func() { codes[i] = w.post(hookForms[name], as, body) })
		}
		wg.Wait()
		return !slices.ContainsFunc(codes, func(code int) bool { return code != http.StatusAccepted })
	})
	if w.up && w.rnd.IntN(4) == 0 {
		forged := hookForms[name]
		forged.Secret = "whsec_" + base64.StdEncoding.EncodeToString([]byte("another secret, which is as long"))
		if code := w.post(forged, fmt.Sprint("forged", n), body); code == http.StatusAccepted {
			w.t.Errorf("a forged webhook was answered with %d", code)
		}
	}
}

func (w *wakeful) deliveries() (ids []string) {
	for id := range w.hooks {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// post sends a webhook. It returns the status, or 0 if there was no response.
func (w *wakeful) post(spec webhook.Spec, id, body string) int {
	hook, err := webhook.New(spec)
	if err != nil {
		w.t.Error(err)
		return 0
	}
	req, err := http.NewRequestWithContext(w.t.Context(), "POST", "http://"+w.s.Addr+"/webhooks/"+spec.Name, bytes.NewReader([]byte(body)))
	if err != nil {
		w.t.Error(err)
		return 0
	}
	req.Header = hook.Sign(webhook.Delivery{ID: id, Event: "x", Body: []byte(body)}, time.Now())
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}

func (w *wakeful) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// occur publishes an event for which a workflow waits.
func (w *wakeful) occur() {
	for wish := range w.wishes {
		n := wakers.FindStringSubmatch(wish)[1]
		if !strings.HasSuffix(wish, "event") || w.occurred[n] || w.s.Count(`SELECT count(*) FROM workflows WHERE ended_at = 0 AND CAST(json AS TEXT) LIKE '%custom.occur`+n+`"%'`) == 0 {
			continue
		}
		w.occurred[n] = true
		w.note("custom.occur%s", n)
		w.retry = append(w.retry, func() bool {
			return w.s.Request("POST", "/events", map[string]any{"id": "occur-" + n, "type": "custom.occur" + n, "metadata": map[string]any{"trigger_session_id": w.titled[0]}}, nil) == http.StatusOK
		})
		return
	}
}

// endOne stops a task that does not end by itself, or cancels a long wait.
func (w *wakeful) endOne() {
	if !w.up {
		return
	}
	for _, talk := range w.talks {
		for _, one := range tasksOf(w.s, talk) {
			if one.State == "running" && one.Command == "sleep "+w.mark && one.Deadline-one.CreatedAt > 10_000 {
				w.note("stop of task %s: %d", one.ID, w.s.Request("POST", "/tasks/"+one.ID+"/stop", nil, nil))
				return
			}
		}
	}
	for _, flow := range w.workflows() {
		if flow.State == "waiting" && (strings.Contains(flow.Tasks[0].Description, "long") || w.rnd.IntN(8) == 0) {
			w.note("cancel of %s: %d", flow.ID, w.s.Request("POST", "/workflows/"+flow.ID+"/cancel", map[string]any{}, nil))
			return
		}
	}
}

// Rules, webhooks, files, timers, tasks, and workflows wake the agent exactly once, while the
// program is killed and stopped, and its configuration changes.
func TestWhateverWakesIt(t *testing.T) {
	effort.SkipDetail(t)
	needsCommands(t)
	t.Parallel()
	for seed := range uint64(many(1, 40)) {
		t.Run(fmt.Sprint("sqlite", seed), func(t *testing.T) {
			t.Parallel()
			w := newWakeful(t, seed)
			defer func() {
				if t.Failed() {
					t.Log(strings.Join(w.trace, "\n"))
				}
			}()
			for n := range many(20, 100) {
				w.do(n)
			}
			w.rest()
			w.check()
			w.nothingRuns() // commands that ended or whose conversation was deleted
			for _, wrong := range w.wrong {
				t.Error(wrong)
			}
			w.s.Terminate(answerWithin)
			w.nothingRuns()
			if out, err := w.command("doctor", "--deep"); err != nil {
				t.Errorf("lilac doctor --deep: %v\n%s", err, out)
			}
		})
	}
}

// Control: with the end of a task published in a separate transaction, and with the rules' records
// deleted, the test must fail.
func TestControlWhatWakesItIsMissed(t *testing.T) {
	effort.SkipDetail(t)
	needsCommands(t)
	t.Parallel()
	w := newWakeful(t, 0)
	w.s.Kill()
	w.s.Env = append(w.s.Env, "LILAC_WITHOUT=telling")
	w.s.Restart("LILAC_KILL_AT=tasked:completed")
	w.wishes["w1task"] = w.talks[0]
	w.s.Prompt(w.talks[0], "please w1task", event.Prompt)
	if !w.s.WaitExit(answerWithin) {
		t.Fatal("the program was not killed")
	}
	w.up = false
	w.rest()
	w.check()
	noticed(t, w.wrong, "its end was told 0 times")
	w.hooks["d1"] = "github"
	w.post(hookForms["github"], "d1", `{"id":"d1"}`)
	w.rest()
	w.s.Exec("DELETE FROM rule_runs")
	w.check()
	noticed(t, w.wrong, "webhook:github:d1 came to []")
}
