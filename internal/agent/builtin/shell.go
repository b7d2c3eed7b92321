package builtin

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"time"

	"lilac/internal/agent/egress"
	"lilac/internal/agent/sandbox"
	"lilac/internal/agent/tool"
	"lilac/internal/foundation/fault"
)

// Nodes chooses the machine on which a command runs.
type Nodes interface {
	// Run runs a line for a call on another machine, or calls here, which runs it on this one.
	Run(ctx context.Context, call tool.Call, l Line, here func() (Ended, error)) (Ended, error)
}

// Ended is the end of a command.
type Ended struct {
	sandbox.Result
	// Denied lists the targets in the network that were refused, if commands may reach hosts.
	Denied []string
	// Lost reports that the machine that ran the command was lost. The command has ended, but
	// nobody knows how.
	Lost bool
}

// Shell runs bash commands in the sandbox under one policy.
type Shell struct {
	ws     *workspace
	box    sandbox.Sandbox
	policy sandbox.Policy
	env    []string
	log    *slog.Logger
	egress *egress.Proxy
	access Access
	home   func(sessionID string) (string, error)
	nodes  Nodes
}

// Line is a command for a [Shell].
type Line struct {
	Command string
	// Dir is a directory in the workspace; empty means the workspace.
	Dir string
	// Output receives standard output and standard error.
	Output io.Writer
	// Timeout limits the command; zero means that only the context does.
	Timeout time.Duration
	// Access replaces the access of the shell; nil means that one.
	Access Access
}

// NewShell returns a shell with the same policy as the tool bash.
func NewShell(opts Options) (*Shell, error) {
	ws, err := openWorkspace(opts)
	if err != nil {
		return nil, err
	}
	return newShell(ws, opts), nil
}

func newShell(ws *workspace, opts Options) *Shell {
	box := opts.Sandbox
	if box == nil {
		box = sandbox.Refusing(fault.New(fault.Unavailable, "Commands cannot be run: no sandbox was set up."))
	}
	return &Shell{
		ws: ws, box: box, log: cmp.Or(opts.Logger, slog.New(slog.DiscardHandler)), env: slices.Clone(opts.Env), egress: opts.Egress, access: opts.Access, home: opts.Home, nodes: opts.Nodes,
		policy: sandbox.Policy{
			Workspace: ws.dir, Hidden: slices.Clone(opts.Hidden), Masked: slices.Clone(opts.Masked), Binds: slices.Clone(opts.Binds),
			Limits: opts.Limits, TmpBytes: opts.TmpBytes,
		},
	}
}

// network describes for the model which hosts commands can reach.
func (s *Shell) network() string {
	if s.egress == nil {
		return "There is no network"
	}
	return "Of the network only these hosts can be reached, by HTTP and HTTPS through the proxy that the environment names (names are not resolved in the sandbox): " +
		egress.Names(s.egress.Rules())
}

// Check returns an error if a line cannot be run in a workspace; "" means the configured one.
// Otherwise, it returns the directory in which the line would start, relative to the workspace.
func (s *Shell) Check(workspace string, l Line) (dir string, err error) {
	if len(l.Command) > bashMaxCommand {
		return "", fault.InvalidField("command", "The command has %d bytes, the limit is %d: write it to a file and run that.", len(l.Command), bashMaxCommand)
	}
	return s.ws.in(workspace).rel(l.Dir)
}

// Run runs a line for a call, on the machine that the nodes choose. The error is that of
// [sandbox.Sandbox].
func (s *Shell) Run(ctx context.Context, call tool.Call, l Line) (Ended, error) {
	dir, err := s.Check(call.Workspace, l)
	if err != nil {
		return Ended{}, err
	}
	here := func() (Ended, error) {
		ended, err := s.confined(ctx, call, l.Access, sandbox.Command{Argv: []string{"bash", "-c", l.Command}, Dir: dir, Stdout: l.Output, Timeout: l.Timeout})
		if fault.KindOf(err) == fault.Unavailable && ctx.Err() == nil {
			s.log.WarnContext(ctx, "sandbox_unavailable", "sandbox", s.box.Name(), "error", err)
		}
		return ended, err
	}
	if s.nodes == nil {
		return here()
	}
	if call.Workspace == "" {
		call.Workspace = s.ws.dir
	}
	return s.nodes.Run(ctx, call, l, here)
}

func (s *Shell) confined(ctx context.Context, call tool.Call, access Access, cmd sandbox.Command) (ended Ended, err error) {
	policy, ws := s.policy, s.ws.in(call.Workspace)
	policy.Workspace, policy.Own = ws.dir, ws.own
	if s.home != nil {
		if policy.Home, err = s.home(call.SessionID); err != nil {
			return ended, err
		}
	}
	cmd.Env = append(slices.Clone(s.env),
		"LILAC_REQUEST_ID="+call.RequestID, "LILAC_SESSION_ID="+call.SessionID, "LILAC_REQUEST_CLIENT="+call.Client)
	if access == nil {
		access = s.access
	}
	if access != nil {
		pass, err := access.Open(call)
		if err != nil {
			return ended, err
		}
		defer pass.Close()
		cmd.Env = append(cmd.Env, pass.Env...)
		policy.Binds = slices.Concat(policy.Binds, pass.Binds)
	}
	if s.egress == nil {
		ended.Result, err = s.box.Run(ctx, cmd, policy)
		return ended, err
	}
	gate, err := s.egress.Open(ctx, s.log.With("request_id", call.RequestID, "session_id", call.SessionID))
	if err != nil {
		return ended, err
	}
	policy.Proxy = gate.Path()
	cmd.Env = append(cmd.Env, egress.GitEnvironment(s.egress.Rules())...)
	ended.Result, err = s.box.Run(ctx, cmd, policy)
	ended.Denied = gate.Denied()
	return ended, errors.Join(err, gate.Close())
}

// Killed says why the command was killed, or returns "" if it was not.
func (e Ended) Killed() string {
	if e.Lost {
		return "the machine that ran it was lost, so that it is not known what the command did"
	}
	return map[sandbox.Exceeded]string{
		sandbox.ExceededMemory:    "it used more memory than a command may",
		sandbox.ExceededProcesses: "it started more processes than a command may",
		sandbox.ExceededDisk:      "it wrote more to the disk than a command may, or the disk is nearly full",
		sandbox.ExceededOutput:    "it printed more than a command may",
	}[e.Exceeded]
}
