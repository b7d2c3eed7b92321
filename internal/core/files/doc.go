// Package files is the source of the events file.changed.
//
// A source has paths: files, globs, and directories with all that is below
// them. What it promises:
//
//   - What is told is the state: a file that was not there is a create, one that
//     was is a write, whatever an editor did to get there, and what is gone is a
//     remove or, if it was moved away, a rename. It is told when the file rests,
//     or after ten times as long.
//   - A directory that appears later is watched, with the files that are in it
//     then, and so is one that was removed and made again.
//   - What was told is remembered in the transaction that tells it. At a start
//     what is other than that is told: it changed while the program was down, or
//     had not rested when it was killed. The files that a source finds when it is
//     new are not told.
//   - Links are never followed, but for the fixed beginning of a path as it was
//     configured: what a link points to is not what was configured. Where the agent
//     may write not even those are. Nothing in the data directory is watched:
//     telling it would change it.
//   - Watches, files that are known and changes that wait are bounded. What is
//     beyond that is counted, or said as the trouble of the source.
//
// [ChangeOf] and [Pending] are pure; the [Service] watches and publishes. What was
// seen is behind [KnownFiles], which package store satisfies. Only the
// composition root runs it; it follows the specification of environment events.
package files
