package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/redistest"
)

// answerWithin bounds a request that was killed and taken up again.
const answerWithin = 60 * time.Second

// A conversation is killed before and after each of its commits, started
// again, and must end with exactly one answer, every time. The steps: a prompt
// (with an Idempotency-Key that is sent again when nobody answered), a model
// call that asks for a tool, the tool, and a model call that ends.
func TestEveryAcceptedMessageIsAnsweredOnce(t *testing.T) {
	needsCommands(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		points := killPoints(t, bus)
		t.Logf("%d kill points", len(points))
		for _, point := range points {
			t.Run(strings.NewReplacer(":", "_", "/", "").Replace(point), func(t *testing.T) {
				t.Parallel()
				at, _, _ := strings.Cut(point, "#")
				for _, wrong := range crash(t, bus, at, protected{}) {
					t.Error(wrong)
				}
			})
		}
	})
}

// A power cut takes the program and a broker that had synced nothing. What was
// streamed so far is lost; no answer is, and none is given twice.
func TestAPowerCutOfProgramAndBrokerLosesNoAnswer(t *testing.T) {
	needsCommands(t)
	t.Parallel()
	for _, point := range namedPoints() {
		t.Run(strings.NewReplacer(":", "_", "/", "").Replace(point), func(t *testing.T) {
			t.Parallel()
			r := redistest.Start(t, redistest.Options{})
			for _, wrong := range crash(t, func(testing.TB) []string { return e2e.OnRedis(r) }, point, protected{broker: r}) {
				t.Error(wrong)
			}
		})
	}
}

// accepted is the point at which the prompt is committed and its answer has
// not left: the sender cannot know, and must send it again.
const accepted = "answer:/prompt"

// The same crashes with one protection off must be noticed, or the test above
// proves nothing. The points are named by what has happened there: the number
// of a commit means something else in each run.
func TestControlCrashesWithoutProtectionAreNoticed(t *testing.T) {
	needsCommands(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		for _, c := range []struct {
			name, at string
			without  protected
			want     string
		}{
			{"a prompt that is sent again without its key", accepted, protected{noKey: true}, "the history has 2 prompts"},
			{"a call that is run again after its start was forgotten", "record:tool_end", protected{env: "LILAC_WITHOUT=journal"}, "the tool took effect 2 times"},
			{"a step that is forgotten", "recorded:model", protected{env: "LILAC_WITHOUT=journal"}, "its model call was made 1 times more"},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				noticed(t, crash(t, bus, c.at, c.without), c.want)
			})
		}
	})
}

// On Redis it takes the outgoing rows as well to lose the log:
// TestControlWithoutOutgoingRowsThePromptIsLost.
func TestControlALogThatIsLostWithTheProcessIsNoticed(t *testing.T) {
	t.Parallel()
	needsCommands(t)
	noticed(t, crash(t, e2e.SQLite, accepted, protected{noLog: true}), "the session was lost")
}

// protected says which protection is off; the zero value has all.
type protected struct {
	// noKey sends a prompt again under another Idempotency-Key.
	noKey bool
	// noLog removes the database's log at a crash, as a queue in memory does.
	noLog bool
	// env switches a protection off in the program; see LILAC_WITHOUT.
	env string
	// broker, when set, loses everything at the crash.
	broker *redistest.Server
}

// killPoints are all points to kill at: those with a name, and around each of
// the commits that the conversation has. Commits are grouped by chance, so the
// number of one is another place in each run. The long form goes through all
// of them five times, the short one through those with a name.
func killPoints(t *testing.T, bus e2e.Engine) []string {
	t.Helper()
	model := newToolModel(t)
	s := e2e.Start(t, slices.Concat(bus(t), model.env(), []string{"LILAC_KILL_AT=count"})...)
	session := s.NewSession()
	s.WaitEnded(s.Prompt(session, "append a line", event.Prompt).RequestID, answerWithin)
	var points []string
	for round := range many(1, 5) {
		for _, point := range namedPoints() {
			points = append(points, fmt.Sprintf("%s#%d", point, round))
		}
		for n := 1; n <= commits(t, s) && !testing.Short(); n++ {
			points = append(points, fmt.Sprintf("before:%d#%d", n, round), fmt.Sprintf("after:%d#%d", n, round))
		}
	}
	return points
}

// namedPoints are the points that are the same act in each run.
func namedPoints() []string {
	points := []string{accepted}
	for _, kind := range []string{"queued", "started", "input", "model", "tool_start", "tool_end", "end"} {
		points = append(points, "record:"+kind, "recorded:"+kind)
	}
	return points
}

// commits reads how many commits the running server has made: with
// LILAC_KILL_AT=count the program writes the number beside its database.
func commits(t *testing.T, s *e2e.Server) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.Dir, "data", "commits"))
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if _, err := fmt.Sscan(string(data), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// crash kills the conversation at a point, lets it go on, and returns what is
// wrong with the end.
func crash(t *testing.T, bus e2e.Engine, point string, without protected) (wrong []string) {
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	model := newToolModel(t)
	s := e2e.New(t, slices.Concat(bus(t), model.env(), []string{without.env})...)
	s.Spawn("LILAC_KILL_AT=" + point)
	// paid are the steps whose model call was made when the process ended.
	var paid []int
	var sent e2e.Accepted
	forgot := false // the process ended, without its log, after it had accepted
	ended := false
	revive := func() {
		if !s.WaitExit(0) {
			return
		}
		ended = true
		paid = model.calls()
		forgot = without.noLog && sent.RequestID != ""
		if without.broker != nil {
			without.broker.Rollback(redistest.Snapshot{})
		}
		if without.noLog {
			if err := os.Remove(filepath.Join(s.Dir, "data", "lilac.db-wal")); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
		s.Restart()
	}
	session, key := "", "the-one-prompt"
	lost := false
	e2e.Eventually(t, answerWithin, "the prompt is accepted", func() bool {
		revive()
		if session == "" {
			var out struct{ ID string }
			if s.Request("POST", "/sessions", map[string]any{}, &out) == http.StatusCreated {
				session = out.ID
			}
			return false
		}
		if without.noKey {
			key += "+"
		}
		a, code := s.TryPrompt(session, "append a line", event.Prompt, key)
		sent, lost = a, code == http.StatusNotFound
		return code == http.StatusOK || lost
	})
	if lost {
		return []string{"the session was lost"}
	}
	var story e2e.RequestInfo
	e2e.Eventually(t, answerWithin, "the request has ended", func() bool {
		revive()
		story = s.Story(sent.RequestID)
		lost = story.ID == "" && forgot
		return event.RequestState(story.State).Ended() || lost
	})
	if lost {
		return []string{"the request was lost"}
	}

	stage, _, _ := strings.Cut(point, ":")
	if !ended && stage != "before" && stage != "after" {
		// What was committed can be seen a moment before the process ends of it.
		e2e.Poll(answerWithin, func() bool {
			revive()
			return ended
		})
		if !ended {
			add("the process was not killed")
		}
	}
	if !ended { // a later commit must not end it while the test looks
		s.Kill()
		s.Restart()
	}
	if story.State != string(event.StateDone) {
		add("the request ended as %s (%s)", story.State, story.Detail)
	}
	output := s.WholeOutput(sent.RequestID, answerWithin)
	text, faults := e2e.OutputText(t, output)
	if without.broker != nil {
		// What was streamed before is gone with the broker; the answer is not.
		text, faults = finalText(output)
	}
	wrong = append(wrong, faults...)
	if text != toolModelAnswer {
		add("the answer is %q, want %q", text, toolModelAnswer)
	}
	var users, answers int
	for _, m := range s.Messages(session) {
		switch {
		case m.Role == "user":
			users++
		case m.Role == "assistant" && strings.Contains(m.Text(), toolModelEnd):
			answers++
		}
	}
	if users != 1 || answers != 1 {
		add("the history has %d prompts and %d answers, want one of each", users, answers)
	}
	ends := 0
	e2e.Poll(answerWithin, func() bool {
		ends = countEnds(s)
		return ends > 0
	})
	if ends != 1 {
		add("requests ended %d times", ends)
	}
	wrong = append(wrong, paidTwice(story, paid, model.calls())...)
	if lines := countLines(t, filepath.Join(s.Dir, "workspace", "count.txt")); lines > 1 {
		add("the tool took effect %d times", lines)
	} else if lines == 0 && !model.toldUnknown() {
		add("the tool took no effect and the model was not told that its outcome is unknown")
	}
	return wrong
}

// promptAndKill says something in a session of a program that ends itself at
// what follows, and starts it again. The answer may get lost with the process:
// the prompt is sent again, as anybody does.
func promptAndKill(t *testing.T, s *e2e.Server, session, content string) e2e.Accepted {
	t.Helper()
	const key = "the-one-prompt"
	s.TryPrompt(session, content, event.Prompt, key)
	if !s.WaitExit(answerWithin) {
		t.Fatal("the program was not killed")
	}
	s.Restart()
	a, code := s.TryPrompt(session, content, event.Prompt, key)
	if code != http.StatusOK {
		t.Fatalf("the prompt was answered with %d", code)
	}
	return a
}

// paidTwice reports model calls that were repeated after they were journaled.
func paidTwice(story e2e.RequestInfo, before, after []int) (wrong []string) {
	journaled := 0 // steps that were in the journal when the run was taken up
	steps := 0
	for _, entry := range story.Entries {
		switch entry.Kind {
		case "model":
			steps = entry.Step
		case "recovered":
			journaled = steps
		}
	}
	for step := range journaled {
		if again := after[step] - before[step]; again > 0 {
			wrong = append(wrong, fmt.Sprintf("step %d was in the journal and its model call was made %d times more", step+1, again))
		}
	}
	return wrong
}

// finalText is the answer that ends an output; an output without exactly one is
// wrong.
func finalText(output []event.Event) (text string, wrong []string) {
	n := 0
	for _, e := range output {
		if p, err := event.Decode(e); err == nil {
			if final, ok := p.(event.FinalText); ok {
				text = final.FinalText
				n++
			}
		}
	}
	if n != 1 {
		wrong = append(wrong, fmt.Sprintf("the output has %d final texts, want one", n))
	}
	return text, wrong
}

// countEnds counts the end states in the topic of requests.
func countEnds(s *e2e.Server) (n int) {
	for _, e := range s.Topic("evt.request") {
		if p, err := event.Decode(e); err == nil {
			if l, ok := p.(event.RequestLifecycle); ok && l.State.Ended() {
				n++
			}
		}
	}
	return n
}

func countLines(t *testing.T, path string) int {
	t.Helper()
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(data), "\n")
}
