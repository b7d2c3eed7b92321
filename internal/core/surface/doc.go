// Package surface is what the cores know of a place where people talk: the
// messages, channels and people of a platform as the cache keeps them, and the
// [Adapter] that writes to it. It follows the reference forms of the
// surface-tools and bus-adapter-bridge specifications.
//
// What it promises:
//
//   - Texts are in the platform's own syntax for mentions (on Discord <@id>).
//     Package entity turns them into names and back.
//   - Reads of the cores come from the [Cache] and never call a platform; only
//     an adapter does, and what it learns it puts into the cache before it
//     publishes.
//   - A [Send] carries a nonce made from the logical act. Sending twice with
//     one nonce makes one message wherever the platform can promise that;
//     [Adapter.FindNonce] tells after a crash.
//
// Anyone may import it; it knows no platform and no model.
package surface
