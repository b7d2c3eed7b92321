// Package surface declares what the cores know about chat platforms: the messages,
// channels, and users in the [MessageCache] and the [Directory], and the [Adapter] that
// writes to a platform. It follows the reference forms of the surface-tools and bus-adapter-bridge
// specifications.
//
// It promises:
//
//   - Texts use the platform's own syntax for mentions (on Discord <@id>). Package
//     entity converts them to names and back.
//   - Cores read from the cache and never from a platform. An adapter puts what it
//     learns into the cache before it publishes the event.
//   - A [Send] carries a nonce that identifies the logical message. Sending twice
//     with the same nonce creates one message if the platform supports that; after
//     a crash, [Adapter.FindNonce] finds out.
//
// All cores and adapters may import it. It contains types only: it depends on no
// platform and no model, and starts no goroutine. Adapters and caches are safe for
// concurrent use.
package surface
