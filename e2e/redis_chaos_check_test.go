package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
)

// left describes the work that is not finished. It ignores the timer and its session, which never
// end.
func (w *redisChaos) left() string {
	w.read()
	var out []string
	for what, query := range map[string]string{
		"requests": `SELECT count(*) FROM requests WHERE state NOT IN ('done', 'failed', 'cancelled')
			AND session_id NOT IN (SELECT id FROM sessions WHERE title = 'pulse')`,
		"relays":    "SELECT count(*) FROM relays WHERE live = 1",
		"outbox":    "SELECT count(*) FROM outbox WHERE unfinished = 1",
		"tasks":     "SELECT count(*) FROM tasks WHERE running = 1",
		"workflows": "SELECT count(*) FROM workflows WHERE ended_at = 0",
	} {
		if n := w.s.Count(query); n > 0 {
			out = append(out, fmt.Sprint(n, " ", what))
		}
	}
	for wish := range w.wishes {
		if _, answered := w.told(wish); answered == 0 {
			out = append(out, wish)
		}
	}
	for _, hook := range w.hooks {
		if w.heard(hook) == 0 {
			out = append(out, hook)
		}
	}
	return strings.Join(out, ", ")
}

// read reads the current histories of the conversations.
func (w *redisChaos) read() {
	for _, session := range slices.Concat(w.talks, []string{w.ops, w.pulse, w.d.General, w.d.Lounge}) {
		var out struct{ Messages []e2e.Said }
		w.s.Request("GET", "/sessions/"+session+"/messages?limit=1000", nil, &out)
		w.histories[session] = out.Messages
	}
}

// told counts how often a wish is in the history as a prompt and as an answer.
func (w *redisChaos) told(wish string) (said, answered int) {
	for _, m := range w.histories[w.wishes[wish]] {
		switch holds := slices.Contains(strings.Fields(m.Text()), wish); {
		case holds && m.Role == "user":
			said++
		case holds && m.Role == "assistant":
			answered++
		}
	}
	return said, answered
}

// heard counts how often a webhook is in the histories.
func (w *redisChaos) heard(hook string) (n int) {
	for _, m := range w.histories[w.ops] {
		if m.Role == "user" && strings.Contains(m.Text(), `The hook "`+hook+`" came.`) {
			n++
		}
	}
	return n
}

// check checks all guarantees at the end.
func (w *redisChaos) check() {
	w.t.Helper()
	for wish := range w.wishes {
		w.granted(wish)
	}
	for _, hook := range w.hooks {
		if n := w.heard(hook); n != 1 {
			w.t.Errorf("%s was told %d times", hook, n)
		}
	}
	w.ends()
	w.slots()
	if woken, flows := w.s.Count("SELECT count(*) FROM requests WHERE id LIKE 'wf:%:1'"), w.s.Count("SELECT count(*) FROM workflows"); woken != flows {
		w.t.Errorf("%d workflows woke the agent %d times", flows, woken)
	}
	if n := w.s.Count("SELECT count(*) FROM requests WHERE state IN ('failed', 'cancelled')"); n > 0 {
		w.t.Errorf("%d requests failed", n)
	}
	if n := w.s.Count("SELECT count(*) FROM bus_dead_letters"); n > 0 {
		out, _ := w.command("dlq", "list")
		w.t.Errorf("%d dead letters:\n%s", n, out)
	}
	if out, err := w.command("doctor"); err != nil {
		w.t.Errorf("lilac doctor: %v\n%s", err, out)
	}
	w.seen()
	for _, topic := range []string{"env", "evt.request", "evt.workflow", "evt.adapter"} {
		if !e2e.Poll(answerWithin, func() bool { return w.r.Do("XLEN", "lilac:s:"+topic) == int64(len(w.s.Topic(topic))) }) {
			w.t.Errorf("%v events of %s are mirrored, of %d", w.r.Do("XLEN", "lilac:s:"+topic), topic, len(w.s.Topic(topic)))
		}
	}
	for _, v := range w.d.TakeViolations() {
		w.t.Errorf("Discord: %s", v)
	}
}

// granted checks that a wish is in the history once and was answered once.
func (w *redisChaos) granted(wish string) {
	w.t.Helper()
	where := w.wishes[wish]
	if said, answered := w.told(wish); said != 1 || answered != 1 {
		w.t.Errorf("%s was said %d times and answered %d times in the history", wish, said, answered)
	}
	if slices.Contains(w.talks, where) {
		return
	}
	shown := 0
	for _, m := range w.d.Ours(where) {
		if slices.Contains(strings.Fields(m.Content), wish) {
			shown++
			if len(m.Buttons) > 0 {
				w.t.Errorf("the answer to %s is not whole: %q", wish, m.Content)
			}
		}
	}
	if shown != 1 {
		w.t.Errorf("%s was answered %d times on Discord", wish, shown)
	}
}

var replies = regexp.MustCompile(`reply r\w+ to \d+`)

// ends checks that each task's end and each reply was reported once.
func (w *redisChaos) ends() {
	w.t.Helper()
	ends, told := map[string]int{}, map[string]int{}
	for _, messages := range w.histories {
		for _, e := range endsIn(messages) {
			ends[e.ID]++
		}
		for _, m := range messages {
			if m.Role == "user" {
				for _, reply := range replies.FindAllString(m.Text(), -1) {
					told[reply]++
				}
			}
		}
	}
	if tasks := w.s.Count("SELECT count(*) FROM tasks"); len(ends) != tasks {
		w.t.Errorf("the ends of %d of %d tasks were told", len(ends), tasks)
	}
	if len(told) != len(w.replied) {
		w.t.Errorf("%d of %d replies were told", len(told), len(w.replied))
	}
	for _, times := range []map[string]int{ends, told} {
		for what, n := range times {
			if n != 1 {
				w.t.Errorf("%q was told %d times", what, n)
			}
		}
	}
}

var slot = regexp.MustCompile(`The slot "(\S+)" came\.`)

// slots checks that each time of the timer was reported at most once, in order.
func (w *redisChaos) slots() {
	w.t.Helper()
	last := ""
	for _, m := range w.histories[w.pulse] {
		if found := slot.FindStringSubmatch(m.Text()); m.Role == "user" && found != nil {
			if found[1] <= last {
				w.t.Errorf("the slot %s was told after %s", found[1], last)
			}
			last = found[1]
		}
	}
	if last == "" {
		w.t.Error("the timer was not told")
	}
}

// seen checks that the reader of the event stream has seen the end of each request, once.
func (w *redisChaos) seen() {
	w.t.Helper()
	var missed []string
	e2e.Poll(answerWithin, func() bool {
		missed = nil
		var out struct{ Requests []struct{ ID, State string } }
		w.s.Request("GET", "/requests?limit=1000", nil, &out)
		w.reader.mu.Lock()
		defer w.reader.mu.Unlock()
		for _, r := range out.Requests {
			if event.RequestState(r.State).Ended() && !w.reader.over[r.ID] {
				missed = append(missed, r.ID)
			}
		}
		return len(missed) == 0
	})
	if len(missed) > 0 {
		w.t.Errorf("the end of %v was not seen", missed)
	}
	w.reader.mu.Lock()
	defer w.reader.mu.Unlock()
	for _, wrong := range w.reader.wrong {
		w.t.Error(wrong)
	}
}

// command runs a CLI command of the program in the environment of the server.
func (w *redisChaos) command(args ...string) (out string, err error) {
	cmd := exec.Command(e2e.Binary(w.t), args...)
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.s.Dir, "LILAC_TOKEN=" + e2e.Token, "LILAC_ADDR=" + w.s.Addr,
		"LILAC_DATA_DIR=" + filepath.Join(w.s.Dir, "data"), "LILAC_WORKSPACE=" + filepath.Join(w.s.Dir, "workspace"),
	}, w.env()...)
	raw, err := cmd.CombinedOutput()
	return string(raw), err
}
