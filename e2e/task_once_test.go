package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lilac/internal/core/task"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

// X8: wherever the program is killed, the end of a task is reported once, and the task was started
// once.
func TestAnEndIsToldOnceWhereverTheProgramIsKilled(t *testing.T) {
	effort.SkipDetail(t)
	needsCommands(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		for name, kind := range taskKinds {
			for _, points := range taskPoints(t, bus, kind.input, kind.points) {
				t.Run(name+"_"+strings.NewReplacer(":", "_", " ", "_then_").Replace(points), func(t *testing.T) {
					t.Parallel()
					for _, wrong := range endOnce(t, bus, kind.input, strings.Fields(points), "") {
						t.Error(wrong)
					}
				})
			}
		}
	})
}

// taskKinds maps a name to a kind of task and to the points at which consecutive processes are
// killed. The short form for sub-agents is TestASubAgentSurvivesAKill.
var taskKinds = map[string]struct {
	input  map[string]any
	points []string
}{
	"command": {echoTask, []string{
		"task:running", "tasked:running", "task:completed", "tasked:completed",
		"tasked:running task:failed", "tasked:running tasked:failed",
	}},
	"agent": {map[string]any{"prompt": "Do the sub-agent's work."}, nil},
}

var echoTask = map[string]any{"command": "echo done"}

func TestControlAnEndThatIsToldAfterItWasWrittenIsLost(t *testing.T) {
	effort.SkipDetail(t)
	needsCommands(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		noticed(t, endOnce(t, bus, echoTask, []string{"tasked:completed"}, "LILAC_WITHOUT=telling"), "0 ends were told")
	})
}

func TestControlALostCommandThatNobodyLooksForRunsForEver(t *testing.T) {
	effort.SkipDetail(t)
	needsCommands(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		noticed(t, endOnce(t, bus, echoTask, []string{"tasked:running"}, "LILAC_WITHOUT=recovery"), "the task is running")
	})
}

// taskPoints returns the points. The long form adds every commit.
func taskPoints(t *testing.T, bus e2e.Engine, input map[string]any, points []string) []string {
	t.Helper()
	if os.Getenv("LILAC_LONG") == "" {
		return points
	}
	points = slices.Clone(points)
	model := startsTask(t, input)
	s := e2e.Start(t, slices.Concat(bus(t), model.env(), []string{"LILAC_KILL_AT=count"})...)
	session := s.NewSession()
	s.Prompt(session, "begin", event.Prompt)
	waitTold(t, s, session)
	for n := 1; n <= commits(t, s); n++ {
		points = append(points, fmt.Sprint("before:", n), fmt.Sprint("after:", n))
	}
	return points
}

// endOnce runs a background task in a session and kills each of the first processes at a point. It
// returns the problems at the end.
func endOnce(t *testing.T, bus e2e.Engine, input map[string]any, points []string, without string) (wrong []string) {
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	// Commits are grouped depending on timing, so a commit with a given number may not occur.
	byName := !slices.ContainsFunc(points, func(p string) bool { return strings.HasPrefix(p, "before:") || strings.HasPrefix(p, "after:") })
	within, kills := answerWithin, len(points)
	if without != "" {
		within = 5 * time.Second // lost events do not arrive later
	}
	model := startsTask(t, input)
	s := e2e.New(t, slices.Concat(bus(t), model.env(), []string{without})...)
	live := func() {
		if len(points) > 0 {
			s.Spawn("LILAC_KILL_AT=" + points[0])
			points = points[1:]
			return
		}
		s.Spawn()
	}
	live()
	killed := 0
	revive := func() {
		if s.WaitExit(0) {
			killed++
			live()
		}
	}
	session := ""
	e2e.Eventually(t, answerWithin, "the prompt is accepted", func() bool {
		revive()
		if session == "" {
			var out struct{ ID string }
			if s.Request("POST", "/sessions", map[string]any{}, &out) == http.StatusCreated {
				session = out.ID
			}
			return false
		}
		_, code := s.TryPrompt(session, "begin", event.Prompt, "the-one-prompt")
		return code == http.StatusOK
	})
	var tasks []task.Task
	var told []toldEnd
	settled := func() bool {
		revive()
		if tasks = tasksOf(s, session); len(tasks) == 0 || tasks[0].State == task.Running {
			return false
		}
		var out struct{ Messages []e2e.Said }
		if s.Request("GET", "/sessions/"+session+"/messages?limit=1000", nil, &out) != http.StatusOK {
			return false
		}
		told = endsIn(out.Messages)
		var info struct{ State string }
		return len(told) > 0 && s.Request("GET", "/sessions/"+session, nil, &info) == http.StatusOK && info.State == "idle"
	}
	if byName {
		e2e.Poll(answerWithin, func() bool { revive(); return killed == kills })
	}
	e2e.Poll(within, settled)
	if byName && killed != kills {
		add("the program was killed %d times, want %d", killed, kills)
	}
	// After another restart, an event that is reported again would appear twice.
	points = nil
	s.Kill()
	s.Restart()
	e2e.Poll(within, settled)
	if len(tasks) != 1 {
		add("%d tasks were started", len(tasks))
		return wrong
	}
	if tasks[0].State == task.Running {
		add("the task is running")
	}
	if len(told) != 1 {
		add("%d ends were told", len(told))
	} else if told[0].Type != event.Type("background_task."+tasks[0].State) {
		add("%s was told of a task that is %s", told[0].Type, tasks[0].State)
	}
	return wrong
}

// endsIn returns the ends of tasks that the messages report, in order.
func endsIn(messages []e2e.Said) (out []toldEnd) {
	for _, m := range messages {
		if m.Role != "tool" {
			continue
		}
		var parts []struct {
			Output struct {
				Value json.RawMessage `json:"value"`
			} `json:"output"`
		}
		_ = json.Unmarshal(m.Content, &parts)
		for _, p := range parts {
			var text string
			if json.Unmarshal(p.Output.Value, &text) == nil {
				if e, ok := endOf(text); ok {
					out = append(out, e)
				}
			}
		}
	}
	return out
}

// A task ends while the session is busy, while its conversation is being compacted, or just when
// its request ends. Its end is reported once.
func TestAnEndIsToldOnceAtEveryMoment(t *testing.T) {
	effort.SkipDetail(t)
	needsCommands(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		for name, words := range map[string]string{
			"busy":      "hold on",
			"summed up": long + "hold on",
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				endWhileHeld(t, bus, words, name == "summed up")
			})
		}
		t.Run("its request ends", func(t *testing.T) {
			t.Parallel()
			endWithItsRequest(t, bus, many(8, 100))
		})
	})
}

// long is a message; two of them do not fit into the context window of the test.
var long = strings.Repeat("many words make a long message ", 1300)

// endWhileHeld lets a task end while the model answers or compacts the conversation.
func endWhileHeld(t *testing.T, bus e2e.Engine, words string, sums bool) {
	held, release := make(chan struct{}, 1), make(chan struct{})
	model := startsTask(t, map[string]any{"command": waits})
	inner := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		summing := strings.Contains(string(r.Body), "You summarise the older part")
		last := r.Messages[len(r.Messages)-1].Text
		if sums && summing || !sums && strings.Contains(last, "hold on") {
			select {
			case held <- struct{}{}:
			default: // it was held before
			}
			<-release
		}
		if summing {
			return llmtest.Say("A person said much.")
		}
		return model.answer(r)
	})
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("models: {openai/test-model: {contextTokens: 64000, maxOutputTokens: 4000}}\ncompactAt: 0.3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := e2e.Start(t, slices.Concat(bus(t), modelEnv(inner.URL), []string{"LILAC_CONFIG=" + file})...)
	session := s.NewSession()
	s.WaitEnded(s.Prompt(session, "begin", event.Prompt).RequestID, answerWithin)
	if sums { // a summary covers earlier messages only
		s.WaitEnded(s.Prompt(session, long, event.Prompt).RequestID, answerWithin)
	}
	second := s.Prompt(session, words, event.Prompt)
	select {
	case <-held:
	case <-time.After(answerWithin):
		t.Fatal("the model was not held")
	}
	letGo(t, s, session)
	waitTask(t, s, session, task.Completed)
	e2e.Eventually(t, answerWithin, "the runner has it for the request", func() bool {
		var story struct{ Messages []struct{ MessageID string } }
		s.Request("GET", "/requests/"+second.RequestID, nil, &story)
		return slices.ContainsFunc(story.Messages, func(m struct{ MessageID string }) bool { return strings.HasPrefix(m.MessageID, "env-") })
	})
	close(release)
	told := waitTold(t, s, session)
	story := s.WaitEnded(second.RequestID, answerWithin)
	if len(told) != 1 || story.State != "done" {
		t.Errorf("%d ends were told; the request is %s (%s)", len(told), story.State, story.Detail)
	}
	compacted := slices.ContainsFunc(story.Entries, func(e e2e.Entry) bool { return e.Kind == "compacted" })
	if compacted != sums {
		t.Errorf("the conversation was summed up: %v", compacted)
	}
	for _, m := range s.Messages(session) {
		if len(endsIn([]e2e.Said{m})) > 0 && m.RequestID != second.RequestID {
			t.Errorf("the end came into %s, want the request that ran", m.RequestID)
		}
	}
}

// endWithItsRequest lets tasks end at about the same time as the request that started them.
func endWithItsRequest(t *testing.T, bus e2e.Engine, rounds int) {
	var s *e2e.Server
	var session string
	var round atomic.Int64
	model := startsTask(t, map[string]any{})
	inner := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		script := model.answer(r)
		n := round.Load()
		if len(script.Calls) > 0 {
			script.Calls[0].ID = fmt.Sprint("call-", n)
			script.Calls[0].Input = fmt.Sprintf(`{"action":"start","command":"while [ ! -e go-%d ]; do sleep 0.01; done"}`, n)
		} else if len(script.Text) > 0 && strings.Join(script.Text, "") == "It runs." {
			go func() {
				time.Sleep(time.Duration(n%8) * 3 * time.Millisecond) // not synchronization: vary the delay to hit the moment
				_ = os.WriteFile(filepath.Join(s.Workspace(session), fmt.Sprint("go-", n)), nil, 0o600)
			}()
		}
		return script
	})
	s = e2e.Start(t, slices.Concat(bus(t), modelEnv(inner.URL))...)
	session = s.NewSession()
	for n := range rounds {
		round.Store(int64(n))
		s.WaitEnded(s.Prompt(session, "begin", event.Prompt).RequestID, answerWithin)
		e2e.Eventually(t, answerWithin, fmt.Sprintf("the end of task %d is told", n), func() bool {
			var info struct{ State string }
			told := len(endsTold(s, session))
			s.Request("GET", "/sessions/"+session, nil, &info)
			return told > n && info.State == "idle"
		})
	}
	seen := map[string]int{}
	for _, e := range endsTold(s, session) {
		seen[e.ID]++
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s was told %d times", id, n)
		}
	}
	if len(seen) != rounds {
		t.Errorf("%d ends were told, want %d", len(seen), rounds)
	}
}

// Many tasks of one session end at once. Each end is reported once, and the ends join running
// requests instead of starting a request each.
func TestAStormOfEndsIsToldOnceEachInFewRequests(t *testing.T) {
	effort.SkipDetail(t)
	e2e.OnEachAlone(t, stormOfEnds)
}

func stormOfEnds(t *testing.T, bus e2e.Engine) {
	tasks := many(100, 200)
	ending, ended := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(ended) })
	defer release()
	model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		last := r.Messages[len(r.Messages)-1]
		if started := len(r.Messages[1:]) / 100 * 100; strings.Contains(last.Text, "begin") || started < tasks && len(last.Results) > 0 {
			var calls []llmtest.Call // a provider's answer has at most 128 calls
			for i := range 100 {
				calls = append(calls, llmtest.Call{ID: fmt.Sprint("call-", started+i), Name: task.ToolName, Input: fmt.Sprintf(`{"action":"start","command":"cat pipe; exit %d"}`, i%2)})
			}
			return llmtest.Script{Calls: calls}
		}
		select {
		case <-ending:
			<-ended // ends in the meantime join this request
		default:
		}
		return llmtest.Say("I was told.")
	})
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(fmt.Sprintf("tasks: {perSession: %d, total: %d}\nsandbox: {mode: 'off'}\n", tasks, tasks)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := e2e.Start(t, slices.Concat(bus(t), modelEnv(model.URL), []string{"LILAC_CONFIG=" + file})...)
	session := s.NewSession()
	pipe := filepath.Join(s.Workspace(session), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	s.WaitEnded(s.Prompt(session, "begin", event.Prompt).RequestID, 2*answerWithin)
	running := func() (n int) {
		var out struct{ Tasks []task.Task }
		s.Request("GET", "/tasks?limit=1000", nil, &out)
		for _, one := range out.Tasks {
			if one.State == task.Running {
				n++
			}
		}
		return n
	}
	if !e2e.Poll(answerWithin, func() bool { return running() == tasks }) {
		t.Fatalf("%d tasks run, want %d", running(), tasks)
	}
	close(ending)
	// Closing the pipe releases all processes that have it open.
	e2e.Eventually(t, 2*answerWithin, "all have ended", func() bool {
		if f, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			_ = f.Close()
		}
		return running() == 0
	})
	release()
	applied, requests := map[string]int{}, map[string]bool{}
	e2e.Poll(2*answerWithin, func() bool {
		clear(applied)
		clear(requests)
		for _, e := range s.Topic("evt.request") {
			p, err := event.Decode(e)
			if m, ok := p.(event.MessageApplied); err == nil && ok && strings.HasPrefix(m.MessageID, "env-") {
				applied[m.MessageID]++
				requests[e.Headers.RequestID()] = true
			}
		}
		return len(applied) >= tasks
	})
	if len(applied) != tasks {
		t.Errorf("%d ends were told, want %d", len(applied), tasks)
	}
	for id, n := range applied {
		if n != 1 {
			t.Errorf("%s was told %d times", id, n)
		}
	}
	t.Logf("%d ends came into %d requests, %d model calls", len(applied), len(requests), model.Count())
	if len(requests) > tasks/4 {
		t.Errorf("%d requests were made of %d ends", len(requests), tasks)
	}
}
