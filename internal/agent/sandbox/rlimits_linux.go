package sandbox

import (
	"fmt"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// setLimits sets the resource limits of one process; pid 0 is this process. Processes that
// it starts later inherit them. The kernel counts RLIMIT_NPROC per user of the sandbox and
// exempts root. For root, and for the total usage of all processes, the watcher counts.
func setLimits(pid int, l Limits) error {
	for _, limit := range []struct {
		resource int
		name     string
		value    int64
	}{
		{unix.RLIMIT_DATA, "memory", l.MemoryBytes},
		{unix.RLIMIT_FSIZE, "file size", l.DiskBytes},
		{unix.RLIMIT_NPROC, "processes", processLimit(l)},
		{unix.RLIMIT_NOFILE, "open files", openFiles},
		{unix.RLIMIT_CORE, "core dumps", 0},
		{unix.RLIMIT_MSGQUEUE, "message queues", 0},
	} {
		var old unix.Rlimit
		if err := unix.Prlimit(pid, limit.resource, nil, &old); err != nil {
			return fmt.Errorf("read the limit on %s: %w", limit.name, err)
		}
		value := min(uint64(limit.value), old.Max)
		if err := unix.Prlimit(pid, limit.resource, &unix.Rlimit{Cur: value, Max: value}, nil); err != nil {
			return fmt.Errorf("limit %s: %w", limit.name, err)
		}
	}
	// The system call returns 20 minus the nice value. An even lower priority stays as it
	// is, because raising a priority needs privileges.
	if priority, err := unix.Getpriority(unix.PRIO_PROCESS, pid); err != nil {
		return fmt.Errorf("read the priority of the command: %w", err)
	} else if 20-priority >= niceness {
		return nil
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, pid, niceness); err != nil {
		return fmt.Errorf("lower the priority of the command: %w", err)
	}
	return nil
}

// besideUs raises the per-process memory limit to what this process uses plus ourRoom. The
// command inherits the limit from this process, and Go aborts a program that gets no memory
// for another thread. The watcher still enforces the original limit on the total of all
// processes.
func (l Limits) besideUs() (Limits, error) {
	var data int64
	statm, err := os.ReadFile("/proc/self/statm")
	if err == nil {
		_, err = fmt.Sscanf(string(statm), "%d %d %d %d %d %d", new(int64), new(int64), new(int64), new(int64), new(int64), &data)
	}
	if err != nil {
		return l, fmt.Errorf("find out how much memory this process has: %w", err)
	}
	return l.withLeast(data*int64(os.Getpagesize()) + ourRoom), nil
}

// withLeast raises the per-process memory limit to at least that many bytes.
func (l Limits) withLeast(memory int64) Limits {
	l.MemoryBytes = max(l.MemoryBytes, memory)
	return l
}

// ourRoom is enough for the stacks of eight threads, in bytes. In a program built with cgo,
// a stack has the size of the stack limit, usually 8 MiB.
const ourRoom = 64 << 20

// expendable makes the kernel's OOM killer choose a process and its future children before
// Lilac's process, on the machine and within the memory limit of a service or a container.
// pid 0 is this process. Errors are ignored: no protection depends on it, so the command
// still runs.
func expendable(pid int) {
	name := "self"
	if pid != 0 {
		name = strconv.Itoa(pid)
	}
	_ = os.WriteFile("/proc/"+name+"/oom_score_adj", []byte(strconv.Itoa(expendability)), 0)
}

// expendability is the OOM score adjustment: the OOM killer counts as if the process used
// another 50% of the memory (proc_pid_oom_score_adj(5)).
const expendability = 500

// niceness is the nice value of a command, so that the watcher gets CPU time first.
const niceness = 10

// processLimit returns the value for RLIMIT_NPROC. There is no limit on kernels before
// 5.14, which count all processes of the user on the machine, Lilac's included.
func processLimit(l Limits) int64 {
	if kernelFrom(5, 14) {
		return l.kernelProcesses()
	}
	return math.MaxInt64
}

// boundsRoot reports whether only the built-in sandbox can limit the number of processes.
// The kernel exempts root from RLIMIT_NPROC, but since Linux 6.14 pid_max applies per PID
// namespace, and only the built-in sandbox sets that.
func boundsRoot() bool { return os.Getuid() == 0 && kernelFrom(6, 14) }

// kernelFrom reports whether the kernel has at least that version.
func kernelFrom(wantMajor, wantMinor int) bool {
	var name unix.Utsname
	var major, minor int
	if err := unix.Uname(&name); err == nil {
		_, _ = fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor)
	}
	return major > wantMajor || major == wantMajor && minor >= wantMinor
}
