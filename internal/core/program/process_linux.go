package program

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// reap waits for the end of the program, and kills what is left of its process group,
// which would keep the pipes open.
func (p *process) reap() {
	for {
		// The process is not reaped here: until then, no other process group has its PID.
		if err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
	p.err = p.cmd.Wait()
	p.reaped = true
}

// signal asks the process group to end, or kills it.
func (p *process) signal(kill bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.reaped:
	case kill:
		_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
	default:
		_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGTERM)
	}
}
