// Package callables is what commands of the agent can call through the tool
// server: one file for each family of callables, as the surface-tools
// specification and the system design name them.
//
// A family is a function that takes the ports it needs and returns
// []toolserver.Callable; package app joins them. What the families share:
//
//   - An input is read with decode, after the tool server has brought it into
//     the form of the callable's schema.
//   - A session is found with [Places.Find], which knows every form (123,
//     <#123>, ops, #ops) and never guesses.
//   - A [Place] is one surface. It says what may be read and written there, by
//     whom; what a surface cannot do is a fault.Denied that says so.
//
// Nothing here decides who the caller is: that comes from its token.
package callables
