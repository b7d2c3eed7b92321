package sandbox

import (
	"fmt"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// setLimits sets what the kernel can limit for one process, 0 for this one; what it
// starts from then on inherits it. The number of processes is counted for the
// user of the sandbox, and not at all where that is root: there, and for what
// all processes use together, the watcher counts.
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
	// The kernel counts from 20 down; a priority that is lower yet stays as it is,
	// since not everybody may raise one.
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

// besideUs raises the memory that one process may ask for to what this one has and
// may come to need: the limit that a command inherits is ours as well, and Go
// ends a program that gets no memory for another thread. What all processes have
// together the watcher holds to the limit as it is.
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

// withLeast lets one process ask for that much memory at least.
func (l Limits) withLeast(memory int64) Limits {
	l.MemoryBytes = max(l.MemoryBytes, memory)
	return l
}

// ourRoom holds the stacks of eight threads, which are as large as the limit on
// stacks says where this program was built with cgo: usually 8 MiB.
const ourRoom = 64 << 20

// expendable makes the kernel take a process, 0 for this one, and what it starts
// from then on before us where memory runs out: on the machine, or in the part of it that
// a service or a container may have. It is no fence, so a kernel that refuses
// is no reason to refuse the command.
func expendable(pid int) {
	name := "self"
	if pid != 0 {
		name = strconv.Itoa(pid)
	}
	_ = os.WriteFile("/proc/"+name+"/oom_score_adj", []byte(strconv.Itoa(expendability)), 0)
}

// expendability counts as if half of the memory were in use by the process.
const expendability = 500

// niceness lets whoever watches a command go before it.
const niceness = 10

// processLimit is no limit on kernels before 5.14, which count the processes
// of the user on the whole machine, ours among them.
func processLimit(l Limits) int64 {
	if kernelFrom(5, 14) {
		return l.kernelProcesses()
	}
	return math.MaxInt64
}

// boundsRoot reports whether our own namespaces bound the processes of a
// command and bubblewrap does not: the kernel exempts root from the limit on a
// user's processes, but it bounds the numbers of a process namespace.
func boundsRoot() bool { return os.Getuid() == 0 && kernelFrom(6, 14) }

// kernelFrom reports whether the kernel is of a version or a later one.
func kernelFrom(wantMajor, wantMinor int) bool {
	var name unix.Utsname
	var major, minor int
	if err := unix.Uname(&name); err == nil {
		_, _ = fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor)
	}
	return major > wantMajor || major == wantMajor && minor >= wantMinor
}
