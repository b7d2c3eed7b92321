package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// report collects the status messages of a sandbox.
type report struct {
	started  bool
	exitCode *int   // exit code of the command; nil until it exits by itself
	reason   string // why the command was not started
	init     int    // pidfd of the first process in bubblewrap's PID namespace, or -1
}

// ran reports whether the command was started.
func (r report) ran() bool { return r.started || r.exitCode != nil }

// readReport reads the status messages to their end, and passes the first process of
// bubblewrap's PID namespace to admit. It opens a pidfd of that process while bubblewrap
// still runs: if bubblewrap is killed before it sets the parent death signal, nothing else
// would end the process.
func readReport(status *os.File, admit func(pid int) error) report {
	r := report{init: -1}
	if status == nil {
		return r
	}
	decoder := json.NewDecoder(&drain{from: status, left: pipeBytes})
	for {
		var line struct {
			news
			ChildPID     int    `json:"child-pid"`
			PIDNamespace uint64 `json:"pid-namespace"`
		}
		if decoder.Decode(&line) != nil {
			return r
		}
		if line.ChildPID > 1 && r.init < 0 {
			r.init = pin(line.ChildPID, line.PIDNamespace)
			switch err := admit(line.ChildPID); {
			case errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EPIPE):
				// The process has already ended; bubblewrap reports why.
			case err != nil:
				r.reason = err.Error()
				r.signal()
				return r
			}
		}
		if line.ExitCode != nil {
			r.exitCode = line.ExitCode
		}
		r.started = r.started || line.Started
		r.reason += line.Error
	}
}

// pin opens a pidfd of pid. It returns -1 if the process is not in that PID namespace,
// because another process may have reused the PID.
func pin(pid int, namespace uint64) int {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1
	}
	link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil || link != fmt.Sprintf("pid:[%d]", namespace) {
		_ = unix.Close(fd)
		return -1
	}
	return fd
}

// signal kills all processes in the PID namespace, by killing the first one.
func (r report) signal() {
	if r.init >= 0 {
		_ = unix.PidfdSendSignal(r.init, unix.SIGKILL, nil, 0)
	}
}

// kill ends the PID namespace and waits up to deathGrace until its processes are gone: the
// kernel lets the first process exit only after all others. Bubblewrap has ended before and
// does not reap the first process. Its new parent must do that, which is this process if it
// is the first process of a container.
func (r report) kill() {
	if r.init < 0 {
		return
	}
	r.signal()
	until := time.Now().Add(deathGrace)
	for {
		left := time.Until(until)
		if left <= 0 {
			break
		}
		poll := []unix.PollFd{{Fd: int32(r.init), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, int(left.Milliseconds())+1)
		if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	_ = unix.Waitid(unix.P_PIDFD, r.init, nil, unix.WEXITED|unix.WNOHANG, nil) // ECHILD: another process is the parent
	_ = unix.Close(r.init)
}
