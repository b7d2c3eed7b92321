package sandbox_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lilac/internal/agent/sandbox"
	"lilac/internal/testkit/effort"
)

const mib = 1 << 20

// bomb is a command that exceeds a limit.
type bomb struct {
	script string
	limits sandbox.Limits
	// want is the limit that the command is killed for.
	want sandbox.Exceeded
	// says is the output if the kernel denies the resource first.
	says string
}

var bombs = map[string]bomb{
	"fork": {
		script: `trap '' TERM INT; while :; do sleep 600 & done`,
		limits: sandbox.Limits{Processes: 100}, want: sandbox.ExceededProcesses,
	},
	"memory in one process": {
		script: `head -c 1000000000 /dev/zero | tail -c 1000000000 | wc -c; echo "status ${PIPESTATUS[1]}"`,
		limits: sandbox.Limits{MemoryBytes: 160 * mib}, want: sandbox.ExceededMemory, says: "status 1",
	},
	// The processes keep their memory, so a watcher that gets CPU time late still sees it.
	"memory in many": {
		script: `for i in 1 2 3 4 5 6 7 8; do head -c 1000000000 /dev/zero | tail -c 100000000 | sleep 600 & done; wait`,
		limits: sandbox.Limits{MemoryBytes: 160 * mib}, want: sandbox.ExceededMemory,
	},
	"disk in one file": {
		script: `head -c 1000000000 /dev/zero > big; echo "status $?"; stat -c 'size %s' big`,
		limits: sandbox.Limits{DiskBytes: 64 * mib}, want: sandbox.ExceededDisk, says: "size 67108864",
	},
	"disk in many": {
		script: `for i in $(seq 1000); do head -c 8000000 /dev/zero > big$i; done; sleep 600`,
		limits: sandbox.Limits{DiskBytes: 64 * mib}, want: sandbox.ExceededDisk,
	},
	"files in memory": {
		script: `cd /dev/shm && seq 100000 | xargs touch 2> /dev/null || { echo refused; exit; }; sleep 600`,
		want:   sandbox.ExceededMemory, says: "refused",
	},
	"output": {
		script: `yes`,
		limits: sandbox.Limits{OutputBytes: 8 * mib}, want: sandbox.ExceededOutput,
	},
}

// A fork bomb that doubles is too fast for any watcher, so the kernel must stop it.
func TestDoublingForkBombIsContainedByTheKernel(t *testing.T) {
	confined(t, func(t *testing.T, box sandbox.Sandbox) {
		limits := sandbox.Limits{Processes: 100}
		out, _ := script(t, box, sandbox.Policy{Workspace: t.TempDir(), Limits: limits}, "cat /proc/sys/kernel/pid_max")
		if top, err := strconv.Atoi(strings.TrimSpace(out)); os.Getuid() == 0 && (err != nil || top > 1000) {
			t.Logf("not tested: for root, bubblewrap and kernels before 6.14 leave it to the watcher (pid_max %s)", out)
			return
		}
		_, res := script(t, box, sandbox.Policy{Workspace: t.TempDir(), Limits: limits}, `b() { b & b & sleep 600; }; trap '' TERM INT; b`)
		if res.Exceeded != sandbox.ExceededProcesses {
			t.Errorf("%+v", res)
		}
	})
}

// When memory runs out, the OOM killer chooses a command and not Lilac's process.
func TestTheKernelTakesCommandsBeforeUs(t *testing.T) {
	ours, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, box sandbox.Sandbox, confined bool) {
		want := strings.TrimSpace(string(ours))
		if confined {
			want = "500"
		}
		out, _ := script(t, box, sandbox.Policy{Workspace: t.TempDir()}, "cat /proc/self/oom_score_adj")
		if got := strings.TrimSpace(out); got != want {
			t.Errorf("it counts %s, want %s", got, want)
		}
	})
}

func TestBombsAreContained(t *testing.T) {
	effort.SkipDetail(t)
	confined(t, func(t *testing.T, box sandbox.Sandbox) {
		for name, b := range bombs {
			t.Run(name, func(t *testing.T) {
				before := rss(t)
				var out bytes.Buffer
				started := time.Now()
				res, err := box.Run(t.Context(), sandbox.Command{Argv: []string{"bash", "-c", b.script}, Stdout: &capped{&out}, Timeout: 2 * time.Minute},
					sandbox.Policy{Workspace: t.TempDir(), Limits: b.limits})
				if err != nil {
					t.Fatal(err)
				}
				refused := b.says != "" && strings.Contains(out.String(), b.says)
				if res.TimedOut || res.Exceeded != b.want && !refused {
					t.Errorf("%+v after %v: %s", res, time.Since(started), out.String())
				}
				if grown := rss(t) - before; grown > 64*mib {
					t.Errorf("our own process grew by %d MiB", grown/mib)
				}
				t.Logf("%v: %+v", time.Since(started), res)
			})
		}
	})
}

// capped keeps the end of the output.
type capped struct{ *bytes.Buffer }

func (c *capped) Write(p []byte) (int, error) {
	if c.Len() > mib {
		c.Reset()
	}
	return c.Buffer.Write(p)
}

// rss returns the resident memory of the test process.
func rss(t *testing.T) int64 {
	t.Helper()
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// Control: without limits, the same commands keep running. So the limits stopped them in
// the other tests, and not the machine.
func TestControlBombsRunOnWithoutLimits(t *testing.T) {
	effort.SkipDetail(t)
	confined(t, func(t *testing.T, box sandbox.Sandbox) {
		for name, text := range map[string]string{
			"processes": `for i in $(seq 150); do sleep 30 & done; jobs -p | wc -l`,
			"memory":    `head -c 200000000 /dev/zero | tail -c 200000000 | wc -c`,
			"disk":      `head -c 80000000 /dev/zero > big; stat -c %s big`,
			"files":     `cd /dev/shm && seq 60000 | xargs touch && ls | wc -l`,
			"output":    `head -c 9000000 /dev/zero | wc -c; head -c 9000000 /dev/zero | tr '\0' x`,
		} {
			t.Run(name, func(t *testing.T) {
				out, res := script(t, box, sandbox.Policy{Workspace: t.TempDir()}, text)
				want := map[string]string{"processes": "150", "memory": "200000000", "disk": "80000000", "files": "60000", "output": "9000000"}[name]
				if res.Exceeded != "" || !strings.HasPrefix(out, want) {
					t.Errorf("%+v: %.200s", res, out)
				}
			})
		}
	})
}

// The helper process in a sandbox has the limits of the command. Go aborts a program that
// gets no memory for another thread, which needs 8 MiB with cgo and so with the race
// detector. A small memory limit must leave room for that.
func TestALittleMemoryLeavesRoomForOurOwnProcess(t *testing.T) {
	confined(t, func(t *testing.T, box sandbox.Sandbox) {
		policy := sandbox.Policy{Workspace: t.TempDir(), Proxy: listen(t).Addr().String(), Limits: sandbox.Limits{MemoryBytes: sandbox.MinMemoryBytes}}
		out, res := script(t, box, policy, `ulimit -d; sed -n 's/^VmData:\s*//p' /proc/$PPID/status`)
		const threads, stack = 3, 8 << 10 // KiB
		var limit, ours int64             // KiB
		if _, err := fmt.Sscan(out, &limit, &ours); err != nil {
			t.Fatalf("%v: %+v: %s", err, res, out)
		}
		if room := limit - ours; room < threads*stack {
			t.Errorf("our own process has %d KiB, and room for %d KiB", ours, room)
		}
	})
}

// The number of file descriptors is limited, because no other limit counts the kernel
// memory that they use.
func TestAProcessHasFewDescriptors(t *testing.T) {
	confined(t, func(t *testing.T, box sandbox.Sandbox) {
		out, _ := script(t, box, sandbox.Policy{Workspace: t.TempDir()}, "ulimit -Hn; ulimit -Sn")
		var hard, soft int
		if _, err := fmt.Sscan(out, &hard, &soft); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if hard > 1024 || soft > hard {
			t.Errorf("it may have %d and %d", soft, hard)
		}
	})
}

func TestEverythingOfABombIsGoneAtOnce(t *testing.T) {
	effort.SkipDetail(t)
	confined(t, func(t *testing.T, box sandbox.Sandbox) {
		mark := fmt.Sprintf("5%d.%d", os.Getpid(), len(box.Name()))
		// Orphans in their own sessions, then too many of them.
		_, res := script(t, box, sandbox.Policy{Workspace: t.TempDir(), Limits: sandbox.Limits{Processes: 100}},
			`for i in $(seq 150); do setsid sleep `+mark+` & done; wait`)
		ended := time.Now()
		waitFor(t, "the end of the orphans", func() bool { return len(sleepers(mark)) == 0 })
		if took := time.Since(ended); took > effort.Within(2*time.Second) {
			t.Errorf("it took %v", took)
		}
		if res.Exceeded != sandbox.ExceededProcesses {
			t.Errorf("%+v", res)
		}
	})
}

func TestFullTmpIsNoMemoryOfOurs(t *testing.T) {
	confined(t, func(t *testing.T, box sandbox.Sandbox) {
		out, res := script(t, box, sandbox.Policy{Workspace: t.TempDir(), TmpBytes: 4 * mib},
			`for d in /tmp /dev/shm; do head -c 50000000 /dev/zero > $d/f 2>/dev/null || echo full; done`)
		if res.ExitCode != 0 || out != "full\nfull\n" {
			t.Errorf("%+v %q", res, out)
		}
	})
}

// A command must leave the free space that the database needs on a nearly full disk, even
// if its own limit allows more.
func TestCommandLeavesSpaceOnTheDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=160m"); err != nil {
		t.Logf("not tested, it needs root: %v", err)
		return
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	ws := filepath.Join(dir, "ws")
	if err := os.Mkdir(ws, 0o755); err != nil {
		t.Fatal(err)
	}
	confined(t, func(t *testing.T, box sandbox.Sandbox) {
		_, res := script(t, box, sandbox.Policy{Workspace: ws}, `head -c 120000000 /dev/zero > f; sleep 600`)
		if res.Exceeded != sandbox.ExceededDisk {
			t.Errorf("%+v", res)
		}
		if err := os.Remove(filepath.Join(ws, "f")); err != nil {
			t.Fatal(err)
		}
	})
}
