// Package fault classifies errors. An error has a kind, a message for people, and a flag
// that says whether a retry may help.
//
// A [Kind] determines the HTTP status, the exit code of the command line, and whether the
// error is retryable; one table in this package defines all three. The message of an [Error]
// is for people and never contains secrets or the cause; the cause is wrapped for the logs.
// In the API, an error has the form
//
//	{"kind": "...", "code": "...", "message": "...", "retryable": false, "field": "..."}
//
// Every package may use it. It imports only the standard library.
package fault
