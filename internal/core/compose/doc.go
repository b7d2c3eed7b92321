// Package compose turns messages of a platform into messages for a model. It follows "Discord Request Construction" of the
// bus-adapter-bridge specification and part B2 of the attachments one.
//
// It promises:
//
//   - A user message begins with an attribution line, which names the author and
//     the message, and ends with a block that lists its attachments. Only this
//     package writes them: text that looks like one in a message, name, or file
//     name is altered, so [Attachments] never reads a forged block.
//   - Our own messages become assistant messages. If the session's history contains
//     the request that wrote them, they are left out, because its transcript is in
//     the history.
//   - Messages in the session's history are not repeated. A reply to one quotes it
//     in a line.
//   - Messages of one author within seven minutes become one message, except
//     messages with attachments, so that each block belongs to one message.
//
// The router, workflows, and callables call it. Everything is pure: the same
// [Snapshot] gives the same messages.
package compose
