package event

import "context"

type traceKey struct{}

// WithTraceParent keeps the header traceparent of what is done in ctx, for the
// events that are published because of it.
func WithTraceParent(ctx context.Context, header string) context.Context {
	return context.WithValue(ctx, traceKey{}, header)
}

// TraceParent is what [WithTraceParent] kept, or "".
func TraceParent(ctx context.Context) string {
	header, _ := ctx.Value(traceKey{}).(string)
	return header
}
