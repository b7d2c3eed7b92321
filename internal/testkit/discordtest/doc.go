// Package discordtest is a fake Discord: a gateway and a REST API on real
// sockets that the real client library connects to, and a scripting interface
// for what people there do. All Discord tests use it.
//
// What it promises:
//
//   - It follows Discord's documentation; comments cite it by the title of the
//     page. What Discord refuses it refuses, with Discord's error code.
//   - It is strict. What works on Discord but breaks its rules or ours (a 429
//     that the headers had announced, a message without allowed_mentions, a
//     wrong User-Agent) is a violation, and [New] fails the test for it.
//   - As on Discord a nonce comes back with the answer to a message and with
//     its MESSAGE_CREATE, and is gone when the message is read again.
//   - With [Options.Memory] it uses no sockets but pipes that work in a
//     testing/synctest bubble, so that a day of heartbeats takes a moment.
//
// It speaks JSON without compression or zlib-stream; zstd-stream is refused
// with a line that says so. It needs no testing.T ([Start]).
package discordtest
