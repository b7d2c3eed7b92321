package sandbox

import "cmp"

// Limits bound what one command, with everything it starts, may use. A zero
// field means its default.
type Limits struct {
	// MemoryBytes is for all of its processes together, without what /tmp and
	// /dev/shm hold, which have bounds of their own. One process that asks for
	// more, and for more than our own one beside it needs, gets an error;
	// processes that have more together are killed.
	MemoryBytes int64
	// Processes is how many processes and threads there may be.
	Processes int
	// DiskBytes is by how much files may grow: one file, and all that it
	// changed together.
	DiskBytes int64
	// OutputBytes is how much it may print.
	OutputBytes int64
}

// The defaults leave room for a build and keep a small machine alive.
const (
	DefaultMemoryBytes = 2 << 30
	DefaultProcesses   = 512
	DefaultDiskBytes   = 4 << 30
	DefaultOutputBytes = 64 << 20
)

// MinMemoryBytes is the least that a sandbox starts with: the Go program that
// builds it needs about half.
const MinMemoryBytes = 128 << 20

// openFiles is how many descriptors a process may have. Descriptors hold
// kernel memory that no other limit sees: a pipe of a user who has many still
// 8 KiB. It is what programs get that do not ask for more.
const openFiles = 1024

// keepFreeBytes is what a command must leave on a disk that it writes to: the
// database usually lives on the same one.
const keepFreeBytes = 64 << 20

// kernelProcesses is where the kernel itself refuses another process: a little
// above the limit, so that a command which reaches it is killed for it and
// does not go on trying.
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
