// Package toolcli is the command "tools": it lists, explains and calls what a
// tool server offers. It runs in sandboxes, so it imports little and starts at
// once.
//
// Values go to standard output, errors to standard error; the exit code follows
// from the kind of the fault (package fault). It decides nothing: what an input
// has to be is the server's to say.
package toolcli
