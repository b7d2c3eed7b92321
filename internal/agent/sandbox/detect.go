package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"lilac/internal/foundation/fault"
)

// probeTimeout bounds the proof that a sandbox works. It takes milliseconds, and
// many seconds on a small machine that boots; what was found is not looked for again.
const probeTimeout = time.Minute

// errHangs is a sandbox that comes up no faster in another form.
var errHangs = fmt.Errorf("the probe did not end within %s", probeTimeout)

// errNoTemp is a probe that could not begin: of the sandbox it says nothing.
type errNoTemp struct{ err error }

func (e errNoTemp) Error() string { return e.err.Error() }

// Detect returns the sandbox of this machine: bubblewrap, else namespaces of
// our own; for root the other way round on kernels (Linux 6.14) on which those
// alone bound the number of root's processes. What it returns has run a command. The error is a fault of kind
// Unavailable for a person.
func Detect(ctx context.Context) (Sandbox, error) {
	if runtime.GOOS != "linux" {
		return nil, unavailable("The sandbox needs Linux.")
	}
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

// detectMode returns the sandbox of one kind.
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

// probe runs a command in a sandbox to prove that it works.
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

// unavailable returns the refusal that says what to do.
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
		"systemd: no ProtectKernelTunables, no ProtectProc), "
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
