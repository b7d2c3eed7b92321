// Package interaction answers buttons and commands on a platform: stop a request,
// report the status of a channel, and ask about a message.
//
// It promises:
//
//   - [Decide] is pure. It decides whether a stop cancels the request and what the
//     status says.
//   - The state belongs to package session and is only read here. A stop is a
//     cancel command for the runner, published in the adapter's transaction, so
//     pressing the button twice has one effect.
//   - Names of people are text that they chose. In sentences of Lilac they contain
//     no formatting, mention, or link.
//
// The adapter of the platform calls [Service]; it has checked whether the person
// may do that. App creates one Service per platform. A Service has no state of its
// own and is safe for concurrent use.
package interaction
