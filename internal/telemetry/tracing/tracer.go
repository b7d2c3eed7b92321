package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	// defaultBatchWait is how long the first span of a batch waits for others,
	// unless OTEL_BSP_SCHEDULE_DELAY says otherwise.
	defaultBatchWait = 2 * time.Second
	// maxAttribute bounds the text of one attribute, in bytes, unless
	// OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT says otherwise.
	maxAttribute = 4 << 10
	// scopeName identifies Lilac as the instrumentation that made the spans.
	scopeName = "lilac"
)

// Options configure where spans are sent. [Environment] reads them from the
// standard variables.
type Options struct {
	// URL is the address that traces are posted to, including its path.
	URL string
	// Headers are sent with each batch, for example an API key.
	Headers map[string]string
	// Timeout bounds one attempt to send a batch; zero means 10 s.
	Timeout time.Duration
	// Version becomes the attribute service.version.
	Version string
	Logger  *slog.Logger
	// Client reaches the collector; nil means a client that follows no redirects.
	Client *http.Client
	// BatchWait overrides how long a batch waits for more spans.
	BatchWait time.Duration
}

// Tracer starts spans. A nil Tracer starts none.
type Tracer struct {
	tracer   trace.Tracer
	provider *sdktrace.TracerProvider
	queue    queueLimit
	exporter *exporter
}

// New returns a tracer that sends spans until it is closed. It fails if the
// resource in OTEL_RESOURCE_ATTRIBUTES cannot be read.
func New(o Options) (*Tracer, error) {
	res, err := resource.New(context.Background(), resource.WithAttributes(
		attribute.String("service.name", scopeName), attribute.String("service.version", o.Version)), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("read the resource for traces: %w", err)
	}
	e := newExporter(o)
	wait := o.BatchWait
	if wait <= 0 {
		wait = environmentMillis("OTEL_BSP_SCHEDULE_DELAY", defaultBatchWait)
	}
	limits := sdktrace.NewSpanLimits()
	if limits.AttributeValueLengthLimit < 0 {
		limits.AttributeValueLengthLimit = maxAttribute
	}
	queue := queueLimit{sdktrace.NewBatchSpanProcessor(e, sdktrace.WithBatchTimeout(wait)), e}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithResource(res), sdktrace.WithRawSpanLimits(limits), sdktrace.WithSpanProcessor(queue),
	)
	return &Tracer{provider.Tracer(scopeName), provider, queue, e}, nil
}

// Start starts a span as a child of the one in ctx. If the parent is not sampled,
// the new span is not recorded.
func (t *Tracer) Start(ctx context.Context, name string, kind trace.SpanKind, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	if t == nil {
		return ctx, trace.SpanFromContext(context.Background())
	}
	return t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(attrs...))
}

// Fail marks a span as failed with the kind of error and a message.
func Fail(span trace.Span, kind, message string) {
	span.SetAttributes(attribute.String("error.type", kind))
	if message == "" {
		message = kind
	}
	span.SetStatus(codes.Error, message)
}

// Dropped returns the number of spans that were not sent.
func (t *Tracer) Dropped() int64 {
	if t == nil {
		return 0
	}
	return t.exporter.dropped.Load()
}

// Close sends the spans in the queue until ctx ends. It may be called twice.
func (t *Tracer) Close(ctx context.Context) {
	if t == nil {
		return
	}
	t.exporter.stopRetries()
	// Both fail only if ctx ends first. The provider would then leave the queue running.
	_ = t.queue.Shutdown(ctx)
	_ = t.provider.Shutdown(ctx)
}

// WithTraceParent returns ctx with the W3C Trace Context header traceparent as
// its parent span. It ignores a header that is not valid, because a client's
// header must never fail a request.
func WithTraceParent(ctx context.Context, header string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": header})
}

// TraceParent returns the header traceparent for the span in ctx, or "".
func TraceParent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}
