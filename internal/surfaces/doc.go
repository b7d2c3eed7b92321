// Package surfaces is the layer of adapters to the platforms where people talk
// to the agent. The adapter interface belongs to core/surface.
//
// Only a platform's own package knows its syntax, identifiers, and limits. A
// surface never sees a model. Packages of this layer import core, agent (for
// guarded downloads), engine, and foundation.
package surfaces
