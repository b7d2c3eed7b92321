// Package fault classifies errors: what kind of trouble it is, what a person
// may read about it, and what is worth trying again.
//
// A [Kind] decides the HTTP status, the exit code of the command line and
// whether a retry makes sense, each in one table of this package. The message
// of an [Error] is written for a person and never holds a secret or the cause;
// the cause is wrapped for the logs. On the wire an error is
//
//	{"kind": "...", "code": "...", "message": "...", "retryable": false, "field": "..."}
//
// Anyone may use it; it imports the standard library only.
package fault
