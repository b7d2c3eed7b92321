// Package mark shows people on a platform that something was noticed, by
// reactions of ours: an acknowledgment of a message that waits, and a sign that an
// answer cannot be shown.
//
// It promises:
//
//   - A mark that is wanted is shown soon, and one that is withdrawn is removed,
//     also after a restart: a mark is a row, which is written in the transaction of
//     the decision that it belongs to.
//   - Nothing else waits for a mark. A platform that refuses one, or that is
//     unavailable for long, loses it.
//   - If a mark that carries a notice is refused, the notice is sent to the person
//     in private instead.
//
// The router acknowledges messages, and app marks answers that were refused. App
// creates one [Service] per platform. [Decide] is the pure decider; the kernel runs
// it.
//
// # Concurrency
//
// A Service is safe for concurrent use. The goroutine of Run is the only one that
// calls the platform for marks, one channel at a time per worker and at most
// maxWorkers at once; it waits for the workers before it reads the rows again, so
// a row has one worker. All changes are decided in write transactions on the
// stored row. There is no lock; the wake-up channel has one slot.
package mark
