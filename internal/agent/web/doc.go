// Package web lets the agent read pages of the web and search it.
//
// A [Reader] downloads a page from the hosts that the operator has allowed, through the guard of
// package egress, and turns it into plain Markdown. A [Searcher] asks the search service that the
// operator has configured. Everything that comes back is material for the model, never
// instructions: [Page.Text] begins with a line that says so.
//
// An address can carry data away. So nothing is reachable by default, and requests that strangers
// trigger may use neither unless the configuration says so.
//
// Bytes, time, redirects, depth, and results are bounded. All types are safe for concurrent use.
// The package imports egress and foundation packages.
package web
