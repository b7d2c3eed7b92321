// Package model is the layer of language models: the interface that the agent
// calls (llm) and one package per protocol.
//
// Only this layer knows a provider's wire format. Its packages import the
// foundation layer and llm, never the bus, the store, or a surface.
package model
