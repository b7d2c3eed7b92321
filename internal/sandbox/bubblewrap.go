package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"lilac/internal/fault"
)

// probeTimeout bounds the proof that bubblewrap works; it takes milliseconds.
const probeTimeout = 10 * time.Second

// maxSetupWords is how much of what bubblewrap says about itself is kept.
const maxSetupWords = 1 << 10

// Descriptors of the sandbox's own, after stdin, stdout and stderr.
const (
	argsFD = 3 + iota
	statusFD
	passwdFD
	groupFD
	hostsFD
)

// Detect finds bubblewrap in the PATH and proves that it works by running a
// command in it. The error is a fault of kind Unavailable for a person.
func Detect(ctx context.Context) (Sandbox, error) {
	if runtime.GOOS != "linux" {
		return nil, unavailable(nil, "The sandbox needs Linux.")
	}
	path, err := exec.LookPath("bwrap")
	if err != nil {
		return nil, unavailable(err, "The sandbox program bubblewrap (bwrap) is not installed.")
	}
	dir, err := os.MkdirTemp("", "lilac-sandbox-probe-")
	if err != nil {
		return nil, fmt.Errorf("make directory for sandbox probe: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	// Old versions and some machines cannot forbid further namespaces or bound
	// a tmpfs; that is a second fence, so the sandbox does without before it refuses.
	var last error
	for _, box := range []bubblewrap{{path: path, noUserns: true, sized: true}, {path: path, noUserns: true}, {path: path, sized: true}, {path: path}} {
		result, err := box.Run(ctx, Command{Argv: []string{"true"}, Timeout: probeTimeout}, Policy{Workspace: dir})
		if err == nil && result.ExitCode == 0 {
			return box, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("probe sandbox: %w", context.Cause(ctx))
		}
		if last = err; last == nil {
			last = fmt.Errorf("the probe exited with %d", result.ExitCode)
		}
	}
	reason := errors.Unwrap(last)
	if reason == nil {
		reason = last
	}
	return nil, unavailable(reason, "The sandbox program bubblewrap does not work on this machine (user namespaces may be switched off).")
}

// bubblewrap runs each command in a bwrap of its own.
type bubblewrap struct {
	path     string
	noUserns bool // --disable-userns works here
	sized    bool // --size works here
}

func (bubblewrap) Name() string { return "bubblewrap" }

func (b bubblewrap) Run(ctx context.Context, cmd Command, policy Policy) (Result, error) {
	r, err := resolve(cmd, policy)
	if err != nil {
		return Result{}, err
	}
	identity := fmt.Sprintf("lilac:x:%d:%d:lilac:%s:/bin/bash\n", os.Getuid(), os.Getgid(), r.Workspace)
	group := fmt.Sprintf("lilac:x:%d:\n", os.Getgid())
	data := []string{
		argsFD:   strings.Join(b.args(r, cmd), "\x00") + "\x00",
		passwdFD: identity,
		groupFD:  group,
		hostsFD:  "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 " + r.Hostname + "\n",
	}
	// The environment, tokens included, goes by a descriptor: arguments can be
	// read by every user of the machine, and variables of our own process would
	// steer bwrap itself.
	argv := slices.Concat([]string{"bwrap", "--args", strconv.Itoa(argsFD), "--"}, cmd.Argv)
	setup := &prefix{limit: maxSetupWords}
	p := process{path: b.path, argv: argv, dir: "/", env: []string{}, cmd: cmd, data: data, status: statusFD, setup: setup}
	end, err := p.run(ctx)
	switch {
	case err != nil:
		return end.Result, fmt.Errorf("run command in sandbox: %w", err)
	case end.TimedOut || end.reported:
		return end.Result, nil
	}
	return end.Result, fmt.Errorf("start sandbox: %w", &fault.Error{
		Kind: fault.Unavailable, Code: CodeUnavailable,
		Message: "The sandbox did not start, so the command was not run.",
		Err:     errors.New(strings.TrimSpace(setup.String())),
	})
}

// args is the policy in bubblewrap's words. Order matters: what comes later
// lies over what came before.
func (b bubblewrap) args(r resolved, cmd Command) []string {
	args := []string{
		"--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try",
		"--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", r.Hostname,
		"--json-status-fd", strconv.Itoa(statusFD), "--clearenv",
	}
	if b.noUserns {
		args = append(args, "--disable-userns")
	}
	add := func(words ...string) { args = append(args, words...) }
	tmpfs := func(path string) {
		if b.sized {
			add("--size", strconv.FormatInt(r.TmpBytes, 10))
		}
		add("--tmpfs", path)
	}
	var shown []string
	for _, dir := range systemDirs {
		if target, err := os.Readlink(dir); err == nil {
			add("--symlink", target, dir)
		} else if _, err := os.Stat(dir); err == nil {
			add("--ro-bind", dir, dir)
			shown = append(shown, dir)
		}
	}
	for _, path := range etcPaths {
		if real, err := realPath(path); err == nil {
			add("--ro-bind-try", real, path)
		}
	}
	add("--ro-bind-data", strconv.Itoa(passwdFD), "/etc/passwd")
	add("--ro-bind-data", strconv.Itoa(groupFD), "/etc/group")
	add("--ro-bind-data", strconv.Itoa(hostsFD), "/etc/hosts")
	add("--proc", "/proc", "--dev", "/dev")
	tmpfs("/dev/shm")
	tmpfs("/tmp")
	for _, hidden := range r.hidden {
		for _, dir := range shown {
			if inside(hidden, dir) {
				if info, err := os.Stat(hidden); err == nil && info.IsDir() {
					add("--tmpfs", hidden, "--remount-ro", hidden)
				} else if err == nil {
					add("--ro-bind", "/dev/null", hidden)
				}
			}
		}
	}
	add("--bind", r.Workspace, r.Workspace)
	for _, bind := range r.Binds {
		if bind.Writable {
			add("--bind", bind.Source, bind.Target)
		} else {
			add("--ro-bind", bind.Source, bind.Target)
		}
	}
	// To root, and our user may be root, /proc/sys is writable without any
	// capability, and with it the machine (core_pattern).
	add("--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", r.dir)
	for _, kv := range r.environment(cmd.Env) {
		key, value, _ := strings.Cut(kv, "=")
		add("--setenv", key, value)
	}
	return args
}

// prefix keeps the first bytes that are written to it.
type prefix struct {
	limit int
	buf   bytes.Buffer
}

func (p *prefix) Write(b []byte) (int, error) {
	p.buf.Write(b[:min(len(b), max(0, p.limit-p.buf.Len()))])
	return len(b), nil
}

func (p *prefix) String() string { return p.buf.String() }
