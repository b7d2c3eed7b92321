// Package foundation is the bottom layer: the types and small functions that
// every other layer uses, such as messages, the catalog of events, kinds of
// errors, and calendar arithmetic.
//
// A package belongs here if it has no state of its own, performs no I/O beyond
// reading the file system, and is used by at least two layers. Packages of this
// layer import only the standard library, small libraries, and each other.
package foundation
