package app

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"lilac/internal/agent/builtin"
	"lilac/internal/agent/egress"
	"lilac/internal/agent/sandbox"
	"lilac/internal/agent/tool"
	"lilac/internal/core/environment"
	"lilac/internal/core/session"
	"lilac/internal/core/task"
	"lilac/internal/foundation/realpath"
	"lilac/internal/operate/config"
	"lilac/internal/store"
)

// toolBuilder builds the tools of the agent, and what their commands need.
type toolBuilder struct{ *base }

// build opens the tool server and the background tasks, and returns the tools.
func (b toolBuilder) build(ctx context.Context) ([]tool.Tool, error) {
	files, err := attachments(b).tool()
	if err != nil {
		return nil, err
	}
	b.callables = &toolService{base: b.base}
	if err := b.callables.open(ctx, files); err != nil {
		return nil, err
	}
	homes, err := openHomes(config.HomesDir(b.Config), b.Config.Workspace, b.sessionBefore)
	if err != nil {
		return nil, err
	}
	if b.workspaces, err = b.openWorkspaces(); err != nil {
		return nil, err
	}
	opts, err := toolOptions(b.Config, b.box, b.callables.dir.Path, files, b.callables, b.Logger)
	if err != nil {
		return nil, err
	}
	opts.Home, b.homes, opts.KeepPicture = homes.of, homes, b.blobs.Put
	if b.remote, err = b.openNodes(func(call tool.Call) (string, func(), error) { return b.callables.server.Mint(grantOf(call)) }); err != nil {
		return nil, err
	}
	if b.remote != nil {
		opts.Nodes, opts.Env = b.remote, nodeVariable(b.lease.Node())
	}
	tools, err := builtin.New(opts)
	if err != nil {
		return nil, fmt.Errorf("build the tools: %w", err)
	}
	if b.tasks, err = b.openTasks(opts); err != nil {
		return nil, fmt.Errorf("build background tasks: %w", err)
	}
	return append(tools, task.Tool(b.tasks), environment.Tool(b.db, store.RuleEvents{}), session.AskTool()), nil
}

// toolOptions returns the options of the tools. Their sockets are created in dir.
func toolOptions(cfg *config.Config, box sandbox.Sandbox, dir string, files *builtin.Attachments, access builtin.Access, logger *slog.Logger) (builtin.Options, error) {
	s := cfg.Sandbox
	var proxy *egress.Proxy
	if rules := s.Network.EgressRules(); len(rules) > 0 {
		var err error
		proxy, err = egress.Open(egress.Options{
			Rules: rules, Logger: logger, Dir: dir,
			Limits: egress.Limits{Connections: s.Network.Connections, Bytes: int64(s.Network.Bytes)},
		})
		if err != nil {
			return builtin.Options{}, fmt.Errorf("open the way out for commands: %w", err)
		}
	}
	return builtin.Options{
		Workspace: cfg.Workspace, Sandbox: box, Logger: logger,
		Hidden: []string{cfg.DataDir}, Masked: masked(cfg), Binds: binds(cfg), Egress: proxy, Access: access,
		Limits: sandbox.Limits{
			MemoryBytes: int64(s.Limits.Memory), Processes: s.Limits.Processes,
			DiskBytes: int64(s.Limits.Disk), OutputBytes: int64(s.Limits.Output),
		},
		TmpBytes: int64(s.Limits.Tmp), CommandTime: time.Duration(s.Limits.Time), Attachments: files,
	}, nil
}

func binds(cfg *config.Config) []sandbox.Bind {
	s := cfg.Sandbox
	var out []sandbox.Bind
	for _, path := range cfg.SkillLibrary().Outside() {
		out = append(out, sandbox.Bind{Source: path})
	}
	for _, path := range s.ReadOnly {
		out = append(out, sandbox.Bind{Source: path})
	}
	for _, path := range s.Writable {
		out = append(out, sandbox.Bind{Source: path, Writable: true})
	}
	return out
}

// masked returns the paths that commands must not see, apart from the data directory: the paths
// that the operator hides, and the files with Lilac's secrets, unless the operator put those
// into the workspace.
func masked(cfg *config.Config) []string {
	out := append([]string{}, cfg.Sandbox.Hidden...)
	for _, path := range []string{cfg.File, cfg.Bus.PasswordFile, cfg.Bus.SentinelPasswordFile, cfg.Memory.Dir} {
		if path != "" && !within(path, cfg.Workspace) {
			out = append(out, path)
		}
	}
	return out
}

// written returns the directories that commands may write to, with links resolved.
func written(cfg *config.Config) (dirs []string, err error) {
	for _, dir := range config.AgentWrites(cfg) {
		way, err := realpath.Follow(dir)
		if err != nil {
			return nil, fmt.Errorf("find what commands may write: %w", err)
		}
		dirs = append(dirs, way.Real)
	}
	return dirs, nil
}

// agentDecides reports whether a path leads through a directory that commands may write to. Such
// a path must not be visible to commands, because they could replace it by a link.
func agentDecides(cfg *config.Config, path string) bool {
	way, err := realpath.Follow(path)
	dirs, errs := written(cfg)
	return err != nil || errs != nil || slices.ContainsFunc(dirs, way.Under)
}

func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
