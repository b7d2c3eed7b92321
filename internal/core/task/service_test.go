package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"lilac/internal/core/task"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/store"
	"lilac/internal/testkit/dbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(dbtest.Engines(m)) }

// commands are scripts of what a command does, one word after the other: "say"
// prints a line, "second" takes that long, "forever" ends with its context, "fail"
// ends with 2.
type commands struct {
	mu      sync.Mutex
	running int
}

func (c *commands) count(by int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running += by
	return c.running
}

func (*commands) Check(_ context.Context, o task.Spec) error {
	if o.Command == "bad" {
		return fault.InvalidField("o.Command", "It is bad.")
	}
	return nil
}

func (c *commands) Run(ctx context.Context, t task.Task, out io.Writer) (task.Exit, error) {
	c.count(1)
	defer c.count(-1)
	for i, word := range strings.Fields(t.Command) {
		var end <-chan time.Time
		switch word {
		case "say":
			fmt.Fprintf(out, "line %d\n", i)
			continue
		case "fail":
			return task.Exit{Code: 2}, nil
		case "second":
			end = time.After(time.Second)
		}
		select {
		case <-ctx.Done():
			return task.Exit{}, context.Cause(ctx)
		case <-end:
		}
	}
	return task.Exit{}, nil
}

// requests is the real table, except for the progress and the last answer of requests.
type requests struct {
	store.History
	store.RuleRuns
	work    atomic.Pointer[task.Progress]
	damaged error // of the last answer
}

func (t *requests) ProgressOf(db.Queryer, string) (task.Progress, error) { return *t.work.Load(), nil }

func (t *requests) LastAnswer(db.Queryer, string, string) (string, error) {
	if t.damaged != nil {
		return "", t.damaged
	}
	return "so far", nil
}

// world is a service on a database, in the time of a bubble.
type world struct {
	t        *testing.T
	dir      string
	db       *db.DB
	bus      *sqlitebus.Bus
	requests requests
	commands commands
	limits   task.Limits
	svc      *task.Service
	// ahead is by how much the clock is wrong.
	ahead atomic.Int64
	stop  func()
}

func inBubble(t *testing.T, fn func(t *testing.T, w *world)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, dir: dir, limits: task.Limits{PerSession: 2, Total: 3, Time: time.Hour, MaxTime: 2 * time.Hour, OutputBytes: 1 << 20}}
		w.open()
		defer w.close()
		fn(t, w)
	})
}

func (w *world) open() {
	w.t.Helper()
	var err error
	if w.db, err = db.Open(context.Background(), dbtest.Options(db.Options{Dir: w.dir, Migrations: slices.Concat(sqlitebus.Migrations, store.Migrations), Now: func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }})); err != nil {
		w.t.Fatal(err)
	}
	if w.bus, err = sqlitebus.New(w.db, sqlitebus.Options{}); err != nil {
		w.t.Fatal(err)
	}
	w.requests.work.CompareAndSwap(nil, &task.Progress{})
	w.svc = task.New(task.Options{
		DB: w.db, Store: store.Tasks{}, Requests: &w.requests, Commands: &w.commands, Dir: filepath.Join(w.dir, "tasks"),
		Limits: func() task.Limits { return w.limits }, MaxDepth: 8,
		Now: func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) },
		Publish: func(tx *db.Tx, e event.EnvEvent) error {
			ev, err := event.New(event.Meta{ID: e.ID, Time: tx.Now()}, e)
			if err != nil {
				return err
			}
			return tx.Publish(ev)
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	if err := w.svc.Recover(ctx); err != nil {
		w.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- w.svc.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	synctest.Wait()
}

func (w *world) close() {
	w.stop()
	if err := errors.Join(w.bus.Close(), w.db.Close()); err != nil {
		w.t.Error(err)
	}
}

// start starts what is ordered, for the session s if it names none.
func (w *world) start(o task.Spec) task.Task {
	w.t.Helper()
	if o.SessionID == "" {
		o.SessionID = "s"
	}
	t, fresh, err := w.svc.Start(context.Background(), o)
	if err != nil || !fresh {
		w.t.Fatalf("not started: %v, fresh %v", err, fresh)
	}
	return t
}

func (w *world) state(id string) task.State {
	w.t.Helper()
	t, err := w.svc.Task(context.Background(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return t.State
}

// told are the payloads of the environment events of a type.
func (w *world) told(typ event.Type) (out []task.Payload) {
	w.t.Helper()
	all, err := w.bus.Fetch(context.Background(), event.TopicEnv, "", 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range all {
		if d.Type != typ {
			continue
		}
		var e event.EnvEvent
		var p task.Payload
		if err := errors.Join(json.Unmarshal(d.Data, &e), json.Unmarshal(e.Payload, &p)); err != nil {
			w.t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// asked are the types of the commands for the runner.
func (w *world) asked() (out []event.Type) {
	w.t.Helper()
	all, err := w.bus.Fetch(context.Background(), event.TopicCmdRequest, "", 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range all {
		out = append(out, d.Type)
	}
	return out
}

// aMoment is enough for what needs no time of its own.
const aMoment = 100 * time.Millisecond

func TestProgressIsTold(t *testing.T) {
	t.Run("of a command, when there is more and not too often", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			w.start(task.Spec{Command: strings.Repeat("say second ", 30) + "forever"})
			time.Sleep(5 * time.Minute)
			told := w.told(event.BackgroundTaskProgress)
			if len(told) < 3 || len(told) > 4 {
				t.Fatalf("told %d times in 30 seconds, every ten are enough", len(told))
			}
			if last := told[len(told)-1]; last.Line != "line 58" || last.OutputBytes == 0 {
				t.Errorf("told last %+v", last)
			}
		})
	})
	t.Run("of a sub-agent, also after a restart", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			w.start(task.Spec{Prompt: "look"})
			did := func(work task.Progress) {
				w.requests.work.Store(&work)
				time.Sleep(30 * time.Second)
			}
			did(task.Progress{Amount: 3, Steps: 1, LastLine: "I look.\nThere it is."})
			did(task.Progress{Amount: 4, Steps: 1, LastLine: "grep x"})
			w.close()
			w.open()
			did(task.Progress{Amount: 6, Steps: 2, LastLine: "read y"})
			var lines []string
			for _, p := range w.told(event.BackgroundTaskProgress) {
				lines = append(lines, fmt.Sprint(p.Steps, " ", p.Line))
			}
			if diff := cmp.Diff([]string{"1 There it is.", "1 grep x", "2 read y"}, lines); diff != "" {
				t.Error(diff)
			}
		})
	})
}

func TestHowManyRunAtOnceIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		refused := func(o task.Spec, kind fault.Kind) {
			t.Helper()
			if _, _, err := w.svc.Start(ctx, o); fault.KindOf(err) != kind {
				t.Errorf("%+v: %v, want %s", o, err, kind)
			}
		}
		first := w.start(task.Spec{Command: "forever", Key: "k"})
		if again, fresh, err := w.svc.Start(ctx, task.Spec{SessionID: "s", Command: "forever", Key: "k"}); err != nil || fresh || again.ID != first.ID {
			t.Errorf("under its key %s, fresh %v, %v", again.ID, fresh, err)
		}
		w.start(task.Spec{Prompt: "look"})
		refused(task.Spec{SessionID: "s", Command: "say"}, fault.LimitReached)
		w.start(task.Spec{SessionID: "s2", Command: "forever"})
		refused(task.Spec{SessionID: "s3", Command: "say"}, fault.LimitReached)
		refused(task.Spec{SessionID: "s3", Command: "say", Time: 3 * time.Hour}, fault.Invalid)
		refused(task.Spec{SessionID: "s3", Command: "bad"}, fault.Invalid)
		if _, err := w.svc.Stop(ctx, first.ID, task.ByPerson); err != nil {
			t.Fatal(err)
		}
		w.start(task.Spec{Command: "say"})
		time.Sleep(aMoment)
		if n := len(w.told(event.BackgroundTaskCompleted)); n != 1 {
			t.Errorf("%d were completed", n)
		}
	})
}

func TestAStopIsOfWhoStopped(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		started := w.start(task.Spec{Command: "say forever"})
		time.Sleep(aMoment)
		got, err := w.svc.Stop(context.Background(), started.ID, task.ByAgent)
		if err != nil || got.State != task.Stopped || got.StoppedBy != task.ByAgent || w.commands.count(0) != 0 {
			t.Errorf("%+v, %v", got, err)
		}
		if told := w.told(event.BackgroundTaskStopped); len(told) != 1 || told[0].Result.Output != "line 0\n" {
			t.Errorf("told %+v", told)
		}
		if again, err := w.svc.Stop(context.Background(), started.ID, task.ByPerson); err != nil || again.StoppedBy != task.ByAgent {
			t.Errorf("stopped again: %+v, %v", again, err)
		}
	})
}

// What a stop in good order ends is told at the next start, as after a kill.
func TestACommandThatRunsWhenTheProgramStopsIsToldAsFailed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		command, agent := w.start(task.Spec{Command: "say forever"}), w.start(task.Spec{Prompt: "look"})
		time.Sleep(aMoment)
		w.stop()
		if n := w.commands.count(0); n != 0 {
			t.Errorf("%d commands run when the service has stopped", n)
		}
		if _, _, err := w.svc.Start(context.Background(), task.Spec{SessionID: "s2", Command: "say"}); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("while it stops something is started: %v", err)
		}
		if got := w.told(event.BackgroundTaskFailed); len(got) != 0 {
			t.Errorf("told before the next start: %+v", got)
		}
		w.close()
		w.open()
		told := w.told(event.BackgroundTaskFailed)
		if w.state(command.ID) != task.Failed || len(told) != 1 || told[0].Result.Output != "line 0\n" || !strings.Contains(told[0].Error, "restarted") {
			t.Errorf("it is %s, told %+v", w.state(command.ID), told)
		}
		if w.state(agent.ID) != task.Running || !w.svc.IsRunning(agent.ID) {
			t.Error("the sub-agent does not go on")
		}
		w.close()
		w.open()
		if n := len(w.told(event.BackgroundTaskFailed)); n != 1 {
			t.Errorf("after another start it is told %d times", n)
		}
	})
}

func TestTheEndOfASubAgentsRequestIsThatOfTheTask(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		started := w.start(task.Spec{Prompt: "look"})
		ended := func(requestID, sessionID string) {
			t.Helper()
			err := w.db.Update(context.Background(), func(tx *db.Tx) error {
				return w.svc.RequestEnded(tx, requestID, sessionID, event.StateFailed, "No tokens left.")
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		ended("web:s:1", "s")
		ended("sub:s:another", started.ChildSession)
		if w.state(started.ID) != task.Running {
			t.Error("the end of another request ends it")
		}
		ended(started.ChildRequest, started.ChildSession)
		ended(started.ChildRequest, started.ChildSession)
		if told := w.told(event.BackgroundTaskFailed); len(told) != 1 || !strings.Contains(told[0].Error, "No tokens left.") || told[0].Result.Answer != "so far" || w.svc.Running() != 0 {
			t.Errorf("told %+v", told)
		}
	})
}

func TestNothingDamagedKeepsTheRequestOfASubAgentFromEnding(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		end := func(started task.Task, state event.RequestState) {
			t.Helper()
			err := w.db.Update(context.Background(), func(tx *db.Tx) error {
				return w.svc.RequestEnded(tx, started.ChildRequest, started.ChildSession, state, "By Ann.")
			})
			if err != nil {
				t.Errorf("a request does not end: %v", err)
			}
		}
		w.requests.damaged = db.DamagedRow("history", "s1/2")
		for said, state := range map[string]event.RequestState{"s1/2": event.StateDone, "By Ann.": event.StateFailed} {
			started := w.start(task.Spec{Prompt: "look"})
			end(started, state)
			if got, err := w.svc.Task(context.Background(), started.ID); err != nil || got.State != task.Failed || got.Result != "" || !strings.Contains(got.Reason, said) {
				t.Errorf("the answer of a request that is %s cannot be read: %+v, %v", state, got, err)
			}
		}
		ends, late := w.start(task.Spec{Prompt: "look"}), w.start(task.Spec{Prompt: "look"})
		err := w.db.Update(context.Background(), func(tx *db.Tx) error {
			_, err := tx.Exec("UPDATE tasks SET checksum = checksum + 1 WHERE id IN (?, ?)", ends.ID, late.ID)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		end(ends, event.StateDone)
		if n := w.svc.Running(); n != 1 {
			t.Errorf("%d tasks are said to run", n)
		}
		time.Sleep(w.limits.Time + aMoment)
		if asked := w.asked(); asked[len(asked)-1] != event.CmdRequestCancel || w.svc.Running() != 0 {
			t.Errorf("when its time is up, asked %v, and %d run", asked, w.svc.Running())
		}
	})
}

func TestOldTasksAreForgottenWithTheirOutput(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		old, running := w.start(task.Spec{Command: "say"}), w.start(task.Spec{Command: "say forever"})
		time.Sleep(time.Minute)
		limit := time.Now()
		young := w.start(task.Spec{Command: "say fail"})
		time.Sleep(time.Minute)
		stray := filepath.Join(w.dir, "tasks", "stray")
		if err := os.MkdirAll(stray, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := w.svc.Trim(context.Background(), limit); err != nil {
			t.Fatal(err)
		}
		if _, err := w.svc.Task(context.Background(), old.ID); fault.KindOf(err) != fault.NotFound {
			t.Errorf("the old one is there: %v", err)
		}
		var kept []string
		entries, err := os.ReadDir(filepath.Join(w.dir, "tasks"))
		for _, e := range entries {
			kept = append(kept, e.Name())
		}
		want := []string{running.ID, young.ID}
		slices.Sort(want)
		if diff := cmp.Diff(want, kept); diff != "" || err != nil {
			t.Errorf("outputs: %v\n%s", err, diff)
		}
		if p, err := w.svc.Output(context.Background(), young, 0, 100); err != nil || p.Text != "line 0\n" || w.state(young.ID) != task.Failed {
			t.Errorf("the young one says %+v, %v", p, err)
		}
	})
}
