// Package sse reads and writes server-sent events, the text/event-stream
// format of the HTML standard: our own streams to pages and terminals, and
// the model providers' streams to us.
//
// An [Encoder] makes one Write for each event, so a reader never sees half of
// one that was flushed. A [Decoder] reads as bytes arrive, accepts LF, CR and
// CRLF, skips a byte order mark, and holds at most one event of a bounded
// size. Neither starts a goroutine nor is safe for concurrent use. It imports
// the standard library only.
package sse
