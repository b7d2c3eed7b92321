package tracing

import (
	"context"
	"encoding/hex"
	"strings"
)

// SpanContext is what a span tells those that it causes.
type SpanContext struct {
	Trace   [16]byte
	Span    [8]byte
	Sampled bool
}

// Valid reports whether it names a span.
func (c SpanContext) Valid() bool { return c.Trace != [16]byte{} && c.Span != [8]byte{} }

// TraceParent is c as the header traceparent of W3C Trace Context, empty if it
// is not valid.
func (c SpanContext) TraceParent() string {
	if !c.Valid() {
		return ""
	}
	flags := "00"
	if c.Sampled {
		flags = "01"
	}
	return "00-" + hex.EncodeToString(c.Trace[:]) + "-" + hex.EncodeToString(c.Span[:]) + "-" + flags
}

// ParseTraceParent reads the header traceparent. What is not one is an invalid
// context: a foreign header must never fail a request.
func ParseTraceParent(header string) SpanContext {
	parts := strings.Split(header, "-")
	if len(parts) < 4 || len(parts[0]) != 2 || parts[0] == "ff" || parts[0] == "00" && len(parts) != 4 ||
		len(parts[1]) != 32 || len(parts[2]) != 16 || len(parts[3]) != 2 || strings.ToLower(header) != header {
		return SpanContext{}
	}
	var c SpanContext
	var version, flags [1]byte
	for _, f := range []struct {
		into []byte
		text string
	}{{version[:], parts[0]}, {c.Trace[:], parts[1]}, {c.Span[:], parts[2]}, {flags[:], parts[3]}} {
		if _, err := hex.Decode(f.into, []byte(f.text)); err != nil {
			return SpanContext{}
		}
	}
	c.Sampled = flags[0]&1 == 1
	if !c.Valid() {
		return SpanContext{}
	}
	return c
}

type contextKey struct{}

// WithParent makes spans that are started in the returned context children of c.
func WithParent(ctx context.Context, c SpanContext) context.Context {
	if !c.Valid() {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, c)
}

// FromContext is the span that the context stands in.
func FromContext(ctx context.Context) SpanContext {
	c, _ := ctx.Value(contextKey{}).(SpanContext)
	return c
}
