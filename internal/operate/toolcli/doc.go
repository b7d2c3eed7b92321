// Package toolcli implements the command "tools". It lists, describes and calls the callables
// of a tool server. It runs in sandboxes, so it imports few packages and starts fast.
//
// The command prints values on standard output and errors on standard error. The kind of the
// error determines the exit code (package fault). Only the server validates inputs.
package toolcli
