// Package tool is what the agent can do besides talking: the [Tool] interface,
// and what every tool needs so that it cannot hurt the conversation.
//
// A result is bounded. [Output] keeps the head and the tail of what a tool
// says, writes the whole to a file in the workspace that the model can read,
// and names that file in the text; [Bound] does so for a text that is complete.
// What passes through is clean: valid UTF-8 without NUL, without terminal
// sequences and with plain line ends. Neither the memory that an Output holds,
// nor the file, nor the number of files kept grows without limit.
//
// [Input] reads the fields of a call: unknown fields are tolerated, a number in
// quotes is a number, and what is wrong is told by the name of the field.
//
// Anyone may use it; it imports chat and fault only.
package tool
