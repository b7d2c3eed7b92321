// Package observe produces metrics and spans about the work of the cores, without changes to
// the cores: it wraps models and tools, and is told when requests begin and end. The names follow
// OpenTelemetry's semantic conventions for generative AI.
//
// Labels and span attributes have few possible values: the names of surfaces, states,
// providers, models and tools. They never contain messages of people or answers of the model.
package observe
