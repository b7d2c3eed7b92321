// Package files publishes the events file.changed.
//
// A source has paths: files, globs, and directories with everything below them.
// The package guarantees:
//
//   - An event reports a state, not an operation. A file that did not exist before
//     is a create, one that did is a write, however an editor replaced it. A file
//     that is gone is a remove, or a rename if it was moved away. The event comes
//     when the file has been stable for the debounce, or after ten times as long.
//   - A directory that appears later is watched, with the files in it, and so is one
//     that was removed and created again.
//   - The reported state is saved in the transaction that publishes the event. The
//     differences to it are reported at the next start: files that changed while the
//     process was down, or that were not stable when it was killed. The files that a
//     new source finds are not reported.
//   - Symbolic links are not followed, except in the fixed beginning of a configured
//     path, because the target of a link was not configured. Below a directory that
//     the agent may write, not even those are. The data directory is never watched:
//     reporting a change would change it.
//   - Watches, known files, and pending changes are limited. Changes beyond the limit
//     are counted, or reported as the problem of the source.
//
// The decisions are pure: [ChangeOf] names the change of a file, and [Pending] holds
// the files that are not stable yet. They do not have the form Decide(State, Input,
// now): the state is tens of thousands of files in memory, which one goroutine owns
// and updates in place; the store only keeps a copy of it. [Service] watches and
// publishes; Set may be called concurrently. Package store implements [KnownFiles].
// Only package app runs the service. It implements the specification of environment
// events.
package files
