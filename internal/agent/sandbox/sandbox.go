package sandbox

import (
	"context"
	"io"
	"time"

	"lilac/internal/foundation/fault"
)

// CodeUnavailable is the code of the fault that a missing sandbox is.
const CodeUnavailable = "sandbox_unavailable"

// CodeNoTemp is the code of the fault when none could be tried, because there is
// no directory for temporary files.
const CodeNoTemp = "no_temporary_directory"

// Sandbox runs commands under a policy.
type Sandbox interface {
	// Name is what it is called in logs and by doctor.
	Name() string
	// Run runs the command to its end. Its exit code, a death by signal and the
	// command's own time limit are part of the Result; an error is the end of
	// ctx (its cause), a policy that cannot be kept, or a sandbox that did not
	// come up. No process of the command is left when Run returns.
	Run(ctx context.Context, cmd Command, policy Policy) (Result, error)
}

// Command is what to run.
type Command struct {
	// Argv is the program and its arguments. The program is looked up in the
	// PATH that the command gets.
	Argv []string
	// Dir is where it starts; empty means the workspace.
	Dir string
	// Env is added to the few variables that every command gets (HOME, PATH,
	// LANG, TERM, TMPDIR, USER, SHELL); a later "key=value" wins.
	Env []string
	// Stdin is what it can read; then its input ends.
	Stdin []byte
	// Stdout and Stderr take its output. A nil Stderr joins Stdout, in the
	// order in which it was written; a nil Stdout drops the output. They should
	// not block; when they fail the rest is dropped.
	Stdout, Stderr io.Writer
	// Timeout is how long it may take; zero means as long as ctx.
	Timeout time.Duration
}

// Policy is what a command may see and do. Everything else is denied.
type Policy struct {
	// Workspace is the one directory that may be written; it is also HOME.
	Workspace string
	// Hidden are paths that must not be visible. A policy under which one of
	// them would lie in the workspace is refused.
	Hidden []string
	// Masked are paths that are covered where a bind or the system would show
	// them. What does not exist when the command starts is not covered.
	Masked []string
	// Binds are further paths that are visible. A Unix socket may be one of
	// them: a command can talk to it without having a network.
	Binds []Bind
	// Proxy is the Unix socket of an HTTP proxy, the one way out for a command;
	// empty means no network. HTTP_PROXY and its kin lead to it.
	Proxy string
	// Limits bound what a command may use.
	Limits Limits
	// TmpBytes bounds /tmp; zero means DefaultTmpBytes.
	TmpBytes int64
	// Hostname is what the command takes the machine's name for, where that can
	// be set; empty means "lilac".
	Hostname string
}

// Bind makes a path of the machine visible to a command.
type Bind struct {
	Source string
	// Target is where it appears; empty means the same path.
	Target   string
	Writable bool
}

// DefaultTmpBytes is how much /tmp and /dev/shm hold each; they live in memory.
const DefaultTmpBytes = 256 << 20

// Result is how a command ended.
type Result struct {
	// ExitCode is what it exited with, as a shell tells it: 128 and the number
	// of the signal when one killed it.
	ExitCode int
	// Signal is the number of the signal that killed it, zero when it exited
	// by itself or when that is not known.
	Signal int
	// TimedOut says that Command.Timeout ended it.
	TimedOut bool
	// Exceeded is the limit for which it was killed, or empty.
	Exceeded Exceeded
	Duration time.Duration
}

// Mode is the setting that chooses a sandbox.
type Mode string

// The modes.
const (
	// ModeAuto is the sandbox of this machine, or refusal.
	ModeAuto Mode = "auto"
	// ModeBubblewrap is bubblewrap, or refusal.
	ModeBubblewrap Mode = "bubblewrap"
	// ModeNamespaces is our own sandbox, or refusal.
	ModeNamespaces Mode = "namespaces"
	// ModeOff runs commands unconfined; it accepts the risk.
	ModeOff Mode = "off"
)

// Open returns the sandbox for a mode. When there is none the error says why,
// and the Sandbox, which is never nil, refuses every command with that error.
func Open(ctx context.Context, mode Mode) (box Sandbox, err error) {
	switch mode {
	case "", ModeAuto:
		box, err = Detect(ctx)
	case ModeBubblewrap, ModeNamespaces:
		box, err = detectMode(ctx, mode)
	case ModeOff:
		box = Unconfined()
	default:
		err = fault.InvalidField("sandbox.mode", "The mode of the sandbox must be auto, bubblewrap, namespaces or off, not %q.", string(mode))
	}
	if err != nil {
		return Refusing(err), err
	}
	return box, nil
}

// Opening is a Sandbox that is still being looked for; its commands wait.
type Opening struct {
	found chan struct{}
	box   Sandbox
	err   error
}

// Start begins to open the sandbox for a mode. To find one out takes as long as
// the rest of a program's start. Whoever calls it calls [Opening.Wait].
func Start(ctx context.Context, mode Mode) *Opening {
	o := &Opening{found: make(chan struct{})}
	go func() {
		defer close(o.found)
		o.box, o.err = Open(ctx, mode)
	}()
	return o
}

// Wait returns when the sandbox is known, with why there is none.
func (o *Opening) Wait() error {
	<-o.found
	return o.err
}

// Refuses reports whether it is known by now that there is none.
func (o *Opening) Refuses() bool {
	select {
	case <-o.found:
		return o.err != nil
	default:
		return false
	}
}

// Name implements [Sandbox]. It waits.
func (o *Opening) Name() string {
	<-o.found
	return o.box.Name()
}

// Run implements [Sandbox].
func (o *Opening) Run(ctx context.Context, cmd Command, policy Policy) (Result, error) {
	select {
	case <-o.found:
		return o.box.Run(ctx, cmd, policy)
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
}

// Refusing returns a Sandbox that answers every command with err.
func Refusing(err error) Sandbox { return refusing{err} }

type refusing struct{ err error }

func (refusing) Name() string { return "none" }

func (r refusing) Run(context.Context, Command, Policy) (Result, error) { return Result{}, r.err }
