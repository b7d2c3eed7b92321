// Package logs makes the program's logger, which writes JSON lines, or colored
// text on a terminal. Lines cannot be forged: control characters and bidirectional
// marks are escaped, and a JSON line is one valid object. Lines contain no known
// secret.
//
// A handler removes secrets from the message, the keys, and the values of every
// record, including errors and structs, because libraries put unpredictable text
// into errors. A [LossyWriter] keeps a reader of the log that hangs from stopping the
// work: it drops and counts lines instead of waiting. All types are safe for concurrent use.
package logs
