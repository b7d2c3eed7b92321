// Package relay shows the output of a request on a surface, in messages that
// are edited while the answer is being made. It follows the relay part of the
// bus-adapter-bridge specification and part A of the attachments one.
//
// What it promises:
//
//   - What is shown is a function of what was said: [Split] and what calls it
//     are pure. Nothing is printed twice or lost, whatever was restarted,
//     redelivered, taken back or moved in between.
//   - A message is never longer than the platform allows, never empty, and never
//     ends inside a fenced block: one that is cut in two is closed and opened again.
//   - No word of the text is left out, but what would take more than some twenty
//     messages ends with a line that says where the whole of it is.
package relay
