package sandbox

import (
	"context"
	"io"
	"os"
	"runtime"
	"time"

	"lilac/internal/foundation/fault"
)

// CodeUnavailable is the code of the fault when there is no sandbox.
const CodeUnavailable = "sandbox_unavailable"

// CodeNoTemp is the code of the fault when no sandbox could be tried, because there is no
// directory for temporary files.
const CodeNoTemp = "no_temporary_directory"

// Sandbox runs commands under a policy.
type Sandbox interface {
	// Name is the name in logs and in doctor.
	Name() string
	// Run runs the command to its end. Exit codes, signals and the command's own time
	// limit are part of the Result. An error is the end of ctx (its cause), a policy that
	// cannot be enforced, or a sandbox that did not start. When Run returns, no process of
	// the command is left.
	Run(ctx context.Context, cmd Command, policy Policy) (Result, error)
}

// Command is a command to run in a sandbox.
type Command struct {
	// Argv is the program and its arguments. The program is looked up in the
	// PATH that the command gets.
	Argv []string
	// Dir is the directory in which it starts; empty means the workspace.
	Dir string
	// Env is added to the few variables that every command gets (HOME, PATH,
	// LANG, TERM, TMPDIR, USER, SHELL); a later "key=value" wins.
	Env []string
	// Stdin is its standard input.
	Stdin []byte
	// Input is its standard input instead of Stdin, if it is not nil: the end of a pipe
	// that the caller writes to while the command runs. The caller closes both ends.
	Input *os.File
	// Stdout and Stderr receive its output. If Stderr is nil, standard error goes to
	// Stdout in the order of the writes; if Stdout is nil, the output is dropped. They
	// should not block. After an error, the rest is dropped.
	Stdout, Stderr io.Writer
	// Timeout limits the command; zero means that only ctx does.
	Timeout time.Duration
}

// Policy lists what a command may see and do. Everything else is denied.
type Policy struct {
	// Workspace is the directory that the command works in and may write.
	Workspace string
	// Own reports that Lilac made the workspace for one conversation. Only such a workspace may
	// lie in a hidden path; a command sees nothing else of that.
	Own bool
	// Home is the directory that is HOME, which the command may write, too; empty means the
	// workspace. It may lie in a hidden path: a command sees only this directory of it, at
	// another path.
	Home string
	// Hidden lists paths that must not be visible. A policy with one of them in the
	// workspace is refused.
	Hidden []string
	// Masked lists paths that are covered where a bind or the system would show them. A
	// path that does not exist when the command starts is not covered.
	Masked []string
	// Binds lists further visible paths. One of them may be a Unix socket: a command can
	// use it without a network.
	Binds []Bind
	// Proxy is the Unix socket of an HTTP proxy, the command's only access to the network;
	// empty means no network. HTTP_PROXY and similar variables point to it.
	Proxy string
	// Limits bound what a command may use.
	Limits Limits
	// TmpBytes bounds /tmp; zero means DefaultTmpBytes.
	TmpBytes int64
	// Hostname is the host name that the command sees, where it can be set; empty means
	// "lilac".
	Hostname string
}

// Bind makes a path of the machine visible to a command.
type Bind struct {
	Source string
	// Target is the path in the sandbox; empty means the same path.
	Target   string
	Writable bool
}

// DefaultTmpBytes is the size of /tmp and of /dev/shm. Both are in memory.
const DefaultTmpBytes = 256 << 20

// Result is the outcome of a command.
type Result struct {
	// ExitCode is the exit code in the form of a shell: 128 plus the number of the signal
	// if a signal killed it.
	ExitCode int
	// Signal is the number of the signal that killed it; zero if it exited by itself, or
	// if that is unknown.
	Signal int
	// TimedOut reports that Command.Timeout ended it.
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
	// ModeNamespaces is Lilac's built-in namespace sandbox, or refusal.
	ModeNamespaces Mode = "namespaces"
	// ModeOff runs commands unconfined, on Linux; it accepts the risk.
	ModeOff Mode = "off"
)

// Open returns the sandbox for a mode. If there is none, the error says why, and the
// returned Sandbox refuses every command with that error. It is never nil.
func Open(ctx context.Context, mode Mode) (box Sandbox, err error) {
	if runtime.GOOS != "linux" { // only there can all processes of a command be ended
		err := &fault.Error{Kind: fault.Unavailable, Code: CodeUnavailable, Message: "The agent runs commands on Linux only. Its other tools also work on this system."}
		return Refusing(err), err
	}
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

// Opening is a Sandbox whose detection is still running; its commands wait.
type Opening struct {
	found chan struct{}
	box   Sandbox
	err   error
}

// Start starts to open the sandbox for a mode in a goroutine, because detection takes as
// long as the rest of the program's start. The caller must call [Opening.Wait].
func Start(ctx context.Context, mode Mode) *Opening {
	o := &Opening{found: make(chan struct{})}
	go func() {
		defer close(o.found)
		o.box, o.err = Open(ctx, mode)
	}()
	return o
}

// Wait waits for the detection, and returns the reason if there is no sandbox.
func (o *Opening) Wait() error {
	<-o.found
	return o.err
}

// Refuses reports whether the detection has ended without a sandbox.
func (o *Opening) Refuses() bool {
	select {
	case <-o.found:
		return o.err != nil
	default:
		return false
	}
}

// Name implements [Sandbox]. It waits for the detection.
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

// Refusing returns a Sandbox that refuses every command with err.
func Refusing(err error) Sandbox { return refusing{err} }

type refusing struct{ err error }

func (refusing) Name() string { return "none" }

func (r refusing) Run(context.Context, Command, Policy) (Result, error) { return Result{}, r.err }
