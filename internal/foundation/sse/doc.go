// Package sse reads and writes server-sent events, the text/event-stream format of the HTML
// standard. Lilac writes such streams to web pages and terminals, and reads those of model
// providers.
//
// An [Encoder] calls Write once for each event, so a flush never sends half of an event. A
// [Decoder] returns events as the bytes arrive, accepts LF, CR and CRLF, skips a byte order
// mark, and buffers at most one event of limited size. Neither type starts goroutines or is
// safe for concurrent use. The package imports only the standard library.
package sse
