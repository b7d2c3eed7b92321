package program

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"
)

// stopGrace is the default of [Options].Grace.
const stopGrace = 3 * time.Second

// process is a running program. The methods are called by one goroutine, except that
// another one may write and a third one may read.
type process struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	stderr *os.File
	// ended is closed when the program's first process has ended and its process group was
	// killed. Then err is its result.
	ended chan struct{}
	err   error

	mu sync.Mutex
	// reaped reports that the PID may belong to another process.
	reaped bool
}

// start starts the program of a source. The caller must call close.
func start(s Source) (*process, error) {
	path, err := exec.LookPath(s.Command[0])
	if err != nil {
		return nil, fmt.Errorf("find the program: %w", err)
	}
	p := &process{ended: make(chan struct{})}
	var theirs [3]*os.File
	defer func() {
		for _, f := range theirs {
			if f != nil {
				_ = f.Close()
			}
		}
	}()
	if theirs[0], p.stdin, err = os.Pipe(); err == nil {
		if p.stdout, theirs[1], err = os.Pipe(); err == nil {
			p.stderr, theirs[2], err = os.Pipe()
		}
	}
	if err != nil {
		p.close()
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	p.cmd = &exec.Cmd{Path: path, Args: s.Command, Dir: s.Dir, Env: environ(s), Stdin: theirs[0], Stdout: theirs[1], Stderr: theirs[2], SysProcAttr: ownGroup()}
	if err := p.cmd.Start(); err != nil {
		p.close()
		return nil, fmt.Errorf("start the program: %w", err)
	}
	go func() {
		defer close(p.ended)
		p.reap()
	}()
	return p, nil
}

// stop ends the program: it closes its standard input, asks its process group to end, and
// kills it after a grace period.
func (p *process) stop(grace time.Duration) {
	_ = p.stdin.Close()
	p.signal(false)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		p.signal(true)
		<-p.ended
	}
}

func (p *process) close() {
	for _, f := range []*os.File{p.stdin, p.stdout, p.stderr} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// environ returns the environment of a program. It has none of the secrets of Lilac.
func environ(s Source) []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "LANG", "TZ", "TMPDIR", "SYSTEMROOT"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	// exec uses the last value of a variable.
	return append(append(env, "LILAC_SOURCE="+s.Name), s.Env...)
}
