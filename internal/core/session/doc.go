// Package session is the runner: it takes messages into the work of sessions
// and runs the agent, one request at a time in each session.
//
// [Decide] is the pure core: where a message goes, what starts, what ends. The
// [Service] subscribes to cmd.request, and for every command it loads the
// session's [State], decides, and writes state, journal, history and events in
// one transaction. A run reports through the same path: each report of the
// agent is one transaction that also publishes what it means.
//
// What it promises:
//
//   - A message is applied exactly once, or dropped with the queued work that
//     somebody cancelled. A steer that came too late becomes a prompt.
//   - Prompts are first in, first out; only what names a queued request joins it.
//   - A request reaches exactly one end state, behind its response.text.
//   - A finished model call is journaled before anything follows from it, and is
//     never made again; after a crash a run goes on from its journal.
//   - A prompt whose last message is one of the assistant is said as it is: how
//     the program itself tells the people in a session something.
//   - Only this package writes a session's history and a request's output topic.
//
// It follows the design's sections on the runner and on never losing and never
// doubling. The tables are behind [Store]; package store satisfies it.
package session
