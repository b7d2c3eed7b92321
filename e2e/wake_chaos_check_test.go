package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"lilac/internal/core/environment"
	"lilac/internal/core/task"
	"lilac/internal/core/workflow"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
)

func (w *wakeful) workflows() []workflow.Workflow {
	var out struct{ Workflows []workflow.Workflow }
	w.s.Request("GET", "/workflows?limit=200", nil, &out)
	return out.Workflows
}

// rest ends all failures and everything that does not end by itself, and waits until the program
// is idle.
func (w *wakeful) rest() {
	w.t.Helper()
	w.settled = true
	if w.up && w.armed != "" {
		w.s.Kill()
		w.up = false
	}
	if !w.up {
		w.start()
	}
	w.configure(hookRules[0], clockRules[0]) // otherwise, the timers would continue
	w.note("rest")
	if !e2e.Poll(answerWithin, w.s.Ready) {
		w.err("/readyz is not well")
	}
	spoken := false
	quiet := 0
	if !e2e.Poll(2*answerWithin, func() bool {
		w.again()
		w.occur()
		w.endOne()
		left := w.left()
		if quiet++; len(w.retry) > 0 || left != "" {
			quiet = 0
		}
		if !spoken && len(w.retry) == 0 && w.left("waits") == "" {
			spoken = true // let the remaining waits for messages finish
			for i, talk := range w.talks {
				w.retry = append(w.retry, func() bool {
					_, code := w.s.TryPrompt(talk, "That is all.", event.FollowUp, fmt.Sprint("last-", i))
					return code == http.StatusOK
				})
			}
		}
		return spoken && quiet > 20
	}) {
		w.err("%d things are not taken; left over: %s", len(w.retry), w.left())
	}
}

// left describes the work that is not finished, except for the given kinds.
func (w *wakeful) left(but ...string) string {
	w.read()
	var out []string
	for what, query := range map[string]string{
		"requests": "SELECT count(*) FROM requests WHERE state NOT IN ('done', 'failed', 'cancelled')",
		"tasks":    "SELECT count(*) FROM tasks WHERE running = 1",
		"held":     "SELECT count(*) FROM rule_waits",
		"waits":    "SELECT count(*) FROM workflows WHERE ended_at = 0",
	} {
		if n := w.s.Count(query); n > 0 && !slices.Contains(but, what) {
			out = append(out, fmt.Sprint(n, " ", what))
		}
	}
	for wish, talk := range w.wishes {
		if _, answered := w.told(wish); answered == 0 && !w.stops && !w.gone[talk] {
			out = append(out, wish)
		}
	}
	if n := w.s.Backlog(); n != 0 {
		out = append(out, fmt.Sprint(n, " events"))
	}
	return strings.Join(out, ", ")
}

// read reads the current histories of the conversations.
func (w *wakeful) read() {
	for _, session := range slices.Concat(w.talks, w.titled) {
		var out struct{ Messages []e2e.Said }
		if w.s.Request("GET", "/sessions/"+session+"/messages?limit=1000", nil, &out) == http.StatusOK {
			w.histories[session] = out.Messages
		}
	}
}

// told counts how often a wish is in the history as a prompt and as an answer.
func (w *wakeful) told(wish string) (said, answered int) {
	for _, m := range w.histories[w.wishes[wish]] {
		switch {
		case m.Role == "user" && strings.Contains(m.Text(), "please "+wish):
			said++
		case m.Role == "assistant" && slices.Contains(strings.Fields(m.Text()), wish):
			answered++
		}
	}
	return said, answered
}

// check checks all guarantees at the end.
func (w *wakeful) check() {
	w.t.Helper()
	for wish := range w.wishes {
		said, answered := w.told(wish)
		if w.gone[w.wishes[wish]] || w.stops && said <= 1 && answered == 0 {
			continue // a stop drops queued messages
		}
		if said != 1 || answered != 1 {
			w.err("%s was said %d times and answered %d times", wish, said, answered)
		}
	}
	w.checkTasks()
	w.checkWorkflows()
	w.checkEvents()
	w.checkFiles()
	w.checkLists()
	if n := w.s.Count("SELECT count(*) FROM requests WHERE state NOT IN ('done', 'cancelled') AND session_id NOT LIKE 'sub-%'"); n > 0 {
		w.err("%d requests failed", n)
	}
	if n := w.s.Count("SELECT count(*) FROM requests WHERE state <> 'done' AND session_id NOT LIKE 'sub-%'"); n > 0 && !w.stops {
		w.err("%d requests were cancelled", n)
	}
	if n := w.s.Count("SELECT count(*) FROM bus_dead_letters"); n > 0 {
		out, _ := w.command("dlq", "list")
		w.err("%d dead letters:\n%s", n, out)
	}
}

// handled is the outcome of an event: a row about what a rule did.
type handled struct{ Rule, Outcome, SessionID string }

func (w *wakeful) outcomes() map[string][]handled {
	w.t.Helper()
	out := map[string][]handled{}
	for _, row := range w.s.Rows("SELECT event_id, rule, outcome, session_id FROM rule_runs UNION ALL SELECT event_id, rule, outcome, session_id FROM rule_refusals") {
		out[row[0]] = append(out[row[0]], handled{row[1], row[2], row[3]})
	}
	return out
}

// envLog returns the events in the log that the rules received, by ID.
func (w *wakeful) envLog() map[string]event.EnvEvent {
	out := map[string]event.EnvEvent{}
	for _, e := range w.s.Topic("env") {
		p, err := event.Decode(e)
		if err != nil {
			w.t.Fatal(err)
		}
		if e, ok := p.(event.EnvEvent); ok {
			out[e.ID] = e
		}
	}
	return out
}

// checkEvents checks that each event has one outcome, and that the agent received it once if a rule
// woke the agent with it.
func (w *wakeful) checkEvents() {
	w.t.Helper()
	outcomes, told := w.outcomes(), map[string]int{}
	for _, messages := range w.histories {
		for _, m := range messages {
			if _, after, ok := strings.Cut(m.Text(), "Event ID: \""); ok && m.Role == "user" {
				id, _, _ := strings.Cut(after, "\"")
				told[id]++
			}
		}
	}
	for id, e := range w.envLog() {
		switch {
		case environment.ObserverOnly(e.Type) || e.Type == "tool.error" || strings.HasPrefix(string(e.Type), "user_") || strings.HasPrefix(string(e.Type), "session."):
		case len(outcomes[id]) != 1:
			w.err("%s %s came to %+v", e.Type, id, outcomes[id])
		}
	}
	for id, came := range outcomes {
		want := 0
		if came[0].Outcome == environment.OutcomeAgent {
			want = 1
		}
		unheard := told[id] == 0 && (w.stops || w.gone[came[0].SessionID])
		if len(came) != 1 || told[id] != want && !unheard && came[0].Outcome != environment.OutcomeWorkflow {
			w.err("%s came to %+v and was told %d times", id, came, told[id])
		}
		delete(told, id)
	}
	for id, n := range told {
		w.err("%s was told %d times, and no rule did it", id, n)
	}
	// Each delivery is one event.
	for id, name := range w.hooks {
		n := 0
		for event := range outcomes {
			if name == "once" && strings.HasPrefix(event, "webhook:"+name+":"+id+"-") || event == "webhook:"+name+":"+id {
				n++
			}
		}
		if n != 1 {
			w.err("the webhook %s to %s was %d events", id, name, n)
		}
	}
	for id := range outcomes {
		if strings.Contains(id, "forged") {
			w.err("%s is an event", id)
		}
	}
}

// touch creates, changes, moves, or removes a file.
func (w *wakeful) touch(n int) {
	path := func(name string) string { return filepath.Join(w.dir, name) }
	fresh := fmt.Sprint("f", n, ".txt")
	if len(w.names) == 0 || w.rnd.IntN(3) == 0 {
		w.names = append(w.names, fresh)
		w.must(os.WriteFile(path(fresh), []byte(fresh), 0o600))
		w.note("%s is written", fresh)
		return
	}
	name := pick(w.rnd, w.names...)
	gone := func() { w.names = slices.DeleteFunc(w.names, func(other string) bool { return other == name }) }
	switch w.rnd.IntN(6) {
	case 0, 1:
		w.note("%s is changed", name)
		w.must(os.WriteFile(path(name), bytes.Repeat([]byte("x"), n), 0o600))
	case 2:
		w.note("%s becomes %s", name, fresh)
		w.must(os.Rename(path(name), path(fresh)))
		gone()
		w.names = append(w.names, fresh)
	case 3:
		other := pick(w.rnd, w.names...)
		w.note("%s becomes %s, which is there", name, other)
		w.must(os.Rename(path(name), path(other)))
		if name != other {
			gone()
		}
	case 4:
		w.note("%s is removed", name)
		w.must(os.Remove(path(name)))
		gone()
	case 5:
		w.note("%s comes back at once", name)
		w.must(os.Remove(path(name)))
		w.must(os.WriteFile(path(name), bytes.Repeat([]byte("y"), n), 0o600))
	}
}

// checkFiles checks that the reports about each file match what happened to it.
func (w *wakeful) checkFiles() {
	w.t.Helper()
	type said struct {
		Path, Change string
		Size         *int64
	}
	last := map[string]said{}
	for _, m := range w.histories[w.titled[2]] {
		for _, text := range m.ToolTexts() {
			var e struct {
				ID      string `json:"event_id"`
				Payload said
			}
			if json.Unmarshal([]byte(text), &e) != nil || e.Payload.Path == "" {
				continue
			}
			now, was := e.Payload, last[e.Payload.Path]
			there := was.Change == "create" || was.Change == "write"
			if (now.Change == "create") == there {
				w.err("%s was told as %s after %q", now.Path, now.Change, was.Change)
			}
			last[now.Path] = now
		}
	}
	for path, was := range last {
		info, err := os.Stat(path)
		there := was.Change == "create" || was.Change == "write"
		if (err == nil) != there || there && info.Size() != *was.Size {
			w.err("%s was told as %+v last, and is there: %t", path, was, err == nil)
		}
	}
	for _, name := range w.names {
		if _, known := last[filepath.Join(w.dir, name)]; !known {
			w.err("%s was never told", name)
		}
	}
}

// checkTasks checks that the end of each task was reported once, unless the agent itself stopped
// the task.
func (w *wakeful) checkTasks() {
	w.t.Helper()
	ends := map[string]int{}
	for _, messages := range w.histories {
		for _, e := range endsIn(messages) {
			ends[e.Payload.TaskID]++
		}
	}
	all := 0
	for _, talk := range w.talks {
		for _, one := range tasksOf(w.s, talk) {
			all++
			want := 1
			if one.StoppedBy == task.ByAgent {
				want = 0
			}
			if w.stops {
				want = min(want, ends[one.ID]) // a stop drops queued messages
			}
			if ends[one.ID] != want || one.State == task.Running {
				w.err("the task %s is %s (%s) and its end was told %d times", one.ID, one.State, one.Reason, ends[one.ID])
			}
		}
	}
	if n := w.s.Count("SELECT count(*) FROM tasks WHERE session_id IN ('" + strings.Join(w.talks, "', '") + "')"); n != all {
		w.err("%d of %d tasks are listed", all, n)
	}
}

// checkWorkflows checks that each workflow woke the agent as often as its wait was resolved.
func (w *wakeful) checkWorkflows() {
	w.t.Helper()
	flows := w.workflows()
	if n := w.s.Count("SELECT count(*) FROM workflows"); n != len(flows) && n < 200 {
		w.err("%d of %d workflows are listed", len(flows), n)
	}
	woken := map[string]int{}
	for _, messages := range w.histories {
		for _, m := range messages {
			if _, after, ok := strings.Cut(m.Text(), "You are woken by the workflow "); ok && m.Role == "system" {
				id, _, _ := strings.Cut(after, ",")
				woken[id]++
			}
		}
	}
	for _, f := range flows {
		want := 0
		if f.State == workflow.Resolved {
			want = 1
		}
		if f.Tasks[0].Wait.Kind == workflow.BySchedule { // at most once per minute
			want = min(f.Tasks[0].Runs, int(f.EndedAt/60_000-f.CreatedAt/60_000))
		}
		heard := woken[f.ID] == want || woken[f.ID] < want && (w.stops || w.gone[f.Resume.SessionID])
		if !heard || f.Resumes != want || !f.State.Ended() {
			w.err("the workflow %s (%s) is %s and woke the agent %d times (%d)", f.ID, f.Summary, f.State, woken[f.ID], f.Resumes)
		}
		if n := w.s.Count("SELECT count(*) FROM requests WHERE id LIKE 'wf:" + f.ID + ":%'"); n > want {
			w.err("the workflow %s made %d requests", f.ID, n)
		}
	}
}

// checkLists checks that the API's lists match what happened.
func (w *wakeful) checkLists() {
	w.t.Helper()
	var sources struct{ Sources []environment.SourceCounts }
	w.s.Request("GET", "/sources", nil, &sources)
	for _, c := range sources.Sources {
		if c.Waiting != 0 || c.Dropped != 0 && c.Kind != environment.SourceWebhook || c.Trouble != "" {
			w.err("the source %+v is not at rest", c)
		}
	}
	var rules struct {
		Rules []struct {
			Name  string
			Today map[string]int
		}
	}
	w.s.Request("GET", "/rules", nil, &rules)
	for _, r := range rules.Rules {
		want := map[string]int{}
		for _, row := range w.s.Rows("SELECT outcome FROM rule_runs WHERE rule = '" + r.Name + "' UNION ALL SELECT outcome FROM rule_refusals WHERE rule = '" + r.Name + "'") {
			want[row[0]]++
		}
		for outcome, n := range r.Today {
			if want[outcome] != n {
				w.err("the rule %s says that %s came %d times, it did %d times", r.Name, outcome, n, want[outcome])
			}
		}
	}
	for _, args := range [][]string{{"rules", "list"}, {"sources"}, {"tasks", "list"}, {"workflows", "list"}, {"groups", "list"}} {
		if out, err := w.command(args...); err != nil {
			w.err("lilac %s: %v\n%s", args, err, out)
		}
	}
}

// nothingRuns checks that no command of a task is still running.
func (w *wakeful) nothingRuns() {
	w.t.Helper()
	var left []string
	if !e2e.Poll(answerWithin, func() bool {
		left = nil
		all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range all {
			if line, err := os.ReadFile(file); err == nil && strings.Contains(string(line), w.mark) {
				left = append(left, file+" "+strings.ReplaceAll(string(line), "\x00", " "))
			}
		}
		return len(left) == 0
	}) {
		w.err("commands were left: %q", left)
	}
}

// command runs a CLI command of the program in the environment of the server.
func (w *wakeful) command(args ...string) (out string, err error) {
	cmd := exec.Command(e2e.Binary(w.t), args...)
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.s.Dir, "LILAC_TOKEN=" + e2e.Token, "LILAC_ADDR=" + w.s.Addr,
		"LILAC_DATA_DIR=" + filepath.Join(w.s.Dir, "data"), "LILAC_WORKSPACE=" + filepath.Join(w.s.Dir, "workspace"),
	}, w.s.Env...)
	raw, err := cmd.CombinedOutput()
	return string(raw), err
}
