// Package tracing starts spans with OpenTelemetry's SDK and sends them to a
// collector over OTLP/HTTP in protobuf. A nil [Tracer] starts no spans and costs
// nothing; Lilac runs that way unless an endpoint is configured.
//
// The SDK provides spans, sampling, batching, limits, the resource, and the
// environment variables of each. The exporter is our own, because the SDK's
// links gRPC: docs/decisions/0004-metrics-and-spans.md has the figures.
//
// Sending never delays work. Spans wait in a bounded queue; spans that do not
// fit, or that the collector does not accept after a few tries, are dropped and
// counted. All types are safe for concurrent use.
package tracing
