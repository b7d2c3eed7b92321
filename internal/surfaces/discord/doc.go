// Package discord is the surface on Discord: it takes in what people say there
// and writes what we say. It follows Discord's developer documentation (API
// version 10), whose pages are named where a rule comes from.
//
// What it promises:
//
//   - What the gateway delivered is taken in before the next event is: inbox,
//     cache, position and event in one transaction. A full hand-over makes the
//     reader wait; nothing is dropped. After a crash the gateway's session goes
//     on at the last position that was written down; when Discord has given the
//     session up, what was said meanwhile is read from the channels' histories.
//   - Only channels and people that the configuration allows are heard or
//     written to.
//   - One function writes to Discord. Nothing that it sends can notify anybody
//     but the people whom its caller named, and never roles or everyone.
//   - Discord's limits are kept before they are reached.
//
// The library (disgo) makes the REST calls. The gateway is our own: the
// library's goes on to a later event when a handler failed, reconnects by
// itself in places that cannot be switched off, and its position cannot be
// tied to a transaction.
//
// Only app creates an [Adapter]; nothing else imports the library.
package discord
