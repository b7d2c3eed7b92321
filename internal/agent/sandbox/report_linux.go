package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// report is what a sandbox tells about its command.
type report struct {
	started  bool
	exitCode *int   // of the command, when it has exited by itself
	reason   string // why it was not started
	init     int    // a pidfd of the first process of bubblewrap's namespace, or -1
}

// ran reports whether the command was started.
func (r report) ran() bool { return r.started || r.exitCode != nil }

// readReport reads the report to its end. The first process of bubblewrap's
// namespace is handed to admit, and pinned while bubblewrap is still alive: if
// bubblewrap is killed before it has tied that process to itself, nothing else
// would end it.
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
				// It has ended already, and bubblewrap says why.
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

// pin opens the process pid if it is the one of that namespace, and not
// another one that got its number.
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

// signal tells the namespace, every process in it, to end.
func (r report) signal() {
	if r.init >= 0 {
		_ = unix.PidfdSendSignal(r.init, unix.SIGKILL, nil, 0)
	}
}

// kill ends the namespace and returns when its processes are gone: the first
// one ends only after all others have. Bubblewrap, which has ended before, does
// not wait for it. Who takes in orphans then has to, and that may be us: the
// first process of a container.
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
	_ = unix.Waitid(unix.P_PIDFD, r.init, nil, unix.WEXITED|unix.WNOHANG, nil) // ECHILD: it is not ours
	_ = unix.Close(r.init)
}
