// Package outbox sends messages to the world exactly once: what goes out is a
// row that is written before the call and marked in a transaction after it
// (system design, "Never lose, never double").
//
// A row goes planned → sending → sent | unknown | failed | expired. After a
// crash in sending, and after a call whose outcome nobody knows, the service
// reconciles: it looks for the nonce at the platform (or the channel's
// history) and never guesses. Rows have a time to live, so a restart never sends
// yesterday's; until then a platform that is away is tried again and again. Who
// planned a row may withdraw it.
//
// Within a channel rows go out in the order in which they were planned; other
// channels go on meanwhile.
package outbox
