package sandbox_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"lilac/internal/agent/sandbox"
	"lilac/internal/testkit/effort"
)

// sleepEnv makes the test binary start sleeping commands; the test then kills it.
const sleepEnv = "LILAC_TEST_SLEEP"

// sayEnv makes it a client of the named socket.
const sayEnv = "LILAC_TEST_SAY"

// probeEnv makes it run every probe.
const probeEnv = "LILAC_TEST_PROBE"

// usualEnv makes it use the system calls that programs usually need.
const usualEnv = "LILAC_TEST_USUAL"

// givenEnv makes it run a command in the named sandbox. The command must not inherit its
// descriptor.
const givenEnv = "LILAC_TEST_GIVEN"

// openEnv makes it report whether it could open a sandbox.
const openEnv = "LILAC_TEST_OPEN"

// forbidEnv first denies it the named system call.
const forbidEnv = "LILAC_TEST_FORBID"

// filterEnv first denies it all system calls except these numbers.
const filterEnv = "LILAC_TEST_FILTER"

// coverEnv first covers the named directory with an empty one.
const coverEnv = "LILAC_TEST_COVER"

// reapEnv makes it adopt orphans, like the first process of a container, run commands, and
// report how many processes were not reaped.
const reapEnv = "LILAC_TEST_REAP"

func TestMain(m *testing.M) {
	sandbox.Enter()
	if numbers := os.Getenv(filterEnv); numbers != "" {
		if err := leave(strings.Fields(numbers)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if name := os.Getenv(forbidEnv); name != "" {
		if err := forbid(map[string]uint32{"sethostname": unix.SYS_SETHOSTNAME, "mount": unix.SYS_MOUNT}[name]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if dir := os.Getenv(coverEnv); dir != "" {
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_RDONLY, ""); err != nil {
			fmt.Fprintln(os.Stderr, "cover:", err)
			os.Exit(1)
		}
	}
	if mark := os.Getenv(sleepEnv); mark != "" {
		box, _ := sandbox.Open(context.Background(), sandbox.Mode(os.Getenv("LILAC_TEST_BOX")))
		_, _ = box.Run(context.Background(), sandbox.Command{Argv: []string{"bash", "-c", "sleep " + mark + " & sleep " + mark + "; true"}},
			sandbox.Policy{Workspace: os.Getenv("LILAC_TEST_WORKSPACE")})
		os.Exit(0)
	}
	if mode := os.Getenv(openEnv); mode != "" {
		if box, err := sandbox.Open(context.Background(), sandbox.Mode(mode)); err != nil {
			fmt.Println("refused:", err)
		} else {
			fmt.Println("opened:", box.Name())
		}
		os.Exit(0)
	}
	if mode := os.Getenv(reapEnv); mode != "" {
		left, err := runAsFirst(mode)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(left)
		os.Exit(0)
	}
	if os.Getenv(usualEnv) != "" {
		if err := useUsual(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("works")
		os.Exit(0)
	}
	if name := os.Getenv(givenEnv); name != "" {
		if err := useGiven(name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if told := os.Getenv(probeEnv); told != "" {
		runProbes(told)
		os.Exit(0)
	}
	if socket := os.Getenv(sayEnv); socket != "" {
		if err := sayTo(socket, os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// forbid makes a system call fail in all threads and their children, like the filter of a
// container or a service.
func forbid(number uint32) error {
	return filter([]unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: number, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	})
}

// leave makes all system calls except these fail, like SystemCallFilter with
// SystemCallErrorNumber=EPERM.
func leave(numbers []string) error {
	program := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}}
	for _, text := range numbers {
		number, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return fmt.Errorf("read the number of a system call: %w", err)
		}
		program = append(program,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(number), Jf: 1},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	}
	return filter(append(program, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}))
}

func filter(program []unix.SockFilter) error {
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("filter system calls: %w", errno)
	}
	return nil
}

// Containers, and services with ProtectHostname, do not allow setting the host name. The
// host name protects nothing, so commands still run. The control forbids a system call that
// the sandbox needs.
func TestAForbiddenHostNameIsNoReasonToRefuse(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name := range offered(t) {
		for call, want := range map[string]string{"sethostname": "opened: " + name, "mount": "refused"} {
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), openEnv+"="+name, forbidEnv+"="+call)
			if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), want) {
				t.Errorf("%s without %s: %v, %s; want %s", name, call, err, out, want)
			}
		}
	}
}

// Commands run with a low priority. A program that already has a lower priority cannot
// raise it, and must still run commands.
func TestAProgramOfLowPriorityRunsCommandsToo(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name := range offered(t) {
		cmd := exec.Command("nice", "-n", "19", self)
		cmd.Env = append(os.Environ(), openEnv+"="+name)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "opened: "+name) {
			t.Errorf("%s: %v, %s", name, err, out)
		}
	}
}

func TestCommandDiesWithOurProcess(t *testing.T) {
	each(t, func(t *testing.T, box sandbox.Sandbox, confined bool) {
		{
			mark := "51" + time.Now().Format("150405.000")
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), sleepEnv+"="+mark, "LILAC_TEST_BOX="+box.Name(), "LILAC_TEST_WORKSPACE="+t.TempDir())
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			waitFor(t, "two sleepers", func() bool { return len(sleepers(mark)) == 2 })
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if confined {
				waitFor(t, "the end of the sleepers", func() bool { return len(sleepers(mark)) == 0 })
				return
			}
			// Unconfined, only the shell dies with its parent; its children survive.
			left := sleepers(mark)
			if len(left) == 0 {
				t.Error("the control leaves nothing, so the test shows nothing")
			}
			for _, pid := range left {
				if p, err := os.FindProcess(pid); err == nil {
					_ = p.Kill()
				}
			}
		}
	})
}

// Containers cover parts of /proc, and the kernel then refuses to mount another one. The
// error must say so. The control covers another directory.
func TestACoveredProcIsNamed(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name := range offered(t) {
		for _, place := range []struct{ dir, want string }{
			{"/proc/irq", "uncover /proc, parts of which are covered"},
			{t.TempDir(), "opened: " + name},
		} {
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), openEnv+"="+name, coverEnv+"="+place.dir)
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
				UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
				AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN},
			}
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), place.want) {
				t.Errorf("%s with %s covered: %v, %s; want %s", name, place.dir, err, out, place.want)
			}
		}
	}
}

func runAsFirst(mode string) (left int, err error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("take in orphans: %w", err)
	}
	box, err := sandbox.Open(context.Background(), sandbox.Mode(mode))
	if err != nil {
		return 0, err
	}
	for _, script := range []string{"true", "sleep 600 & true", "kill -9 $$", "sleep 600"} {
		res, err := box.Run(context.Background(), sandbox.Command{Argv: []string{"bash", "-c", script}, Timeout: time.Second},
			sandbox.Policy{Workspace: os.Getenv("LILAC_TEST_WORKSPACE")})
		if err != nil {
			return 0, fmt.Errorf("run %q: %+v, %w", script, res, err)
		}
	}
	parent := fmt.Sprintf("PPid:\t%d\n", os.Getpid())
	statuses, err := filepath.Glob("/proc/[0-9]*/status")
	for _, path := range statuses {
		if status, err := os.ReadFile(path); err == nil && strings.Contains(string(status), parent) {
			left++
		}
	}
	return left, err
}

// The first process of a container becomes the parent of the zombies that bubblewrap leaves,
// and must reap them; otherwise they fill the container's process limit. The control runs
// without a sandbox, where the system's first process must reap the orphans.
func TestNoDeadProcessIsLeftToUs(t *testing.T) {
	effort.SkipDetail(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run := func(mode string) string {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), reapEnv+"="+mode, "LILAC_TEST_WORKSPACE="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v, %s", mode, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	for name := range offered(t) {
		if left := run(name); left != "0" {
			t.Errorf("%s leaves %s processes", name, left)
		}
	}
	if left := run(string(sandbox.ModeOff)); left == "0" {
		t.Error("the control leaves none, so the test shows nothing")
	}
}
