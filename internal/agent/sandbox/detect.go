package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"lilac/internal/foundation/fault"
)

// probeTimeout limits the test command of the detection. It takes milliseconds, but many
// seconds on a small machine during boot. The detection runs only once.
const probeTimeout = time.Minute

// errHangs means that the test command timed out. Other options would not make it faster.
var errHangs = fmt.Errorf("the probe did not end within %s", probeTimeout)

// errNoTemp means that there is no temporary directory for the test command. It says
// nothing about the sandbox.
type errNoTemp struct{ err error }

func (e errNoTemp) Error() string { return e.err.Error() }

// Detect returns the sandbox of this machine: bubblewrap, or else the built-in namespace
// sandbox. For root on Linux 6.14 or later, it prefers the built-in sandbox, because only
// that one can limit the number of root's processes. The returned sandbox has run a test
// command. The error is a fault of kind Unavailable with a message for people.
func Detect(ctx context.Context) (Sandbox, error) {
	first, second := detectBubblewrap, detectNamespaces
	if boundsRoot() {
		first, second = second, first
	}
	box, err := first(ctx)
	if err == nil {
		return box, nil
	}
	box, secondErr := second(ctx)
	if secondErr == nil {
		return box, nil
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("look for a sandbox: %w", context.Cause(ctx))
	}
	if refusal := noTemp(errors.Join(err, secondErr)); refusal != nil {
		return nil, refusal
	}
	return nil, unavailable("There is no sandbox: %s; %s.", err, secondErr)
}

// detectMode returns the sandbox that a mode names.
func detectMode(ctx context.Context, mode Mode) (box Sandbox, err error) {
	detect := detectBubblewrap
	if mode == ModeNamespaces {
		detect = detectNamespaces
	}
	if box, err = detect(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("look for a sandbox: %w", context.Cause(ctx))
		}
		if refusal := noTemp(err); refusal != nil {
			return nil, refusal
		}
		refusal := unavailable("There is no sandbox: %s.", err)
		refusal.Err = err
		return nil, refusal
	}
	return box, nil
}

// probe runs a test command in a sandbox.
func probe(ctx context.Context, box Sandbox) error {
	dir, release, err := probeDir()
	if err != nil {
		return errNoTemp{err}
	}
	defer release()
	result, err := box.Run(ctx, Command{Argv: []string{"true"}, Timeout: probeTimeout}, Policy{Workspace: dir})
	if err != nil {
		var f *fault.Error
		if errors.As(err, &f) && f.Err != nil {
			return f.Err
		}
		return err
	}
	if result.TimedOut {
		return errHangs
	}
	if result.ExitCode != 0 {
		return fmt.Errorf("the probe ended with %d", result.ExitCode)
	}
	return nil
}

// noTemp returns the refusal if no sandbox could be tried, or nil.
func noTemp(err error) *fault.Error {
	if !errors.As(err, &errNoTemp{}) {
		return nil
	}
	return &fault.Error{Kind: fault.Unavailable, Code: CodeNoTemp, Message: fmt.Sprintf(
		"No sandbox could be tried, because nothing can be written in %s, the directory for temporary files. Commands are not run without a sandbox. "+
			"Make that directory, or name another one in TMPDIR, and restart Lilac.", os.TempDir())}
}

// unavailable returns a fault that says how to get a sandbox.
func unavailable(format string, args ...any) *fault.Error {
	err := fault.New(fault.Unavailable, "%s Commands are not run without a sandbox. "+
		"Install bubblewrap (Debian, Ubuntu: apt-get install bubblewrap), "+
		"allow user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns; "+
		"Docker: --security-opt seccomp=unconfined --security-opt apparmor=unconfined), %s"+
		"and restart Lilac; or set `sandbox: {mode: off}` in the configuration to run them with all the rights of this user.",
		fmt.Sprintf(format, args...), uncover())
	err.Code = CodeUnavailable
	return err
}

// uncover returns advice if parts of /proc are covered, as in most containers. The kernel
// then refuses to mount a new /proc, which a sandbox needs.
func uncover() string {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || !covered(string(mounts)) {
		return ""
	}
	return "uncover /proc, parts of which are covered (podman: --security-opt unmask=ALL; Docker: --security-opt systempaths=unconfined; " +
		"systemd: no ProtectKernelTunables, no ProtectProc; Kubernetes: sandbox.enabled of the Helm chart), "
}

// covered reports whether something is mounted over a part of /proc. A mount on an empty
// directory covers nothing.
func covered(mounts string) bool {
	for line := range strings.Lines(mounts) {
		const target = 4
		fields := strings.Fields(line)
		if len(fields) > target && strings.HasPrefix(fields[target], "/proc/") && fields[target] != "/proc/sys/fs/binfmt_misc" {
			return true
		}
	}
	return false
}
