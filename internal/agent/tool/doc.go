// Package tool defines the actions that the model can call: the [Tool] interface, and
// the functions that keep a tool from damaging the conversation.
//
// [New] makes a tool of a function with a typed input; the JSON schema and the
// validation come from the input's struct.
//
// Results are bounded. [Output] keeps the head and the tail of what a tool prints,
// writes the whole to a file in the workspace that the model can read, and names that
// file in the text. [Bound] does the same for a complete text. The text is clean:
// valid UTF-8 without NUL, without terminal sequences, with newlines as line ends. The
// memory of an Output, the size of the file, and the number of files are bounded.
//
// Tools may be run by several goroutines at once if they are ParallelSafe. An Output is
// safe for concurrent use; a [CleanWriter] belongs to one goroutine. Every layer above
// may use this package; it imports foundation packages only.
package tool
