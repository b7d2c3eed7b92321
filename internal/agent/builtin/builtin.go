package builtin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"lilac/internal/agent/egress"
	"lilac/internal/agent/sandbox"
	"lilac/internal/agent/tool"
	"lilac/internal/foundation/fault"
)

// Options configure the tools. Only Workspace is required.
type Options struct {
	// Workspace is the directory that the agent works in if a call names no other; it is created
	// if it is missing.
	Workspace string
	// Home returns the home directory of the commands of a session; nil means that the
	// workspace is the home of all.
	Home func(sessionID string) (string, error)
	// Sandbox runs commands; without one, bash refuses.
	Sandbox sandbox.Sandbox
	// Hidden lists paths that commands must not see, such as the data directory. The
	// workspace must not contain them, nor lie in them.
	Hidden []string
	// Masked lists paths that are covered where commands would see them.
	Masked []string
	// Binds lists further paths that commands see.
	Binds []sandbox.Bind
	// Limits bound the resources of a command, and TmpBytes its /tmp; zero fields mean
	// the sandbox's defaults.
	Limits   sandbox.Limits
	TmpBytes int64
	// CommandTime limits the time of a command; zero means ten minutes.
	CommandTime time.Duration
	// Egress is the proxy through which commands reach hosts; nil means no network.
	Egress *egress.Proxy
	// Attachments sends files to people and downloads theirs; without it, there are no
	// tools for attachments.
	Attachments *Attachments
	// KeepPicture stores a picture that read shows to the model, and returns its reference;
	// nil shows none.
	KeepPicture func(ctx context.Context, data []byte) (ref string, err error)
	// Env is added to the environment of commands, beside the ids of the request.
	Env []string
	// Access grants each command its own access, such as a token; nil grants none.
	Access Access
	// Nodes chooses the machine on which a command runs; nil means this one.
	Nodes  Nodes
	Logger *slog.Logger
}

// Access grants a command access that no other command has, such as a token.
type Access interface {
	// Open is called before a command runs. The pass is closed when the command ends.
	Open(call tool.Call) (Pass, error)
}

// Pass is the access of one command.
type Pass struct {
	Env   []string
	Binds []sandbox.Bind
	Close func()
}

// New returns the tools for a workspace.
func New(opts Options) ([]tool.Tool, error) {
	ws, err := openWorkspace(opts)
	if err != nil {
		return nil, err
	}
	tools := []tool.Tool{
		newBash(newShell(ws, opts), opts.CommandTime),
		newRead(ws, opts.KeepPicture), newWrite(ws), newEdit(ws), newGlob(ws), newGrep(ws),
	}
	if opts.Attachments != nil {
		tools = append(tools, opts.Attachments.tools()...)
	}
	return tools, nil
}

// openWorkspace creates the workspace if it is missing, and refuses one that overlaps
// a hidden path.
func openWorkspace(opts Options) (*workspace, error) {
	if opts.Workspace == "" {
		return nil, fault.InvalidField("workspace", "A workspace directory is needed.")
	}
	given, err := filepath.Abs(opts.Workspace)
	if err != nil {
		return nil, fmt.Errorf("find workspace: %w", err)
	}
	// Other users of the machine must not read the agent's files.
	if err := os.MkdirAll(given, 0o700); err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "The workspace %s cannot be made.", given)
	}
	real, err := filepath.EvalSymlinks(given)
	if err != nil {
		return nil, fmt.Errorf("find workspace: %w", err)
	}
	for _, path := range opts.Hidden {
		if err := apart(real, path); err != nil {
			return nil, err
		}
	}
	return &workspace{dir: real, given: given}, nil
}

// apart refuses a workspace that contains a hidden path or lies in it. Of a path that
// does not exist yet, the part that exists is compared.
func apart(workspace, hidden string) error {
	hidden, err := filepath.Abs(hidden)
	if err != nil {
		return fmt.Errorf("find hidden path: %w", err)
	}
	rest := ""
	for dir := hidden; ; dir = filepath.Dir(dir) {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil {
			hidden = filepath.Join(real, rest)
			break
		}
		if dir == filepath.Dir(dir) {
			break
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
	if within(hidden, workspace) || within(workspace, hidden) {
		return fault.InvalidField("workspace", "The workspace %s and %s, which the agent must not see, must not contain each other.", workspace, hidden)
	}
	return nil
}

// define returns a tool that runs a function. Unlike with [tool.New], every error
// is told to the model: those of the file system are about paths that it chose.
// People see the name and the detail of a call.
func define[In any](spec tool.Spec, detail func(In) string, run func(context.Context, tool.Call, In) (tool.Result, error)) tool.Tool {
	return tool.New(spec,
		func(in In) string {
			if d := strings.TrimSpace(tool.Clean(detail(in))); d != "" {
				return spec.Name + ": " + d
			}
			return spec.Name
		},
		func(ctx context.Context, call tool.Call, in In) (tool.Result, error) {
			result, err := run(ctx, call, in)
			if err != nil && ctx.Err() == nil {
				return tool.Failed(forModel(err)), nil
			}
			return result, err
		})
}

// forModel returns the message of a fault without its cause, or the error itself.
func forModel(err error) error {
	var f *fault.Error
	if errors.As(err, &f) {
		return errors.New(f.Message)
	}
	return err
}
