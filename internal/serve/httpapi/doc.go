// Package httpapi is Lilac over HTTP: conversations, the event stream, the
// bus as it is, the stories of requests, dead letters, and operations.
//
// Every route but /healthz and /readyz needs the operator's token, as a bearer
// or as the page's cookie; every request, on every method, must name a host
// that is ours and must not come from another site's page (auth.go). Input is
// decoded strictly: an error names the field, and is always
// {"error": {kind, code, message, field}}. Handlers return errors; one adapter
// writes and logs them.
//
// The event stream is a projection of three kinds of topics. Its core
// (project.go) is pure: inputs in, frames and wishes out. The service around
// it (stream.go) tails the topics, and a reader that is slow only makes its
// own tails wait. The id of a frame is a cursor that stands for all positions
// behind it, so a reader resumes without loss or repeat, also after a restart.
//
// Streams end when [Options.Stopping] does; all else that is under way at a stop
// is answered. Only the composition root imports this package.
package httpapi
