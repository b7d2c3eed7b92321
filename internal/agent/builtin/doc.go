// Package builtin is the tools of level 1: bash, read, write, edit, glob, grep,
// and for attachments. Each is a file x.go beside x.md, the text for the model.
//
// The file tools never leave the workspace, whatever a path, a link or a race
// says: every access goes through an os.Root. Only plain files and directories
// are touched, so nothing hangs on a FIFO or a device. Files are replaced in
// one step, so nobody sees half of one. bash runs in a sandbox or refuses.
// Everything is bounded (time, bytes, lines, matches) and says so in its
// result; what the model can mend is told as a failed result with what to do.
//
// It may import tool, sandbox, chat and fault; app builds it.
package builtin
