// Package program runs external programs as sources of environment events.
//
// A program prints one event per line on its standard output, as JSON with an id. For
// each line it receives one line on its standard input: "ack ID" when the event is
// durable, or "nack ID REASON" when the line can never become an event. The package
// guarantees:
//
//   - An acknowledged event is on the bus. The acknowledgment follows the commit, so a
//     program that sends again what was not acknowledged loses nothing, whichever of the
//     two is killed.
//   - The id of a line is part of the id of its event, so an event that is sent again is
//     acknowledged and published once.
//   - Events of one program are published in the order of their lines.
//   - While the queue of a source is full, its output is not read. Nothing is dropped.
//   - A program that ends is started again, after a pause that doubles up to a limit.
//     It ends with Lilac: its standard input is closed, and its process group is asked
//     and then forced to end.
//   - Lines, and what is logged of the standard error, are limited.
//
// The program receives a small environment without the secrets of Lilac. It is not in the
// sandbox, because the operator chose it. Its text is data: requests that its events
// cause may only read and answer, unless the configuration allows more.
//
// The decisions are pure: [Parse] turns a line into an event, and [Pause] is the time until
// the next start. There is no Decide with a state: the only state is the number of
// failures in a row. [Service] owns one goroutine per program; each program has two more,
// which read its output, and ends before its goroutine does. Set may be called
// concurrently. Only package app runs the service. It implements the specification of
// environment events.
package program
