// Package logs makes the program's logger: JSON lines, or text with colours on
// a terminal. Whatever is logged, by whoever: a line cannot be forged (control
// characters and marks that change the direction are shown, not obeyed; a
// JSON line is one valid object), and no known secret is in it.
//
// Secrets are removed at the last place that every record passes, from the
// message, the keys and the values, also inside errors and structs: what an
// HTTP client or a library puts into an error is not known in advance.
package logs
