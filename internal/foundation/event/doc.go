// Package event defines every event on the bus: its type, topic, key, lane, required
// headers and payload. The catalog is in catalog.go.
//
// [New] creates an [Event] from a typed payload and a [Meta]. It fills in the topic, key and
// lane from the catalog, and rejects a request-scoped event without its three headers. A
// payload never repeats an id that the envelope contains. [Decode] returns the typed
// payload; unknown fields are kept only in Event.Data, which the bus transports.
//
// Sources: the specification of the bus and its envelope (bus-adapter-bridge), and the
// catalog in the system's design.
package event
