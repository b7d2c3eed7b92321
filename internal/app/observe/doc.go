// Package observe watches what the cores do, from outside of them: it wraps
// models and tools, reads the lifecycle of requests off the bus, and turns what
// it sees into metrics and spans with the names of OpenTelemetry's conventions
// for generative AI. The cores know neither.
//
// What a label or a span says comes from a small set: the names of surfaces,
// states, providers, models and tools. What people wrote, and what the model
// answered, is never in them.
package observe
