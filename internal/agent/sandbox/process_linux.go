package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lilac/internal/foundation/fault"
)

// files holds the descriptors of one process. The child's ends are closed in this process
// once the child has started, our ends when it has ended.
type files struct{ child, ours []*os.File }

func closeAll(list []*os.File) {
	for _, f := range list {
		_ = f.Close()
	}
}

// pipe creates a pipe that the child writes and this process reads.
func (f *files) pipe() (read, write *os.File, err error) {
	read, write, err = os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("make pipe: %w", err)
	}
	f.ours, f.child = append(f.ours, read), append(f.child, write)
	return read, write, nil
}

// pipeIn creates a pipe that this process writes and the child reads.
func (f *files) pipeIn() (read, write *os.File, err error) {
	read, write, err = os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("make pipe: %w", err)
	}
	f.ours, f.child = append(f.ours, write), append(f.child, read)
	return read, write, nil
}

// memory returns a descriptor from which the child reads content. It is a memfd, so no
// goroutine has to feed a pipe. It is sealed, because a command could otherwise grow the
// file and use memory that no limit counts.
func (f *files) memory(content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("lilac", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("make file in memory: %w", err)
	}
	file := os.NewFile(uintptr(fd), "memory")
	f.child = append(f.child, file)
	if _, err := file.Write(content); err != nil {
		return nil, fmt.Errorf("fill file in memory: %w", err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("rewind file in memory: %w", err)
	}
	const sealed = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, sealed); err != nil {
		return nil, fmt.Errorf("seal file in memory: %w", err)
	}
	return file, nil
}

// run runs the process to its end. When it returns, no process of a sandbox is left.
func (p process) run(ctx context.Context) (ending, error) {
	if ctx.Err() != nil {
		return ending{}, context.Cause(ctx)
	}
	var fds files
	defer func() { closeAll(fds.ours) }()
	cmd, streams, status, gate, err := p.prepare(&fds)
	if err != nil {
		closeAll(fds.child)
		return ending{}, err
	}

	started := time.Now()
	life := start(cmd)
	err = <-life.started
	closeAll(fds.child)
	if err != nil {
		return ending{}, fault.Wrap(fault.Invalid, err, "The program %s could not be started.", p.argv[0])
	}
	var copies sync.WaitGroup
	watch := newWatcher(p.limits, p.written)
	if p.attr != nil {
		watch.see(cmd.Process.Pid)
	}
	report := make(chan report, 1)
	go func() {
		report <- readReport(status, func(pid int) error {
			watch.see(pid)
			return admit(gate, pid, p.limits.withLeast(p.least))
		})
	}()
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	if status != nil {
		copies.Go(func() { watch.run(watching) })
	}
	printed := &meter{left: p.limits.OutputBytes, exceed: watch.exceed}
	for _, s := range streams {
		copies.Go(func() { s.copy(printed) })
	}

	var timeout <-chan time.Time
	if p.cmd.Timeout > 0 {
		timer := time.NewTimer(p.cmd.Timeout)
		defer timer.Stop()
		timeout = timer.C
	}
	var end ending
	var cause error
	select {
	case <-life.ended:
	case <-ctx.Done():
		cause = context.Cause(ctx)
	case <-timeout:
		end.TimedOut = true
	case end.Exceeded = <-watch.exceeded:
	}

	// The leader has not been reaped yet, so its PID cannot belong to another process group.
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
	<-life.ended
	unwatch()
	deadline := time.Now().Add(drainGrace)
	if status != nil {
		_ = status.SetReadDeadline(deadline)
	}
	rep := <-report
	rep.kill()
	close(life.reap)
	<-life.reaped
	for _, s := range streams {
		_ = s.from.SetReadDeadline(deadline)
	}
	copies.Wait()

	end.Duration = time.Since(started)
	end.ran, end.reason = status == nil || rep.ran(), rep.reason
	end.ExitCode = cmd.ProcessState.ExitCode()
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		end.Signal = int(ws.Signal())
		end.ExitCode = 128 + end.Signal
	} else if rep.exitCode != nil {
		end.ExitCode = *rep.exitCode
	}
	return end, cause
}

// admit sets the limits of the first process of a sandbox, which waits at the gate, and
// opens the gate. If the limits cannot be set, the gate stays closed and the command never
// starts.
func admit(gate *os.File, pid int, l Limits) error {
	if gate == nil {
		return nil
	}
	if err := setLimits(pid, l); err != nil {
		return err
	}
	expendable(pid)
	if _, err := gate.Write([]byte{1}); err != nil {
		return fmt.Errorf("start the command: %w", err)
	}
	return nil
}

func (p process) prepare(fds *files) (cmd *exec.Cmd, streams []*stream, status, gate *os.File, err error) {
	cmd = &exec.Cmd{
		Path: p.path, Args: p.argv, Dir: p.dir, Env: p.env,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	if p.attr != nil {
		p.attr(cmd.SysProcAttr)
	}
	stdin := p.cmd.Input
	if stdin == nil {
		if stdin, err = fds.memory(p.cmd.Stdin); err != nil {
			return nil, nil, nil, nil, err
		}
	}
	cmd.Stdin = stdin
	read, write, err := fds.pipe()
	if err != nil {
		return nil, nil, nil, nil, err
	}
	streams = []*stream{{from: read, to: p.cmd.Stdout}}
	cmd.Stdout, cmd.Stderr = write, write
	if p.cmd.Stderr != nil {
		if read, write, err = fds.pipe(); err != nil {
			return nil, nil, nil, nil, err
		}
		cmd.Stderr = write
		streams = append(streams, &stream{from: read, to: p.cmd.Stderr})
	}
	streams[len(streams)-1].setup = p.setup

	for fd := 3; fd < len(p.data) || fd <= p.status; fd++ {
		var file *os.File
		switch fd {
		case p.status:
			status, file, err = fds.pipe()
		case p.gate:
			file, gate, err = fds.pipeIn()
		default:
			file, err = fds.memory([]byte(p.data[fd]))
		}
		if err != nil {
			return nil, nil, nil, nil, err
		}
		cmd.ExtraFiles = append(cmd.ExtraFiles, file)
	}
	return cmd, streams, status, gate, nil
}

// life tracks a process on the OS thread that started it.
type life struct {
	started chan error    // receives the result of the start once
	ended   chan struct{} // closed when the leader has exited, before it is reaped
	reap    chan struct{} // the owner closes it to have the leader reaped
	reaped  chan struct{}
}

// start starts cmd on a locked OS thread that lives until cmd is reaped. The kernel sends
// the parent death signal when the thread that forked exits, not when the process does
// (prctl(2), PR_SET_PDEATHSIG).
func start(cmd *exec.Cmd) *life {
	l := &life{make(chan error, 1), make(chan struct{}), make(chan struct{}), make(chan struct{})}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		l.started <- err
		if err != nil {
			return
		}
		for {
			err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
			if !errors.Is(err, unix.EINTR) {
				break
			}
		}
		close(l.ended)
		<-l.reap
		_ = cmd.Wait() // the caller reads the outcome from cmd.ProcessState
		close(l.reaped)
	}()
	return l
}

// pipeBytes is the capacity of a pipe in bytes (pipe(7)).
const pipeBytes = 64 << 10

// drain reads a pipe to its end or its deadline, and then what the pipe still holds. If
// this process got no CPU time before the deadline, output that was written in time must
// not be lost.
type drain struct {
	from *os.File
	left int // bytes to read after the deadline; bounded because a process may keep writing
}

func (d *drain) Read(p []byte) (int, error) {
	n, err := d.from.Read(p)
	if !errors.Is(err, os.ErrDeadlineExceeded) || d.left == 0 || len(p) == 0 {
		return n, err
	}
	conn, failed := d.from.SyscallConn()
	if failed != nil {
		return 0, err
	}
	var empty error
	failed = conn.Control(func(fd uintptr) {
		for {
			n, empty = unix.Read(int(fd), p[:min(len(p), d.left)])
			if !errors.Is(empty, unix.EINTR) {
				return
			}
		}
	})
	switch {
	case failed != nil || empty != nil: // the pipe is empty but still open for writing
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	d.left -= n
	return n, nil
}

// stream copies output of the process to a writer.
type stream struct {
	from  *os.File
	to    io.Writer
	setup *prefix
}

// copy reads the pipe to its end, even after the writer fails, because the process would
// block on a full pipe.
func (s *stream) copy(printed *meter) {
	buf := make([]byte, 32<<10)
	from := drain{from: s.from, left: pipeBytes}
	for {
		n, err := from.Read(buf)
		if n = printed.take(n); n > 0 {
			if s.setup != nil {
				_, _ = s.setup.Write(buf[:n])
			}
			if s.to != nil {
				if _, werr := s.to.Write(buf[:n]); werr != nil {
					s.to = nil
				}
			}
		}
		if err != nil {
			return
		}
	}
}

// meter counts the output bytes of all streams of a command.
type meter struct {
	exceed func(Exceeded)

	mu   sync.Mutex
	left int64
}

// take counts n bytes and returns how many of them are within the limit.
func (m *meter) take(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	allowed := int(min(int64(n), m.left))
	m.left -= int64(allowed)
	if allowed < n {
		m.exceed(ExceededOutput)
	}
	return allowed
}
