// Package memory keeps what the agent remembers between conversations, as plain files that
// operators read and edit with any editor, and can keep in git:
//
//	people/ID/NAME.md     what concerns one person, in that person's private conversations
//	channels/ID/NAME.md   what concerns one conversation of several people
//	everyone/NAME.md      what every conversation knows
//	.history/ID.json      the last changes, each with the text before and after
//
// The first line of a note is its summary. [PlacesOf] decides which places a conversation
// reads, from facts that people cannot choose: its own, for a thread that of its channel, and
// everyone. It writes its own place, and everyone only if the operator allows it there. A
// private fact can therefore not appear in a conversation of another place: there is no
// operation that takes the place from the caller.
//
// Notes are material for the model, never instructions. Sizes and numbers are bounded. A
// [Store] is safe for concurrent use: its mutex serialises changes; readers see a whole file,
// because files are replaced by renames. It never follows links out of its directory.
package memory
