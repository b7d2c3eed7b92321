// Package callables implements the callables that commands of the agent reach through
// the tool server, as the surface-tools specification and system.md name them. Each
// family of callables has its own file.
//
// A family is a function that takes the ports it needs and returns
// []toolserver.Callable; package app joins the families. To add a callable, write the
// struct of its input and one function, and list it in its family.
//
// The families share:
//
//   - [Surfaces.Find] finds a session by any of its forms (123, <#123>, ops, #ops), and
//     never guesses.
//   - A [Reader] is one surface. It decides which conversations a caller may read. If it
//     is also a [Writer], callers may send messages; otherwise, the call is refused with
//     a fault.Denied.
//
// Nothing here decides who the caller is: that comes from its token. The types hold no
// mutable state and are safe for concurrent use.
package callables
