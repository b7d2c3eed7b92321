package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

// An ordeal is a server with users who prompt and stop, a model that misbehaves at random, and
// kills.
type ordeal struct {
	t     *testing.T
	s     *e2e.Server
	m     *randomModel
	rnd   *rand.Rand
	up    bool
	kills bool // kill and stop the program
	stops bool // users interrupt, stop, and delete
	talks []string
	gone  map[string]bool
	asked []saidIn
	seen  *reader
	trace []string
}

// saidIn is an accepted prompt.
type saidIn struct {
	talk, text string
	e2e.Accepted
}

func newOrdeal(t *testing.T, seed uint64) *ordeal {
	rnd := rand.New(rand.NewPCG(seed, 3))
	m := &randomModel{rnd: rand.New(rand.NewPCG(seed, 9)), mark: fmt.Sprintf("98%07d.%d", os.Getpid(), seed)}
	m.server = llmtest.New(t, m.answer)
	config := fmt.Sprintf("model: x/m\nproviders: {x: {type: %s, baseURL: %q, apiKey: k}}\n", []string{"anthropic", "openai"}[seed%2], m.server.URL) +
		fmt.Sprintf("limits: {request: {steps: %d, tokens: 0}, day: {tokens: 0}}\n", pick(rnd, 0, 0, 4)) +
		pick(rnd, "", "", "models: {x/m: {contextTokens: 12000, maxOutputTokens: 1000}}\n")
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &ordeal{
		t: t, s: e2e.Start(t, "LILAC_CONFIG="+file), m: m, rnd: rnd, up: true, kills: rnd.IntN(3) > 0, stops: rnd.IntN(3) > 0,
		gone: map[string]bool{}, trace: []string{config},
	}
	w.talks = []string{w.s.NewSession(), w.s.NewSession()}
	w.seen = follow(t, w.s, "")
	return w
}

func (w *ordeal) note(format string, args ...any) {
	w.trace = append(w.trace, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

func (w *ordeal) do(n int) {
	talk := pick(w.rnd, w.talks...)
	switch what := w.rnd.IntN(24); {
	case !w.up && what < 16:
		w.s.Restart()
		w.up = true
		w.note("%d: start", n)
	case !w.up:
		time.Sleep(time.Duration(w.rnd.IntN(200)) * time.Millisecond)
	case what < 10 && !w.gone[talk]:
		w.ask(talk, n)
	case what < 12 && w.stops:
		code := w.s.Request("POST", "/sessions/"+talk+"/cancel", map[string]any{"cancelQueued": w.rnd.IntN(2) == 0}, nil)
		w.note("%d: stop %s: %d", n, talk, code)
	case what < 13 && w.stops:
		code := w.s.Request("DELETE", "/sessions/"+talk, nil, nil)
		w.note("%d: delete %s: %d", n, talk, code)
		if code == http.StatusNoContent {
			w.gone[talk] = true
			w.talks = append(w.talks, w.s.NewSession())
		}
	case what < 15:
		w.reply("continue", "stop")
	case what < 16 && w.kills:
		w.s.Kill()
		w.up = false
		w.note("%d: kill", n)
	case what < 17 && w.kills:
		w.note("%d: ended in %s", n, w.s.Terminate(answerWithin))
		w.up = false
		w.nothingRuns()
	default:
		time.Sleep(time.Duration(w.rnd.IntN(300)) * time.Millisecond) // simulate slow users
	}
}

// ask sends a prompt, sometimes twice with the same key.
func (w *ordeal) ask(talk string, n int) {
	w.t.Helper()
	queues := []event.Queue{event.Prompt, event.Steer, event.FollowUp}
	if w.stops {
		queues = append(queues, event.Interrupt)
	}
	text, queue, key := fmt.Sprintf("#%d.", n), pick(w.rnd, queues...), fmt.Sprint("key", n)
	a, code := w.s.TryPrompt(talk, text, queue, key)
	w.note("%d: %s in %s as %s: %d %s", n, text, talk, queue, code, a.RequestID)
	if code != http.StatusOK {
		w.t.Errorf("the prompt was answered with %d", code)
		return
	}
	w.asked = append(w.asked, saidIn{talk, text, a})
	switch w.rnd.IntN(6) {
	case 0:
		if b, code := w.s.TryPrompt(talk, text, queue, key); code != http.StatusOK || b != a {
			w.t.Errorf("the same again is %d %+v, it was %+v", code, b, a)
		}
	case 1:
		if _, code := w.s.TryPrompt(talk, text+" other", queue, key); code != http.StatusConflict {
			w.t.Errorf("something else with the same key was answered with %d", code)
		}
	}
}

// reply answers requests that are paused at a limit, and reports whether there were any.
func (w *ordeal) reply(with ...string) (any bool) {
	for _, talk := range w.talks {
		var out struct {
			ActiveRequest string
			Paused        *struct{ Number int }
		}
		w.s.Request("GET", "/sessions/"+talk, nil, &out)
		if out.Paused != nil && out.ActiveRequest != "" {
			said := pick(w.rnd, with...)
			w.note("%s %s: %d", said, out.ActiveRequest, w.s.Request("POST", "/requests/"+out.ActiveRequest+"/"+said, nil, nil))
			any = true
		}
	}
	return any
}

// rest waits until all requests have ended.
func (w *ordeal) rest() {
	w.t.Helper()
	if !w.up {
		w.s.Restart()
	}
	w.m.mu.Lock()
	w.m.calm = true
	w.m.mu.Unlock()
	e2e.Eventually(w.t, 2*answerWithin, "all requests have ended", func() bool {
		return !w.reply("continue") && w.s.Backlog() == 0 && w.s.Count("SELECT count(*) FROM requests WHERE ended_at = 0") == 0
	})
}

// nothingRuns checks that no command of the model is still running.
func (w *ordeal) nothingRuns() {
	w.t.Helper()
	var left []string
	if !e2e.Poll(answerWithin, func() bool {
		left = nil
		all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range all {
			if line, err := os.ReadFile(file); err == nil && strings.Contains(string(line), w.m.mark) {
				left = append(left, file+" "+strings.ReplaceAll(string(line), "\x00", " "))
			}
		}
		return len(left) == 0
	}) {
		w.t.Errorf("commands were left: %q", left)
	}
}

// once checks that the provider rejected no request, that each request ended once, and that each
// prompt is in the history once.
func (w *ordeal) once() {
	w.t.Helper()
	w.m.mu.Lock()
	for _, why := range w.m.refused[:min(3, len(w.m.refused))] {
		w.t.Error(why)
	}
	w.m.mu.Unlock()
	ended := map[string]int{}
	for _, e := range w.s.Topic(string(event.TopicRequest)) {
		p, err := event.Decode(e)
		if err != nil {
			w.t.Fatal(err)
		}
		if l, ok := p.(event.RequestLifecycle); ok && l.State.Ended() {
			id := e.Headers[event.HeaderRequestID]
			if ended[id]++; ended[id] > 1 {
				w.t.Errorf("%s ended %d times", id, ended[id])
			}
		}
	}
	for _, a := range w.asked {
		if w.gone[a.talk] {
			continue
		}
		n := 0
		for _, m := range w.s.Messages(a.talk) {
			if m.Role == "user" && strings.Contains(m.Text(), a.text) {
				n++
			}
		}
		if n > 1 || n == 0 && !w.stops {
			w.t.Errorf("%q (%s) is in the history %d times", a.text, a.RequestID, n)
		}
	}
}

// same checks that the output, the stream, and the history agree. It returns the texts of the
// requests for which they do.
func (w *ordeal) same() (texts map[string]string) {
	w.t.Helper()
	texts = map[string]string{}
	for _, a := range w.asked {
		if w.gone[a.talk] || w.s.Story(a.RequestID).State != string(event.StateDone) {
			continue
		}
		text, wrong := e2e.OutputText(w.t, w.s.Output(a.RequestID))
		var said []string
		for _, m := range w.s.Messages(a.talk) {
			if m.Role == "assistant" && m.RequestID == a.RequestID && m.Text() != "" {
				said = append(said, m.Text())
			}
		}
		if history := strings.Join(said, "\n\n"); len(wrong) > 0 || history != text {
			w.t.Errorf("%s: the history has %q, the output %q: %q", a.RequestID, history, text, wrong)
		}
		texts[a.RequestID] = text
	}
	showed := map[string]string{}
	if !e2e.Poll(answerWithin, func() bool { showed = w.seen.of(texts); return maps.Equal(showed, texts) }) {
		w.t.Errorf("the stream showed %q, the output is %q", showed, texts)
	}
	return texts
}

// of returns the texts that the stream showed to the end, for the requests in want.
func (r *reader) of(want map[string]string) map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := map[string]string{}
	for id := range want {
		if r.over[id] {
			got[id] = r.texts[id]
		}
	}
	return got
}

// resumed checks that a reader that reconnects from any position sees the same events as others.
func (w *ordeal) resumed(want map[string]string) {
	w.t.Helper()
	read := func(before []e2e.Frame, cursor string) (all []e2e.Frame) {
		all = slices.Clone(before)
		r := &reader{texts: map[string]string{}, over: map[string]bool{}}
		for _, f := range before {
			r.frame(f)
		}
		ctx, stop := context.WithTimeout(w.t.Context(), answerWithin)
		defer stop()
		if maps.Equal(r.of(want), want) {
			return all
		}
		_ = w.s.Stream(ctx, "from=begin", cursor, func(f e2e.Frame) {
			all = append(all, f)
			r.frame(f)
			if maps.Equal(r.of(want), want) {
				stop()
			}
		})
		if got := r.of(want); !maps.Equal(got, want) || len(r.wrong) > 0 {
			w.t.Errorf("after %d frames a reader saw %q, want %q: %q", len(before), got, want, r.wrong)
		}
		return all
	}
	all := read(nil, "")
	for range 3 {
		if len(all) == 0 || w.t.Failed() {
			return
		}
		at := w.rnd.IntN(len(all))
		if all[at].ID == "" {
			continue // a client cannot reconnect from here
		}
		read(all[:at+1], all[at].ID)
	}
}

// counted checks that all usage that the provider billed was counted once. Usage of calls that a
// kill or a stop interrupted is not checked.
func (w *ordeal) counted() {
	w.t.Helper()
	used := w.s.Count("SELECT coalesce(sum(json_extract(usage, '$.inputTokens')), 0) FROM requests") / price
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	w.note("%d requests, %d calls, %d whole, %d counted", len(w.asked), w.m.server.Count(), w.m.whole, used)
	if used > w.m.whole || used < w.m.whole && !w.kills && !w.stops {
		w.t.Errorf("%d answers are counted, %d were billed", used, w.m.whole)
	}
}

// Whatever a model answers while users prompt and stop and the program is killed: each prompt is
// answered once, the provider accepts the next request, all readers see the same, and no command
// keeps running.
func TestWhateverModelsDo(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	seeds, steps := uint64(2), 40
	if os.Getenv("LILAC_LONG") != "" {
		seeds, steps = 60, 70
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newOrdeal(t, seed)
			defer func() {
				if t.Failed() {
					t.Log(strings.Join(append(w.trace, w.m.trace...), "\n"))
				}
			}()
			for n := range steps {
				w.do(n)
			}
			w.rest()
			w.once()
			w.resumed(w.same())
			w.counted()
			w.s.Terminate(answerWithin)
			w.nothingRuns()
		})
	}
}
