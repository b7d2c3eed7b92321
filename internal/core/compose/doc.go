// Package compose turns what people said on a platform into the messages that
// a model reads. It follows "Discord Request Construction" of the
// bus-adapter-bridge specification and part B2 of the attachments one.
//
// What it promises:
//
//   - A user's message begins with a line that says who wrote it and which
//     message it is, and ends with a block that lists its attachments. Both are
//     written here alone: what looks like one in a person's text, name or file
//     name is made to look different, so [Attachments] reads only ours.
//   - Our own messages are the assistant's. Where the session's history holds
//     the request that made them, its transcript stands there, with its tools.
//   - What the session's history holds already is not said twice; a reply to it
//     names it in a line.
//   - Messages of one author within seven minutes become one, unless one of
//     them has attachments: those stay apart, so that each block belongs to its
//     own message.
//
// It is pure: the same [Snapshot] gives the same messages.
package compose
