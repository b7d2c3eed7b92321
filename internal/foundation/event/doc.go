// Package event is the catalog: every event that travels on the bus, with its
// type, topic, key, lane, header rule and payload, in one place (catalog.go).
//
// An [Event] is made by [New] from a typed payload and a [Meta]; New fills
// topic, key and lane from the catalog and refuses a request-scoped event
// without its three headers, naming the event. A payload never repeats an id
// that the envelope carries. [Decode] gives the typed payload back; fields it
// does not know stay in Event.Data, which is what travels.
//
// Sources: the specification of the bus and its envelope
// (bus-adapter-bridge), and the catalog of the system's design.
package event
