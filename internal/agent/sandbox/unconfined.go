package sandbox

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"lilac/internal/foundation/fault"
)

// Unconfined returns a Sandbox that confines nothing: a command has the rights of Lilac's
// process, the network, and every file. It still has a cleared environment and a time
// limit, and is killed with its process group; processes that leave the group survive.
// Use it only if an operator explicitly accepted that.
func Unconfined() Sandbox { return unconfined{} }

type unconfined struct{}

func (unconfined) Name() string { return "off" }

func (unconfined) Run(ctx context.Context, cmd Command, policy Policy) (Result, error) {
	policy.Proxy = "" // it has the machine's own network
	r, err := resolve(cmd, policy)
	if err != nil {
		return Result{}, err
	}
	r.home = r.Home // it sees the machine's own paths
	env := r.environment(cmd.Env)
	path, err := lookPath(cmd.Argv[0], env)
	if err != nil {
		return Result{}, err
	}
	p := process{path: path, argv: cmd.Argv, dir: r.dir, env: env, cmd: cmd, limits: r.Limits}
	end, err := p.run(ctx)
	if err != nil {
		return end.Result, fmt.Errorf("run command: %w", err)
	}
	return end.Result, nil
}

// lookPath finds a program in the PATH of the command, not in that of Lilac.
func lookPath(name string, env []string) (string, error) {
	if strings.ContainsRune(name, '/') {
		return name, nil
	}
	for _, kv := range env {
		list, ok := strings.CutPrefix(kv, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			if !filepath.IsAbs(dir) {
				continue
			}
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return path, nil
			}
		}
	}
	return "", fault.New(fault.NotFound, "The program %s is not installed.", name)
}
