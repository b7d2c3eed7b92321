package event

import "context"

type traceKey struct{}

// WithTraceParent returns a context with a traceparent header (W3C Trace Context). Events
// that are published because of this work carry the header.
func WithTraceParent(ctx context.Context, header string) context.Context {
	return context.WithValue(ctx, traceKey{}, header)
}

// TraceParent returns the header that [WithTraceParent] stored, or "".
func TraceParent(ctx context.Context) string {
	header, _ := ctx.Value(traceKey{}).(string)
	return header
}
