// Package task runs work in the background: commands, and sub-agents that work
// on a request of their own in a child session. Whoever started it goes on and
// is told when it ends.
//
// [Decide] is the pure core: what an input means for a task, which ends once.
// The [Service] loads, decides and writes the record, the environment event
// background_task.* and a cancel of a sub-agent's request in one transaction,
// so that an end is told exactly once or has not happened yet. The rules of
// package environment make of the event what the session is told.
//
// What it promises:
//
//   - Starting is for a key, the logical act: started again it is the same task.
//   - A command runs in a process group of its own and dies with the program.
//     After a restart a command that was lost is background_task.failed; a
//     sub-agent goes on, because its request does.
//   - A task has a time limit. How many run at once is bounded, for a session
//     and in all. A sub-agent starts none.
//   - What a command prints is kept in files of bounded size, the newest part of
//     it, and can be read while it runs.
//
// [Tool] is the agent's tool for it. The tables are behind [Store]; package
// store satisfies it. How a command is confined is behind [Commands].
package task
