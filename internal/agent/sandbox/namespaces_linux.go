package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// namespaces is the built-in sandbox. For each command, it starts this program again, as
// the first process of new namespaces.
type namespaces struct{}

// detectNamespaces returns the built-in sandbox if a test command runs in it.
func detectNamespaces(ctx context.Context) (Sandbox, error) {
	if !reentrant {
		return nil, errors.New("this program cannot be the first process of a sandbox")
	}
	if version := Landlock(); version < minLandlock {
		return nil, fmt.Errorf("the kernel enforces version %d of Landlock, the built-in sandbox needs version %d (Linux 5.19, with landlock in its lsm= list)", version, minLandlock)
	}
	if err := probe(ctx, namespaces{}); err != nil {
		return nil, fmt.Errorf("the built-in namespace sandbox does not work here: %w", err)
	}
	return namespaces{}, nil
}

func (namespaces) Name() string { return string(ModeNamespaces) }

func (namespaces) Run(ctx context.Context, cmd Command, policy Policy) (Result, error) {
	r, err := resolve(cmd, policy)
	if err != nil {
		return Result{}, err
	}
	told, err := json.Marshal(orders{
		Layers: r.layers(), Stage: r.Workspace, Hostname: r.Hostname,
		Argv: cmd.Argv, Env: r.environment(cmd.Env), Dir: r.dir, Limits: r.Limits, Forward: r.Proxy != "",
	})
	if err != nil {
		return Result{}, fmt.Errorf("write orders for sandbox: %w", err)
	}
	data := make([]string, statusFD)
	data[argsFD] = string(told)
	p := process{
		// The running executable, even after an update replaced its file.
		path: "/proc/self/exe", argv: []string{"lilac", argFirst}, dir: "/", env: []string{},
		cmd: cmd, data: data, status: statusFD, attr: separate, limits: r.Limits, written: r.written(),
	}
	return p.confined(ctx)
}

// separate makes a process start in new namespaces. It grants the capabilities that the
// process needs to build the sandbox; the process drops them before the command starts.
func separate(attr *syscall.SysProcAttr) {
	attr.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
		unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP}
}
