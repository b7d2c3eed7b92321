// Package builtin implements the tools that every agent has: bash, read, write, edit,
// glob, grep, and the tools for attachments. Each is a file x.go beside x.md, the text
// for the model.
//
// The file tools never leave the workspace, whatever a path, a link or a race does:
// every access goes through an os.Root. They use only regular files and directories, so
// a FIFO or a device cannot block them. Files are replaced atomically. bash runs in a
// sandbox or refuses. Time, bytes, lines and matches are bounded, and the result says
// when a limit was reached. Errors that the model can correct are failed results that
// say what to do.
//
// The tools hold no state between calls and are safe for concurrent use. app builds
// them; see system.md §7 for the rules of the workspace.
package builtin
