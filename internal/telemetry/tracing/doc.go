// Package tracing makes OpenTelemetry spans and sends them to a collector over
// OTLP/HTTP (protobuf). A nil [Tracer] makes nothing and costs nothing, which is
// how the program runs unless an endpoint is configured.
//
// It is not the OpenTelemetry SDK, on purpose: docs/decisions/0004-own-metrics-and-spans.md says
// why. What goes over the wire is the same, and so are the names of the
// environment variables.
//
// Sending never holds up work: spans wait in a bounded queue, and what does not
// fit, or what the collector does not take after a few tries, is dropped and
// counted.
package tracing
