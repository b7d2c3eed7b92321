package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"lilac/internal/foundation/fault"
)

// drainGrace is how long to keep reading output and status after the processes of a
// command were killed. Usually the pipes close at once. Only a process that left an
// unconfined process group can keep them open.
const drainGrace = 400 * time.Millisecond

// deathGrace limits the wait for the killed processes of a sandbox. They usually exit at
// once; the exceptions are a process in uninterruptible sleep and a machine under heavy
// load.
const deathGrace = 5 * time.Second

// process describes one run of a program in its own process group.
type process struct {
	path string
	argv []string
	dir  string
	env  []string // the complete environment
	cmd  Command
	// data holds the contents of additional file descriptors, indexed by their number.
	data []string
	// status is the descriptor on which the sandbox reports, or zero for none.
	status int
	// gate is the descriptor that bubblewrap reads before it starts the command, or zero
	// for none. A byte is written to it once the limits are set.
	gate int
	// attr changes the attributes with which the process starts; it may be nil.
	attr func(*syscall.SysProcAttr)
	// limits bound the resources of the process. Without a sandbox, only the output is
	// bounded.
	limits Limits
	// least is the smallest per-process memory limit to set in the kernel, in bytes, even
	// if the limit for all processes together is lower.
	least int64
	// written lists the directories that the process may write to. The free space of
	// their disks is watched.
	written []string
	// setup, if not nil, keeps the beginning of its standard error.
	setup *prefix
}

// ending is the outcome of a process.
type ending struct {
	Result
	// ran reports that the command was started. Otherwise, the exit code is that of a
	// sandbox that failed to start.
	ran bool
	// reason is the sandbox's own message about why it did not start.
	reason string
}

// confined runs a process that builds a sandbox, and returns an error if the sandbox did
// not start.
func (p process) confined(ctx context.Context) (Result, error) {
	end, err := p.run(ctx)
	switch {
	case err != nil:
		return end.Result, fmt.Errorf("run command in sandbox: %w", err)
	case end.TimedOut || end.Exceeded != "" || end.ran:
		return end.Result, nil
	}
	reason := end.reason
	if p.setup != nil {
		reason = cmp.Or(reason, strings.TrimSpace(p.setup.String()))
	}
	return end.Result, fmt.Errorf("start sandbox: %w", &fault.Error{
		Kind: fault.Unavailable, Code: CodeUnavailable,
		Message: "The sandbox did not start, so the command was not run.",
		Err:     errors.New(cmp.Or(reason, "it says nothing about why")),
	})
}

// prefix keeps the first limit bytes that are written to it and drops the rest.
type prefix struct {
	limit int
	buf   bytes.Buffer
}

func (p *prefix) Write(b []byte) (int, error) {
	p.buf.Write(b[:min(len(b), max(0, p.limit-p.buf.Len()))])
	return len(b), nil
}

func (p *prefix) String() string { return p.buf.String() }
