package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"lilac/internal/fault"
)

// probeTimeout bounds the proof that a sandbox works; it takes milliseconds.
const probeTimeout = 10 * time.Second

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
		refusal := unavailable("There is no sandbox: %s.", err)
		refusal.Err = err
		return nil, refusal
	}
	return box, nil
}

// probe runs a command in a sandbox and believes only its report.
func probe(ctx context.Context, box Sandbox) error {
	dir, err := os.MkdirTemp("", "lilac-sandbox-probe-")
	if err != nil {
		return fmt.Errorf("make directory for sandbox probe: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	result, err := box.Run(ctx, Command{Argv: []string{"true"}, Timeout: probeTimeout}, Policy{Workspace: dir})
	if err != nil {
		var f *fault.Error
		if errors.As(err, &f) && f.Err != nil {
			return f.Err
		}
		return err
	}
	if result.ExitCode != 0 || result.TimedOut {
		return fmt.Errorf("the probe ended with %d", result.ExitCode)
	}
	return nil
}

// unavailable is the refusal that says what to do.
func unavailable(format string, args ...any) *fault.Error {
	err := fault.New(fault.Unavailable, "%s Commands are not run without a sandbox. "+
		"Install bubblewrap (Debian, Ubuntu: apt-get install bubblewrap), "+
		"allow user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns), "+
		"and restart Lilac; or set `sandbox: {mode: off}` in the configuration to run them with all the rights of this user.",
		fmt.Sprintf(format, args...))
	err.Code = CodeUnavailable
	return err
}
