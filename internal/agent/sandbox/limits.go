package sandbox

import "cmp"

// Limits bound what one command, with everything it starts, may use. A zero
// field means its default.
type Limits struct {
	// MemoryBytes is for all of its processes together, without the contents of /tmp and
	// /dev/shm, which have their own bounds. A single process that asks for more, and for
	// more than the helper process beside it needs, gets an error; processes that use
	// more together are killed.
	MemoryBytes int64
	// Processes bounds the processes and threads.
	Processes int
	// DiskBytes bounds the growth of files: of one file, and of all changed files together.
	DiskBytes int64
	// OutputBytes bounds its output.
	OutputBytes int64
}

// The defaults leave room for a build and keep a small machine alive.
const (
	DefaultMemoryBytes = 2 << 30
	DefaultProcesses   = 512
	DefaultDiskBytes   = 4 << 30
	DefaultOutputBytes = 64 << 20
)

// MinMemoryBytes is the least memory with which a sandbox starts: the Go program that
// builds it needs about half of it.
const MinMemoryBytes = 128 << 20

// openFiles bounds the descriptors of a process. Descriptors use kernel memory that no
// other limit counts: a pipe uses at least 8 KiB. It is the usual soft limit of programs.
const openFiles = 1024

// keepFreeBytes is the free space that a command must leave on a disk that it writes to:
// the database is usually on the same disk.
const keepFreeBytes = 64 << 20

// kernelProcesses is the number at which the kernel refuses another process. It is a
// little above the limit, so that the watcher kills a command at the limit before the
// command only sees failing forks.
func (l Limits) kernelProcesses() int64 { return int64(l.Processes + l.Processes/4 + 64) }

// Exceeded names a limit that a command was killed for.
type Exceeded string

// The limits that a command may be killed for.
const (
	ExceededMemory    Exceeded = "memory"
	ExceededProcesses Exceeded = "processes"
	ExceededDisk      Exceeded = "disk"
	ExceededOutput    Exceeded = "output"
)

func (l Limits) orDefault() Limits {
	return Limits{
		MemoryBytes: max(cmp.Or(l.MemoryBytes, DefaultMemoryBytes), MinMemoryBytes),
		Processes:   cmp.Or(l.Processes, DefaultProcesses),
		DiskBytes:   cmp.Or(l.DiskBytes, DefaultDiskBytes),
		OutputBytes: cmp.Or(l.OutputBytes, DefaultOutputBytes),
	}
}
