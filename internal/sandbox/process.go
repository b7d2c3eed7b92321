package sandbox

import "time"

// drainGrace is how long output and status may still arrive after every
// process of a command was told to die. Usually they end at once; only what
// escaped from an unconfined process group can hold them open.
const drainGrace = 400 * time.Millisecond

// process is one run of a program in a process group of its own.
type process struct {
	path string
	argv []string
	dir  string
	env  []string // exactly what it gets
	cmd  Command
	// data are the contents of further descriptors that it reads, by number.
	data []string
	// status, when not zero, is the descriptor on which bubblewrap reports.
	status int
	// setup, when set, sees the beginning of its standard error.
	setup *prefix
}

// ending is how a process ended.
type ending struct {
	Result
	// reported says that bubblewrap reported the exit of the command, so that
	// the exit code is the command's and not bubblewrap's own.
	reported bool
}
