// Package discordtest is a fake Discord for tests. It serves a gateway and a REST API on
// real sockets, to which the real client library connects, and it offers methods that
// script what Discord users do. All Discord tests use it.
//
// What it guarantees:
//
//   - It follows Discord's documentation; comments cite the documentation by page title. It
//     rejects every request that Discord rejects, with the same error code.
//   - It is strict. Some calls work on Discord but break its rules or ours: a 429 that the
//     headers had announced, a message without allowed_mentions, or a wrong User-Agent. The
//     fake records each of them as a violation, and [New] then fails the test.
//   - As on Discord, a nonce appears only in the response that creates a message and in its
//     MESSAGE_CREATE event. Later reads of the message do not contain it.
//   - With [Options.Memory], it uses in-memory pipes instead of sockets. Pipes work in a
//     testing/synctest bubble, so a test can simulate a day of heartbeats in a moment.
//
// [Server] consists of parts: [World] has the accounts, guilds, and channels, [Script] does
// what users do, [Observer] returns and awaits what is there, and [Faults] breaks things. All
// parts share one state, which serves the gateway and the API.
//
// The gateway speaks JSON, either uncompressed or with zlib-stream. It rejects
// zstd-stream with an error message that says so. Programs can use the fake without a
// testing.T; see [Start].
package discordtest
