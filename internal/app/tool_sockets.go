package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"lilac/internal/agent/builtin"
	"lilac/internal/agent/rundir"
	"lilac/internal/agent/sandbox"
	"lilac/internal/foundation/fault"
	"lilac/internal/operate/config"
	"lilac/internal/serve/toolserver"
	"lilac/internal/serve/toolwire"
)

// The paths of the tool server's socket and of the command tools in a sandbox. The directory
// of the command is in the PATH.
const (
	toolSocket  = "/run/lilac/tools.sock"
	toolProgram = "/run/lilac/bin/tools"
)

// toolSockets holds the socket and the program with which commands on this machine call the tool
// server.
type toolSockets struct {
	// dir is the directory with the sockets of the tool server and the proxy.
	dir      *rundir.Dir
	endpoint *toolserver.Endpoint
	dataDir  string
	// confined reports that commands see only bound paths, not the files of the machine.
	confined bool
	// executable is the path of this program. programs is a directory with a link "tools" to
	// it, for unconfined commands.
	executable, programs string
}

// open makes the directory of the sockets. After an error, close must be called as well.
func (s *toolSockets) open(cfg *config.Config) (err error) {
	s.confined, s.dataDir = cfg.Sandbox.Mode != sandbox.ModeOff, cfg.DataDir
	if s.dir, err = rundir.Open(cfg.DataDir); err != nil {
		return err
	}
	if s.executable, err = os.Executable(); err != nil {
		return fmt.Errorf("find our own program: %w", err)
	}
	return nil
}

// listen opens the socket and, unless it is empty, the loopback address.
func (s *toolSockets) listen(ctx context.Context, cfg *config.Config, addr string) (err error) {
	if s.confined && agentDecides(cfg, s.dir.Path) {
		return fault.InvalidField("sandbox.writable", "The agent may write in the directory that holds %s, the sockets of its commands, and could put a link in their place. Set XDG_RUNTIME_DIR or TMPDIR to another directory.", s.dir.Path)
	}
	if s.confined && agentDecides(cfg, s.executable) {
		if s.executable, err = copyProgram(s.executable, s.dir.Path); err != nil {
			return err
		}
	}
	if s.endpoint, err = toolserver.Listen(ctx, s.dir.Path, addr); err != nil {
		return err
	}
	if s.confined || runtime.GOOS != "linux" { // elsewhere, no commands run
		return nil
	}
	s.programs = filepath.Join(s.dir.Path, "bin")
	if err := errors.Join(os.Mkdir(s.programs, 0o700), os.Symlink(s.executable, filepath.Join(s.programs, filepath.Base(toolProgram)))); err != nil {
		return fmt.Errorf("make the command tools: %w", err)
	}
	return nil
}

// pass returns the access of a command that has a token.
func (s *toolSockets) pass(token string, revoke func()) builtin.Pass {
	pass := builtin.Pass{Close: revoke, Env: []string{toolwire.EnvToken + "=" + token}}
	if !s.confined {
		pass.Env = append(pass.Env, toolwire.EnvSocket+"="+s.endpoint.Socket, sandbox.WithPrograms(s.programs))
		return pass
	}
	pass.Env = append(pass.Env, toolwire.EnvSocket+"="+toolSocket)
	pass.Binds = []sandbox.Bind{{Source: s.endpoint.Socket, Target: toolSocket}}
	// Commands still run, without tools, if this program was replaced or is hidden.
	if _, err := os.Stat(s.executable); err == nil && !within(s.executable, s.dataDir) {
		pass.Binds = append(pass.Binds, sandbox.Bind{Source: s.executable, Target: toolProgram})
	}
	return pass
}

// close removes the sockets.
func (s *toolSockets) close() error {
	var errs []error
	if s.endpoint != nil {
		errs = append(errs, s.endpoint.Close())
	}
	if s.dir != nil {
		errs = append(errs, s.dir.Close())
	}
	return errors.Join(errs...)
}

// copyProgram copies this program to a directory where the agent cannot replace it. If the
// agent replaced the program by a link, commands would see the target of the link.
func copyProgram(program, dir string) (copied string, err error) {
	from, err := os.Open(program)
	if err != nil {
		return "", fmt.Errorf("open our own program: %w", err)
	}
	defer from.Close()
	copied = filepath.Join(dir, filepath.Base(toolProgram))
	to, err := os.OpenFile(copied, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700)
	if err != nil {
		return "", fmt.Errorf("copy our own program: %w", err)
	}
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Close()); err != nil {
		return "", fmt.Errorf("copy our own program: %w", err)
	}
	return copied, nil
}
