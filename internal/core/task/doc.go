// Package task runs background work: commands, and sub-agents that work on a
// request of their own in a child session. The caller continues, and an event
// reports the end of the task.
//
// [Decide] is the pure decider; state.go has the states and their transitions.
// [Service] runs it through the kernel: the task, its environment event
// background_task.*, and the cancellation of a sub-agent's request are one
// transaction, so each end is reported exactly once. The rules of package
// environment turn the event into a message for the session.
//
// The package guarantees:
//
//   - A start belongs to a key that identifies the tool call. Starting again with
//     the same key returns the same task.
//   - A command runs in a process group of its own and ends with the process. A
//     command that was lost in a restart is reported as background_task.failed. A
//     sub-agent continues, because its request does.
//   - A task has a time limit. The number of running tasks is limited, per session
//     and in total. A sub-agent cannot start tasks.
//   - The newest output of a command is kept in files of bounded size, and can be
//     read while the command runs.
//
// A Service is safe for concurrent use. Each command has one goroutine, which Run
// waits for; one more goroutine checks deadlines and progress. No lock is held
// during I/O.
//
// [Tool] is the agent's tool. Package store implements [Store] and [Requests];
// [Commands] hides how a command is sandboxed.
package task
