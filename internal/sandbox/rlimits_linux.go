package sandbox

import (
	"fmt"
	"math"

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
	return nil
}

// processLimit is no limit on kernels before 5.14, which count the processes
// of the user on the whole machine, ours among them.
func processLimit(l Limits) int64 {
	var name unix.Utsname
	var major, minor int
	if err := unix.Uname(&name); err == nil {
		_, _ = fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor)
	}
	if major > 5 || major == 5 && minor >= 14 {
		return l.kernelProcesses()
	}
	return math.MaxInt64
}
