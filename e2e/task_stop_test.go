package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lilac/internal/core/task"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
)

// X9 for tasks: a stop kills the command and all processes that it started, and the session is
// told.
func TestAStopEndsATasksProcesses(t *testing.T) {
	needsCommands(t)
	e2e.OnEachAlone(t, func(t *testing.T, bus e2e.Engine) {
		for _, wrong := range stopTask(t, bus, cancelWithin(), func(s *e2e.Server, id string) { s.Request("POST", "/tasks/"+id+"/stop", nil, nil) }) {
			t.Error(wrong)
		}
	})
}

func TestControlWithoutAStopATaskGoesOn(t *testing.T) {
	effort.SkipDetail(t)
	needsCommands(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		noticed(t, stopTask(t, bus, time.Second, func(*e2e.Server, string) {}), "processes are left")
	})
}

// stopTask stops a task that has started a process outside its process group. It returns the
// problems that remain after the timeout.
func stopTask(t *testing.T, bus e2e.Engine, within time.Duration, stop func(s *e2e.Server, id string)) (wrong []string) {
	t.Helper()
	// No other process uses this number of seconds, so the command line identifies the process.
	line := fmt.Sprintf("sleep 7%d", time.Now().UnixNano()%1e8)
	t.Cleanup(func() {
		for _, pid := range processes(t, line) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	model := startsTask(t, map[string]any{"command": "setsid " + line + " & " + line})
	s := e2e.Start(t, append(bus(t), model.env()...)...)
	session := s.NewSession()
	s.WaitEnded(s.Prompt(session, "begin", event.Prompt).RequestID, answerWithin)
	running := waitTask(t, s, session, task.Running)
	e2e.Eventually(t, answerWithin, "the task's processes run", func() bool { return len(processes(t, line)) >= 2 })
	stop(s, running.ID)
	var now task.Task
	var left []int
	e2e.Poll(within, func() bool {
		s.Request("GET", "/tasks/"+running.ID, nil, &now)
		left = processes(t, line)
		return now.State == task.Stopped && len(left) == 0
	})
	if len(left) > 0 {
		wrong = append(wrong, fmt.Sprintf("%d processes are left %s after the stop", len(left), within))
	}
	if now.State != task.Stopped || now.StoppedBy != task.ByPerson {
		return append(wrong, fmt.Sprintf("the task is %s (%s)", now.State, now.StoppedBy))
	}
	if told := waitTold(t, s, session); len(told) != 1 || told[0].Type != event.BackgroundTaskStopped {
		wrong = append(wrong, fmt.Sprintf("the session was told %+v", told))
	}
	return wrong
}

// A task's command has its own token. The token stays valid after the request ends, is read-only,
// and becomes invalid with the task.
func TestATasksTokenReadsAndDiesWithIt(t *testing.T) {
	needsCommands(t)
	t.Parallel()
	runtime, err := os.MkdirTemp("", "rt") // the test's own directory may be too long for a socket path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(runtime) })
	model := startsTask(t, map[string]any{
		"command": waits + `tools --list; tools surface.messages.list --limit=5; tools task.start --command=true; echo "exit code $?"; printf '%s\n' "$LILAC_TOOL_TOKEN" > token`,
	})
	s := e2e.Start(t, append(model.env(), "XDG_RUNTIME_DIR="+runtime)...)
	session := s.NewSession()
	s.WaitEnded(s.Prompt(session, "begin", event.Prompt).RequestID, answerWithin)
	letGo(t, s, session)
	done := waitTask(t, s, session, task.Completed, task.Failed)
	var out task.OutputPart
	s.Request("GET", "/tasks/"+done.ID+"/output", nil, &out)
	for _, want := range []string{"task.list", "begin", "exit code 3"} {
		if !strings.Contains(out.Text, want) {
			t.Errorf("the output lacks %q:\n%s", want, out.Text)
		}
	}
	for _, never := range []string{"task.start  ", "surface.messages.send"} {
		if strings.Contains(out.Text, never) {
			t.Errorf("the token may call %s:\n%s", never, out.Text)
		}
	}
	token, _ := os.ReadFile(filepath.Join(s.Workspace(session), "token"))
	sockets, _ := filepath.Glob(filepath.Join(runtime, "lilac-run-*", "tools.sock"))
	if len(sockets) == 0 || len(token) == 0 {
		t.Fatal("there is no socket or no token")
	}
	cmd := exec.Command(e2e.Binary(t), "tools", "--list")
	cmd.Env = []string{"LILAC_TOOL_SOCKET=" + sockets[len(sockets)-1], "LILAC_TOOL_TOKEN=" + strings.TrimSpace(string(token))}
	if after, _ := cmd.CombinedOutput(); !strings.Contains(string(after), "invalid or expired") {
		t.Errorf("after the task its token still works: %s", after)
	}
}

// S5 for tasks: a command that prints endlessly is killed, and its stored output is bounded.
func TestATaskThatPrintsWithoutEndIsEnded(t *testing.T) {
	needsCommands(t)
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("tasks: {output: 128KiB}\nsandbox: {limits: {output: 4MiB}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	model := startsTask(t, map[string]any{"command": "yes 'a line without end'"})
	s := e2e.Start(t, append(model.env(), "LILAC_CONFIG="+file)...)
	session := s.NewSession()
	s.Prompt(session, "begin", event.Prompt)
	ended := waitTask(t, s, session, task.Failed)
	if !strings.Contains(ended.Reason, "printed more than a command may") || ended.Printed > 5<<20 {
		t.Errorf("it printed %d bytes and ended: %s", ended.Printed, ended.Reason)
	}
	var kept int64
	files, _ := filepath.Glob(filepath.Join(s.Dir, "data", "tasks", ended.ID, "*"))
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			kept += info.Size()
		}
	}
	if kept == 0 || kept > 128<<10 {
		t.Errorf("%d bytes of its output are kept", kept)
	}
}
