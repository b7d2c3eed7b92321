// Package httpapi serves Lilac's HTTP API: conversations, the event stream, raw
// bus topics, requests, dead letters, rules, workflows, tasks and operations.
//
// routes.go declares every route once: method, path, access class, parameters,
// and an endpoint whose Go types are the request and response bodies. The mux,
// the access checks, the metrics and /openapi.json all read that table. Each
// group of routes is one small type (sessions, prompts, streams, requests, …)
// that declares the two to six methods that it needs from the store.
//
// Every request must name an allowed host and must not come from another site's
// page, on every method (guard.go, package origin); pages of listed sites may use
// /v1 and /mcp with a token (crossorigin.go). The class of the route says
// whether the operator's token is needed as well, as a bearer token or as the
// page's cookie. Request bodies are decoded strictly. Handlers return errors;
// [errorWriter] is the only code that writes and logs them, always as
// {"error": {kind, code, message, field}}.
//
// The event stream merges three kinds of bus topics. Its core (projection.go) is
// pure: it turns events into frames and effects. The service around it
// (stream.go) runs one goroutine per client; a client that reads slowly delays
// only its own stream. A frame's id is a cursor that encodes the position of
// every merged topic, so a client resumes without loss or repetition, even after
// a restart of the server.
//
// All handlers are safe for concurrent use. Event streams end when
// [Options.Stopping] ends; all other requests in flight are answered. Only
// package app imports this package.
package httpapi
