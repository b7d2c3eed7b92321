// Package session is the runner: it applies messages to sessions and runs the
// agent, one request at a time in each session.
//
// [Decide] is the pure decider: it chooses the request of a message, and which
// request starts, pauses or ends. The [Service] subscribes to cmd.request. For
// each command it loads the session's [State], decides, and writes state, journal,
// history and events in one transaction (package kernel). A run reports in the
// same way: each report of the agent is one transaction that also publishes the
// events that follow from it.
//
// # Promises
//
//   - A message is applied exactly once, or discarded with the queued work that
//     somebody cancelled. A steer that is too late becomes a prompt.
//   - Prompts are first in, first out. Only a message that names a queued request
//     joins it.
//   - A request reaches exactly one end state, after its response.text event.
//   - A finished model call is journaled before anything follows from it, and is
//     never repeated. After a crash, a run continues from its journal.
//   - A prompt whose last message has the role assistant is output unchanged,
//     without a model call: the program itself uses it to tell people something.
//   - Only this package writes a session's history and a request's output topic.
//
// # Callers
//
// Package app builds one Service per process with [New], calls [Service.Declare]
// before anything publishes, and [Service.Run] once. The HTTP API, the tools and
// the relay call the other exported methods of Service, from any goroutine. The
// tables are behind [Tables]; package store implements them.
//
// # Concurrency
//
// Any number of goroutines may change a session at the same time. Every change is
// one transaction, and the database has one writer, so decisions about a session
// are serialised by their transactions and need no lock in memory.
//
// An active request that is not paused has one run, and a run has one goroutine
// (run.runToEnd), from the commit that started it to the commit that ended it.
// That goroutine owns the fields of run below "owned by the run's goroutine". Other
// goroutines reach the run only through its atomic wake flag, its interrupt
// signal, its cancel function, and run.write. A run whose epoch is stale cannot
// write ([State].Epoch).
//
// The locks, in the order in which they are taken:
//
//  1. output.pubMu: one publication of a request's output at a time. It is held
//     across the transaction that publishes the buffered text, so it comes before
//     the database's writer.
//  2. the database's writer (one transaction).
//  3. Service.mu: the runs by request, the sessions that wait for a slot, and
//     whether the service is stopping. It is never held during I/O.
//  4. publisher.mu: which output is due next.
//  5. output.mu: the buffered text of one output.
//
// alarms.mu and daySpent.mu are leaves, except that reading a new day holds
// daySpent.mu during one read transaction; no writer waits for it before its
// commit.
//
// The goroutines of a Service, all of which Run waits for: one per run; one
// publisher for all outputs, so that a thousand streams cost one transaction per
// round; one that starts held sessions while slots are free; one per session that
// failed to resume, retrying with backoff. A paused request has no goroutine, only
// a timer in alarms.
//
// # Specification
//
// The package follows the sections on the runner and on never losing and never
// doubling messages of the system design. Its decider is Decide(State, Input, now)
// like that of every core.
package session
