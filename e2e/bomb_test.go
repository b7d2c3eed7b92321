package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

// nodeMayGrow is by how much the program's own peak memory may grow while a command tries to
// exhaust the machine.
const nodeMayGrow = 64 << 20

// goneWithin bounds the time until no process of a command is left after the model received the
// result.
func goneWithin() time.Duration { return effort.Within(2 * time.Second) }

// bombs limit themselves too, in case a limit does not work.
var bombs = []struct{ name, command, told string }{
	{"fork", `trap '' TERM INT; for i in $(seq 300); do sleep 300 & done; wait`, "more processes"},
	{"memory", `for i in 1 2 3 4; do (head -c 100000000 /dev/zero; sleep 300) | tail -c 100000000 | wc -c & done; wait`, "more memory"},
	{"disk", `for i in $(seq 100); do head -c 8000000 /dev/zero > big$i; done; sleep 300`, "more to the disk"},
	{"output", `head -c 100000000 /dev/zero | tr '\0' x; sleep 300`, "printed more"},
}

// S5: a command that exhausts a resource is killed at its limit with all of its processes, and it
// costs the program hardly any memory.
func TestBombsCostTheProgramLittleAndLeaveNothing(t *testing.T) {
	effort.SkipDetail(t)
	needsCommands(t)
	if runtime.GOOS != "linux" {
		t.Skip("memory and processes are read from /proc: run this on Linux")
	}
	s, results := bombed(t)
	session := s.NewSession()
	// Run one command first, so that one-time costs are not attributed to a bomb.
	s.WaitEnded(s.Prompt(session, "true", event.Prompt).RequestID, answerWithin)
	<-results
	for _, b := range bombs {
		t.Run(b.name, func(t *testing.T) {
			before := forgetPeak(t, s.PID())
			a := s.Prompt(session, b.command, event.Prompt)
			var told string
			select {
			case told = <-results:
			case <-time.After(answerWithin):
				t.Fatal("the command does not end")
			}
			ended := time.Now()
			if !strings.Contains(told, b.told) {
				t.Errorf("the model was told %.300q, want that it %s", told, b.told)
			}
			if !e2e.Poll(goneWithin(), func() bool { return len(commandsOf(t, session)) == 0 }) {
				t.Errorf("%d processes are left after %v", len(commandsOf(t, session)), time.Since(ended))
			}
			gone := time.Since(ended)
			s.WaitEnded(a.RequestID, answerWithin)
			grown := peak(t, s.PID()) - before
			t.Logf("the program grew by %d MiB; nothing was left after %v", grown>>20, gone.Round(time.Millisecond))
			if grown > nodeMayGrow {
				t.Errorf("the program grew by %d MiB, want at most %d", grown>>20, nodeMayGrow>>20)
			}
		})
	}
}

// Controls: the test notices a process that allocates memory and frees it, and a command that is
// still running.
func TestControlPeaksAndCommandsAreSeen(t *testing.T) {
	effort.SkipDetail(t)
	needsCommands(t)
	if runtime.GOOS != "linux" {
		t.Skip("memory and processes are read from /proc: run this on Linux")
	}
	debug.FreeOSMemory() // memory that an earlier test freed would be reused
	before := forgetPeak(t, os.Getpid())
	runtime.KeepAlive(bytes.Repeat([]byte("x"), 2*nodeMayGrow))
	if grown := peak(t, os.Getpid()) - before; grown <= nodeMayGrow {
		t.Errorf("a process that held %d MiB seems to have grown by %d", 2*nodeMayGrow>>20, grown>>20)
	}
	s, _ := bombed(t)
	session := s.NewSession()
	s.Prompt(session, "sleep 300 & sleep 300", event.Prompt)
	e2e.Eventually(t, answerWithin, "the command's processes are seen", func() bool { return len(commandsOf(t, session)) >= 2 })
	s.Cancel(session)
	e2e.Eventually(t, answerWithin, "they are gone", func() bool { return len(commandsOf(t, session)) == 0 })
}

// bombed starts a server with low limits whose model runs each prompt as a command. The channel
// receives the results.
func bombed(t *testing.T) (*e2e.Server, <-chan string) {
	t.Helper()
	results := make(chan string, len(bombs)+1)
	model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		last := r.Messages[len(r.Messages)-1]
		for _, text := range last.Results {
			results <- text
		}
		if len(last.Results) > 0 {
			return llmtest.Say("Done.")
		}
		input, err := json.Marshal(map[string]string{"command": r.LastText()})
		if err != nil {
			t.Error(err)
		}
		return llmtest.Script{Calls: []llmtest.Call{{ID: fmt.Sprint("call-", len(r.Messages)), Name: "bash", Input: string(input)}}}
	})
	file := filepath.Join(t.TempDir(), "config.yaml")
	limits := "sandbox: {limits: {memory: 160MiB, processes: 100, disk: 64MiB, output: 8MiB}}\n"
	if err := os.WriteFile(file, []byte(limits), 0o600); err != nil {
		t.Fatal(err)
	}
	return e2e.Start(t, append(modelEnv(model.URL), "LILAC_CONFIG="+file)...), results
}

// commandsOf lists the processes of a session's commands: they have the session's ID in their
// environment.
func commandsOf(t *testing.T, session string) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	mark := []byte("LILAC_SESSION_ID=" + session + "\x00")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if data, err := os.ReadFile("/proc/" + e.Name() + "/environ"); err == nil && bytes.Contains(data, mark) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// forgetPeak resets the kernel's record of the peak memory of a process, and returns its current
// memory.
func forgetPeak(t *testing.T, pid int) int64 {
	t.Helper()
	const peakOfMemory = "5" // proc(5), clear_refs
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte(peakOfMemory), 0); err != nil {
		t.Fatal(err)
	}
	return peak(t, pid)
}

// peak returns the peak memory of a process since then.
func peak(t *testing.T, pid int) int64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Fatalf("process %d has no peak", pid)
	return 0
}
