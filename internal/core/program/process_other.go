//go:build !linux

package program

import "syscall"

func ownGroup() *syscall.SysProcAttr { return nil }

// reap waits for the end of the program.
func (p *process) reap() {
	err := p.cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err, p.reaped = err, true
}

// signal kills the program. Without process groups, a program learns only from the end of
// its standard input that it must end, and ends its own children.
func (p *process) signal(kill bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if kill && !p.reaped {
		_ = p.cmd.Process.Kill()
	}
}
