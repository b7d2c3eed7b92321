// Package outbox sends messages to platforms exactly once: a message is a row
// that is written before the call and updated in a transaction after it (system
// design, "Never lose, never double").
//
// It promises:
//
//   - After a crash during a call, and after a call whose outcome is not known, the
//     service searches the platform for the row's nonce (or reads the channel's
//     history) and never guesses.
//   - Rows have a time to live, so a restart never sends yesterday's messages.
//     Until then, a row is retried while the platform is unavailable.
//   - The package that planned a row can withdraw it.
//   - Within a channel, rows are sent in the order in which they were planned.
//     Other channels are not delayed.
//
// Relays, workflows, and callables plan rows through [Outbox]. App creates one
// [Service] per platform. [Decide] is the pure decider; the kernel runs it.
//
// # Concurrency
//
// A Service is safe for concurrent use. The goroutine of Run picks the first
// unfinished row of each channel and starts at most one worker per channel, so
// a row is never sent by two workers. All changes of a row are decided in write
// transactions on the stored row; a withdrawal by another goroutine therefore
// takes effect at the worker's next decision. The only mutex guards the waiters;
// it is taken after a commit and never held during I/O.
package outbox
