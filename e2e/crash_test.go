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
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

// answerWithin bounds a request that was interrupted by a kill and resumed.
const answerWithin = 60 * time.Second

// The program is killed before and after each commit of a conversation (without CI=true: at a few
// points), and restarted. Every time, there must be exactly one answer in the end. The conversation
// consists of a prompt (with an Idempotency-Key, and sent again if there was no response), a model
// call that requests a tool, the tool call, and a final model call.
func TestEveryAcceptedMessageIsAnsweredOnce(t *testing.T) {
	needsCommands(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		points := fewKillPoints
		if effort.Full() {
			points = killPoints(t, bus)
		}
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

// The same on PostgreSQL, at a few points; the long form kills at every point, 200 times in all:
// LILAC_LONG=1 go test ./e2e -run OnceOnPostgres
func TestEveryAcceptedMessageIsAnsweredOnceOnPostgres(t *testing.T) {
	needsCommands(t)
	t.Parallel()
	points := fewKillPoints
	if many(0, 1) == 1 {
		points = nil
		for len(points) < 200 {
			points = append(points, killPoints(t, e2e.Postgres)...)
		}
		points = points[:200]
	}
	t.Logf("%d kill points", len(points))
	for i, point := range points {
		t.Run(strings.NewReplacer(":", "_", "/", "").Replace(point)+fmt.Sprint("_", i), func(t *testing.T) {
			t.Parallel()
			at, _, _ := strings.Cut(point, "#")
			for _, wrong := range crash(t, e2e.Postgres, at, protected{}) {
				t.Error(wrong)
			}
		})
	}
}

// accepted is the point at which the prompt is committed but the response is not sent. The client
// cannot know the outcome and must send the prompt again.
const accepted = "answer:/prompt"

// fewKillPoints are points from the beginning of a conversation to its end.
var fewKillPoints = []string{accepted, "record:end", "recorded:tool_start", "before:6", "after:9"}

// With one safeguard disabled, the same crashes must make the test fail; otherwise, the test above
// proves nothing. The points are named by the step, because the number of a commit differs from
// run to run.
func TestControlCrashesWithoutProtectionAreNoticed(t *testing.T) {
	effort.SkipDetail(t)
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

func TestControlALogThatIsLostWithTheProcessIsNoticed(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	needsCommands(t)
	noticed(t, crash(t, e2e.SQLite, accepted, protected{noLog: true}), "the session was lost")
}

// protected says which safeguard is disabled. The zero value disables none.
type protected struct {
	// noKey sends a prompt again with a different Idempotency-Key.
	noKey bool
	// noLog deletes the event log of the database at a crash, to simulate a queue in memory.
	noLog bool
	// env disables a safeguard in the program; see LILAC_WITHOUT.
	env string
}

// killPoints lists all points to kill at: the named ones, and those around each commit of the
// conversation. Commits are grouped depending on timing, so the same number may be another step in
// each run. The long form tests all points five times.
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
		for n := 1; n <= commits(t, s); n++ {
			points = append(points, fmt.Sprintf("before:%d#%d", n, round), fmt.Sprintf("after:%d#%d", n, round))
		}
	}
	return points
}

// namedPoints lists the points that denote the same step in each run.
func namedPoints() []string {
	points := []string{accepted}
	for _, kind := range []string{"queued", "started", "input", "model", "tool_start", "tool_end", "end"} {
		points = append(points, "record:"+kind, "recorded:"+kind)
	}
	return points
}

// commits returns how many commits the running server has made: with LILAC_KILL_AT=count, the
// program writes the number to a file in its data directory.
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

// crash kills the program at a point of the conversation, lets the conversation continue, and
// returns the problems at the end.
func crash(t *testing.T, bus e2e.Engine, point string, without protected) (wrong []string) {
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	model := newToolModel(t, func(o *llmtest.Options) { o.AllowChanges = without.noKey })
	s := e2e.New(t, slices.Concat(bus(t), model.env(), []string{without.env})...)
	s.Spawn("LILAC_KILL_AT=" + point)
	// paid lists the steps whose model call was completed when the process ended.
	var paid []int
	var sent e2e.Accepted
	forgot := false // the process ended after it accepted the prompt, and its log was deleted
	ended := false
	revive := func() {
		if !s.WaitExit(0) {
			return
		}
		ended = true
		paid = model.calls()
		forgot = without.noLog && sent.RequestID != ""
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
		// A commit is visible a moment before the process kills itself after it.
		e2e.Poll(answerWithin, func() bool {
			revive()
			return ended
		})
		if !ended {
			add("the process was not killed")
		}
	}
	if !ended { // a later commit must not kill the process while the test reads
		s.Kill()
		s.Restart()
	}
	if story.State != string(event.StateDone) {
		add("the request ended as %s (%s)", story.State, story.Detail)
	}
	output := s.WholeOutput(sent.RequestID, answerWithin)
	text, faults := e2e.OutputText(t, output)
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
	if lines := countLines(t, filepath.Join(s.Workspace(session), "count.txt")); lines > 1 {
		add("the tool took effect %d times", lines)
	} else if lines == 0 && !model.toldUnknown() {
		add("the tool took no effect and the model was not told that its outcome is unknown")
	}
	return wrong
}

// promptAndKill sends a prompt to a program that kills itself during its processing, and restarts
// the program. If the response was lost, it sends the prompt again, as a client would.
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
	journaled := 0 // steps that were in the journal when the run was resumed
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

// countEnds counts the final states in the topic of requests.
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
