// Package relay shows the output of a request on a platform, in messages that are
// edited while the answer is in progress. It follows the relay part of the
// bus-adapter-bridge specification and part A of the attachments one.
//
// It promises:
//
//   - The messages are a function of the output: [Render] and [Split] are pure.
//     Nothing is shown twice or lost, whatever was restarted, redelivered, reset,
//     or moved in the meantime.
//   - A message is never longer than the platform allows, never empty, and never
//     ends inside a fenced code block: a block that is cut in two is closed and
//     opened again.
//   - All of the text is shown, up to about twenty messages; a longer answer ends
//     with a line that names the page, which has all of it.
//
// App creates one [Service] per platform. The outbox calls [Service.OnSent].
//
// # Decisions
//
// [Decide] is the pure decider. Its [State] is the row of a request together with
// the [Pace] of its follower, which lives in memory. Rendering happens between two
// decisions: [Checked] decides whether the output has ended, [Show] renders it, and
// [Rendered] compares the views with the messages. [Rendered] names the row that
// was rendered and has no effect on a row that has changed since.
//
// # Concurrency
//
// A Service is safe for concurrent use. Its goroutines are:
//
//   - Two that consume events. They decide ReplyStarted, RequestEnded, and Moved.
//   - One that starts followers (at most 2,000) and waits for them.
//   - Two per follower: run, which makes all other decisions, and its listener,
//     which reads the output topic. Only run calls the platform's Edit, Delete, and
//     Typing, one call at a time, and only run uses the pace.
//   - The outbox's workers, which call OnSent in their transactions.
//
// A request has at most one follower in the process, but no goroutine owns its
// row: events, follower, and outbox all change it. Every change is therefore
// decided in a write transaction on the stored row, and the database runs these
// one after another. A follower first decides on the row that it has read, and
// takes a transaction only if that changes the row or has an effect in one.
//
// Two mutexes exist: Service.mu guards the lists of followers, and listener.mu the
// output. They are never held together, nor during I/O or a callback. Both are
// taken after a commit or outside of transactions, so a transaction never waits
// for them. Wake-up channels have one slot: the receiver checks everything, so a
// second signal adds nothing.
package relay
