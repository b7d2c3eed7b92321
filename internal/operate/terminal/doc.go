// Package terminal is the interactive chat of the command line, for terminals that can
// move the cursor. The command "lilac chat" uses it; pipes and dumb terminals get that
// command's plain mode.
//
// [Update] is pure: it takes a [Model] and a message (a key, an event of the server, the
// result of a call, a tick of the clock) and returns the next model and the effects to
// carry out. It does no I/O and reads no clock. [Run] is the thin service around it: it
// connects Update to Bubble Tea, calls the server over the same routes as every other
// client, and reads the files that a message attaches.
//
// What is finished is printed once, above the part that still changes, and belongs to the
// terminal's own scrollback: searching, selecting, and copying work as for every command,
// also over SSH. The changing part has the end of the answer, the running tools, the
// status, and the input. Ctrl+O shows the whole conversation, with the complete output of
// tools, on the alternate screen.
//
// Text of models, tools, files, and people is data. It passes [text.Sanitize] where it
// enters the model, so no escape sequence in it reaches the terminal.
//
// Concurrency: Bubble Tea's loop owns the Model. Effects run in goroutines of their own,
// send their result to the loop, and are waited for when Run returns. One goroutine
// follows the event stream of the open conversation.
package terminal
