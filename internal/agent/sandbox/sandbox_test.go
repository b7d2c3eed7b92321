package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lilac/internal/agent/sandbox"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/effort"
)

// offered returns the kinds of sandbox that work on this machine. If bubblewrap works and
// the kernel has Landlock, both must work.
func offered(t *testing.T) map[string]sandbox.Sandbox {
	t.Helper()
	boxes := map[string]sandbox.Sandbox{}
	var missing []error
	for _, mode := range []sandbox.Mode{sandbox.ModeBubblewrap, sandbox.ModeNamespaces} {
		box, err := sandbox.Open(t.Context(), mode)
		switch {
		case err == nil:
			boxes[string(mode)] = box
		case os.Getenv("CI") == "true" && !strings.Contains(err.Error(), "version 0 of Landlock"):
			t.Fatal(err)
		default:
			missing = append(missing, err)
			t.Logf("not tested: %v", err)
		}
	}
	if len(boxes) == 0 {
		t.Skipf("needs bubblewrap (apt-get install bubblewrap) or user namespaces and Landlock: %v", errors.Join(missing...))
	}
	return boxes
}

// confined runs a test in every kind of sandbox.
func confined(t *testing.T, test func(t *testing.T, box sandbox.Sandbox)) {
	for name, box := range offered(t) {
		t.Run(name, func(t *testing.T) { test(t, box) })
	}
}

// each runs a test in every kind of sandbox and, as a control, unconfined.
func each(t *testing.T, test func(t *testing.T, box sandbox.Sandbox, confined bool)) {
	confined(t, func(t *testing.T, box sandbox.Sandbox) { test(t, box, true) })
	t.Run("control", func(t *testing.T) { test(t, sandbox.Unconfined(), false) })
}

func script(t *testing.T, box sandbox.Sandbox, policy sandbox.Policy, text string, env ...string) (string, sandbox.Result) {
	t.Helper()
	var out bytes.Buffer
	res, err := box.Run(t.Context(), sandbox.Command{Argv: []string{"bash", "-c", text}, Env: env, Stdout: &out, Timeout: time.Minute}, policy)
	if err != nil {
		t.Fatalf("run: %v\n%s", err, out.String())
	}
	return out.String(), res
}

func TestCommandRunsInItsWorkspace(t *testing.T) {
	each(t, func(t *testing.T, box sandbox.Sandbox, _ bool) {
		t.Setenv("OUR_SECRET", "canary")
		ws := t.TempDir()
		var out, errs bytes.Buffer
		res, err := box.Run(t.Context(), sandbox.Command{
			Argv:  []string{"bash", "-c", `pwd; echo "$HOME"; echo "$LILAC_REQUEST_ID"; cat; echo made > file; env >&2; exit 7`},
			Env:   []string{"LILAC_REQUEST_ID=web:s:1"},
			Stdin: []byte("input\n"), Stdout: &out, Stderr: &errs,
		}, sandbox.Policy{Workspace: ws})
		if err != nil || res.ExitCode != 7 || res.TimedOut || res.Duration <= 0 {
			t.Fatalf("%+v, %v\n%s", res, err, errs.String())
		}
		if want := ws + "\n" + ws + "\nweb:s:1\ninput\n"; out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
		if strings.Contains(errs.String(), "canary") {
			t.Error("our environment was handed on")
		}
		if b, err := os.ReadFile(filepath.Join(ws, "file")); err != nil || string(b) != "made\n" {
			t.Errorf("file in the workspace: %q, %v", b, err)
		}
	})
}

func TestSandboxHidesWhatIsNotTheCommands(t *testing.T) {
	effort.SkipSlow(t)
	each(t, func(t *testing.T, box sandbox.Sandbox, confined bool) {
		base := t.TempDir()
		ws, data := filepath.Join(base, "ws"), filepath.Join(base, "data")
		for _, dir := range []string{ws, data} {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(data, "token"), []byte("canary"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(data, filepath.Join(ws, "link")); err != nil {
			t.Fatal(err)
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		abstract, err := net.Listen("unix", fmt.Sprintf("@lilac-test-%d-%t", os.Getpid(), confined))
		if err != nil {
			t.Fatal(err)
		}
		defer abstract.Close()

		for name, probe := range map[string]string{
			"read the data directory":      "cat " + data + "/token",
			"read it through a link":       "cat link/token",
			"read it by another way up":    "cat ../data/token || cat /proc/*/root" + data + "/token",
			"write to the system":          "touch /usr/lilac-test && rm /usr/lilac-test",
			"list other homes":             "ls /root /home | grep .",
			"see our process":              fmt.Sprintf("tr '\\0' '\\n' < /proc/%d/environ | grep .", os.Getpid()),
			"signal our process":           fmt.Sprintf("kill -0 %d", os.Getpid()),
			"connect to a local server":    "exec 3<>/dev/tcp/127.0.0.1/" + port,
			"see the machine's interfaces": "tail -n +3 /proc/net/dev | grep -v ' lo:'",
			"see abstract sockets":         fmt.Sprintf("grep lilac-test-%d- /proc/net/unix", os.Getpid()),
			"read the machine's passwords": "cat /etc/shadow",
			"steer the kernel":             "v=$(cat /proc/sys/vm/swappiness); echo $v > /proc/sys/vm/swappiness",
			"see the machine's hardware":   "ls /sys | grep .",
		} {
			t.Run(name, func(t *testing.T) {
				if !confined && os.Getuid() != 0 {
					switch name {
					case "write to the system", "read the machine's passwords", "steer the kernel", "list other homes":
						t.Skip("the control needs root: run the tests as root to see it")
					}
				}
				out, res := script(t, box, sandbox.Policy{Workspace: ws, Hidden: []string{data}}, probe)
				if worked := res.ExitCode == 0; worked == confined {
					t.Errorf("exit code %d: %s", res.ExitCode, out)
				}
			})
		}
		t.Run("write outside the workspace", func(t *testing.T) {
			// In the sandbox, the path may be in the sandbox's own /tmp.
			script(t, box, sandbox.Policy{Workspace: ws}, "echo x > "+base+"/escaped")
			if _, err := os.Stat(filepath.Join(base, "escaped")); (err == nil) == confined {
				t.Errorf("the file outside: %v", err)
			}
		})
	})
}

func TestSandboxHidesADataDirectoryWithinWhatIsShown(t *testing.T) {
	confined(t, func(t *testing.T, box sandbox.Sandbox) {
		shown := t.TempDir()
		hidden := filepath.Join(shown, "data")
		if err := os.Mkdir(hidden, 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := box.Run(t.Context(), sandbox.Command{Argv: []string{"true"}},
			sandbox.Policy{Workspace: t.TempDir(), Hidden: []string{hidden}, Binds: []sandbox.Bind{{Source: shown}}})
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("a bind that shows a hidden path: %v", err)
		}
	})
}

func TestBindsAreShownAsAsked(t *testing.T) {
	confined(t, func(t *testing.T, box sandbox.Sandbox) {
		shown := t.TempDir()
		if err := os.WriteFile(filepath.Join(shown, "f"), []byte("here"), 0o644); err != nil {
			t.Fatal(err)
		}
		policy := sandbox.Policy{Workspace: t.TempDir(), Binds: []sandbox.Bind{{Source: shown, Target: "/opt/shown"}}}
		if out, res := script(t, box, policy, "cat /opt/shown/f && ! touch /opt/shown/g 2>/dev/null"); res.ExitCode != 0 || out != "here" {
			t.Errorf("%d %q", res.ExitCode, out)
		}
	})
}

// A read-only bind of the directory around the workspace does not make the workspace
// read-only.
func TestWhatIsShownAroundTheWorkspaceDoesNotCoverIt(t *testing.T) {
	confined(t, func(t *testing.T, box sandbox.Sandbox) {
		around := t.TempDir()
		ws, out := filepath.Join(around, "ws"), filepath.Join(around, "out")
		if err := errors.Join(os.Mkdir(ws, 0o755), os.Mkdir(out, 0o755), os.WriteFile(filepath.Join(around, "f"), []byte("here"), 0o644)); err != nil {
			t.Fatal(err)
		}
		policy := sandbox.Policy{Workspace: ws, Binds: []sandbox.Bind{{Source: out, Writable: true}, {Source: around}}}
		got, res := script(t, box, policy, "touch mine ../out/mine && cat ../f && ! touch ../g 2>/dev/null")
		if res.ExitCode != 0 || got != "here" {
			t.Errorf("%d %q", res.ExitCode, got)
		}
	})
}

func TestWorkspaceThatIsNotOneIsRefused(t *testing.T) {
	data := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(data, link); err != nil {
		t.Fatal(err)
	}
	for name, policy := range map[string]sandbox.Policy{
		"everything":                 {Workspace: "/"},
		"the system":                 {Workspace: "/usr/share"},
		"relative":                   {Workspace: "here"},
		"is the data directory":      {Workspace: data, Hidden: []string{data}},
		"contains it":                {Workspace: filepath.Dir(data), Hidden: []string{data}},
		"contains one still to come": {Workspace: data, Hidden: []string{filepath.Join(data, "a", "b")}},
		"lies in it":                 {Workspace: data, Hidden: []string{filepath.Dir(data)}},
		"by another name":            {Workspace: data, Hidden: []string{link}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := sandbox.Unconfined().Run(t.Context(), sandbox.Command{Argv: []string{"true"}}, policy)
			if fault.KindOf(err) != fault.Invalid {
				t.Errorf("got %v", err)
			}
		})
	}
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// sleepers returns the processes whose command line holds the mark.
func sleepers(mark string) []int {
	var pids []int
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range dirs {
		line, _ := os.ReadFile(path)
		words := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if len(words) == 2 && words[0] == "sleep" && words[1] == mark && alive(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for until := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("waited too long: %s", what)
		}
	}
}

func TestCancelLeavesNoProcess(t *testing.T) {
	effort.SkipSlow(t)
	each(t, func(t *testing.T, box sandbox.Sandbox, confined bool) {
		// A unique number of seconds to sleep identifies the processes.
		mark := fmt.Sprintf("6%d.%d", os.Getpid(), map[bool]int{true: 1, false: 2}[confined])
		wanted := errors.New("wanted")
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := box.Run(ctx, sandbox.Command{Argv: []string{
				"bash", "-c",
				fmt.Sprintf("trap '' TERM INT HUP; sleep %[1]s & (sleep %[1]s; true) & setsid sleep %[1]s & wait", mark),
			}},
				sandbox.Policy{Workspace: t.TempDir()})
			ended <- err
		}()
		waitFor(t, "three sleepers", func() bool { return len(sleepers(mark)) == 3 })
		before := time.Now()
		cancel(wanted)
		err := <-ended
		left := sleepers(mark)
		if took := time.Since(before); took > effort.Within(time.Second) {
			t.Errorf("it took %v", took)
		}
		if !confined { // unconfined, Run does not wait for killed processes
			waitFor(t, "the end of those in the group", func() bool { left = sleepers(mark); return len(left) <= 1 })
		}
		if !errors.Is(err, wanted) {
			t.Errorf("the cause is lost: %v", err)
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		// Control: unconfined, the process that left its group survives, and the test finds it.
		if want := map[bool]int{true: 0, false: 1}[confined]; len(left) != want {
			t.Errorf("%d processes are left, want %d", len(left), want)
		}
	})
}

func TestBackgroundProcessesEndWithTheShell(t *testing.T) {
	each(t, func(t *testing.T, box sandbox.Sandbox, confined bool) {
		mark := fmt.Sprintf("7%d.%d", os.Getpid(), map[bool]int{true: 1, false: 2}[confined])
		before := time.Now()
		_, res := script(t, box, sandbox.Policy{Workspace: t.TempDir()}, "sleep "+mark+" & exit 0")
		if took := time.Since(before); res.ExitCode != 0 || took > effort.Within(2*time.Second) {
			t.Errorf("%+v after %v", res, took)
		}
		waitFor(t, "the end of the sleeper", func() bool { return len(sleepers(mark)) == 0 })
	})
}

func TestManyEarlyCancelsLeaveNoProcess(t *testing.T) {
	effort.SkipDetail(t)
	confined(t, func(t *testing.T, box sandbox.Sandbox) {
		mark := fmt.Sprintf("8%d.1", os.Getpid())
		ws := t.TempDir()
		for i := range 40 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*400*time.Microsecond)
			_, _ = box.Run(ctx, sandbox.Command{Argv: []string{"sleep", mark}}, sandbox.Policy{Workspace: ws})
			cancel()
		}
		if left := sleepers(mark); len(left) > 0 {
			t.Errorf("%d processes are left", len(left))
		}
	})
}

func TestTimeoutIsToldApartFromCancel(t *testing.T) {
	effort.SkipSlow(t)
	each(t, func(t *testing.T, box sandbox.Sandbox, _ bool) {
		var out bytes.Buffer
		var timeout time.Duration
		// On a busy machine, the command may start late.
		for timeout = 300 * time.Millisecond; out.Len() == 0 && timeout < time.Minute; timeout *= 2 {
			res, err := box.Run(t.Context(), sandbox.Command{Argv: []string{"bash", "-c", "echo begun; sleep 600"}, Stdout: &out, Timeout: timeout},
				sandbox.Policy{Workspace: t.TempDir()})
			if err != nil || !res.TimedOut || res.Duration < timeout || res.Duration > timeout+effort.Within(time.Second) {
				t.Errorf("%+v, %v, %q", res, err, out.String())
			}
		}
		if out.String() != "begun\n" {
			t.Errorf("within %v it said %q", timeout/2, out.String())
		}
	})
}

func TestSignalBecomesAnExitCode(t *testing.T) {
	each(t, func(t *testing.T, box sandbox.Sandbox, _ bool) {
		if _, res := script(t, box, sandbox.Policy{Workspace: t.TempDir()}, "kill -SEGV $$"); res.ExitCode != 139 {
			t.Errorf("%+v", res)
		}
	})
}

func TestUnavailableSandboxRefuses(t *testing.T) {
	ws := t.TempDir()
	marker := filepath.Join(ws, "ran")
	for name, program := range map[string]string{
		"not installed": "",
		"does not work": "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n",
		// The first process is gone before its PID is checked.
		"ends at once": "#!/bin/sh\necho '{\"child-pid\": 1073741824}' >&4\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n",
		// A program that ignores the policy must not be accepted as a sandbox.
		"only pretends": "#!/bin/sh\nexit 0\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if program != "" {
				if err := os.WriteFile(filepath.Join(dir, "bwrap"), []byte(program), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", dir)
			box, err := sandbox.Open(t.Context(), sandbox.ModeBubblewrap)
			var f *fault.Error
			if !errors.As(err, &f) || f.Kind != fault.Unavailable || f.Code != sandbox.CodeUnavailable {
				t.Fatalf("got %v", err)
			}
			for _, says := range []string{"apt-get install bubblewrap", "sandbox: {mode: off}", "user namespaces"} {
				if !strings.Contains(f.Message, says) {
					t.Errorf("%q does not say %q", f.Message, says)
				}
			}
			if strings.Contains(program, "No permissions") && !strings.Contains(f.Message, "bwrap: No permissions to create new namespace") {
				t.Errorf("%q does not say why", f.Message)
			}
			_, err = box.Run(t.Context(), sandbox.Command{Argv: []string{"/usr/bin/touch", marker}}, sandbox.Policy{Workspace: ws})
			if fault.KindOf(err) != fault.Unavailable {
				t.Errorf("run: %v", err)
			}
			if _, err := os.Stat(marker); err == nil {
				t.Error("it ran unconfined")
			}
		})
	}
	t.Run("control: off by name runs", func(t *testing.T) {
		box, err := sandbox.Open(t.Context(), sandbox.ModeOff)
		if err != nil {
			t.Fatal(err)
		}
		if _, res := script(t, box, sandbox.Policy{Workspace: ws}, "touch "+marker); res.ExitCode != 0 {
			t.Fatal(res)
		}
		if _, err := os.Stat(marker); err != nil {
			t.Error(err)
		}
	})
}

func TestOurOwnNamespacesTakeThePlaceOfBubblewrap(t *testing.T) {
	if _, ok := offered(t)["namespaces"]; !ok {
		t.Skip("needs user namespaces and Landlock (Linux 5.19)")
	}
	t.Setenv("PATH", t.TempDir())
	box, err := sandbox.Open(t.Context(), sandbox.ModeAuto)
	if err != nil || box.Name() != "namespaces" {
		t.Fatalf("%s, %v", box.Name(), err)
	}
	if out, res := script(t, box, sandbox.Policy{Workspace: t.TempDir()}, "echo works"); res.ExitCode != 0 || out != "works\n" {
		t.Errorf("%+v %q", res, out)
	}
}

// Inside a sandbox, user namespaces are not available, so opening another sandbox fails.
func TestMachineWithoutUserNamespacesRefuses(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, box sandbox.Sandbox, confined bool) {
		policy := sandbox.Policy{Workspace: t.TempDir(), Binds: []sandbox.Bind{{Source: self, Target: "/opt/self"}}}
		program := "/opt/self"
		if !confined {
			program = self
		}
		for _, mode := range []string{"auto", "bubblewrap", "namespaces"} {
			out, _ := script(t, box, policy, program, openEnv+"="+mode)
			switch {
			case confined && (!strings.HasPrefix(out, "refused") || !strings.Contains(out, "user.max_user_namespaces")):
				t.Errorf("%s: %s", mode, out)
			case !confined && mode == "auto" && !strings.HasPrefix(out, "opened"):
				t.Errorf("the control refuses: %s", out)
			}
		}
	})
}

// A command cannot kill the first process of its sandbox, and so itself, with a signal.
func TestNoSignalEndsTheFirstProcess(t *testing.T) {
	confined(t, func(t *testing.T, box sandbox.Sandbox) {
		out, res := script(t, box, sandbox.Policy{Workspace: t.TempDir()}, "for n in $(seq 64); do kill -$n 1; done 2>/dev/null; sleep 0.05; echo alive")
		if res.ExitCode != 0 || strings.TrimSpace(out) != "alive" {
			t.Errorf("the command ended with %+v and said %q", res, out)
		}
	})
}
