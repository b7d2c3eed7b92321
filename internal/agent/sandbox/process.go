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

// drainGrace is how long output and status may still arrive after every
// process of a command was told to die. Usually they end at once; only what
// escaped from an unconfined process group can hold them open.
const drainGrace = 400 * time.Millisecond

// deathGrace bounds how long the processes of a sandbox that were told to die
// are waited for. They do so at once unless the kernel holds one of them, and
// as soon as they get a processor.
const deathGrace = 5 * time.Second

// process is one run of a program in a process group of its own.
type process struct {
	path string
	argv []string
	dir  string
	env  []string // exactly what it gets
	cmd  Command
	// data are the contents of further descriptors that it reads, by number.
	data []string
	// status, when not zero, is the descriptor on which the sandbox reports.
	status int
	// gate, when not zero, is the descriptor that it reads before it lets the
	// command start; that happens when the limits are set.
	gate int
	// attr, when set, are further wishes for how it is started.
	attr func(*syscall.SysProcAttr)
	// limits bound what it may use. Without a sandbox only output is bounded.
	limits Limits
	// least is the memory that the kernel grants to one process even where all of
	// them together may have less.
	least int64
	// written are the directories on whose disks it may write.
	written []string
	// setup, when set, sees the beginning of its standard error.
	setup *prefix
}

// ending is how a process ended.
type ending struct {
	Result
	// ran says that the command was started, so that the exit code is its own
	// and not that of a sandbox that did not come up.
	ran bool
	// reason is what the sandbox says about why it did not come up.
	reason string
}

// confined runs a process that is a sandbox.
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
