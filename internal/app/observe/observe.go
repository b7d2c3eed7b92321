package observe

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/telemetry/metrics"
	"lilac/internal/telemetry/tracing"
)

// Observer has a place for everything that is observed.
type Observer struct {
	tracer *tracing.Tracer

	requests      *metrics.Histogram
	modelCalls    *metrics.Histogram
	modelTokens   *metrics.Counter
	modelCost     *metrics.Counter
	toolCalls     *metrics.Counter
	toolDurations *metrics.Histogram
	published     *metrics.Counter
}

// New declares the metrics. A nil tracer makes no spans.
func New(r *metrics.Registry, tracer *tracing.Tracer) *Observer {
	r.CounterOf("lilac_spans_dropped_total", "Spans that were dropped because the collector did not accept them in time.", func(set func(float64, ...string)) { set(float64(tracer.Dropped())) })
	return &Observer{
		tracer: tracer,
		requests: r.Histogram("lilac_request_duration_seconds",
			"Time from a request's first message to its end, including waiting and restarts.", metrics.LongBuckets, "state", "surface"),
		modelCalls: r.Histogram("lilac_model_request_duration_seconds",
			"Duration of one model call, until its last token.", metrics.LongBuckets, "provider", "model", "status"),
		modelTokens: r.Counter("lilac_model_tokens_total",
			"Tokens by direction: input, output, and the input tokens read from (cache_read) and written to (cache_write) the provider's cache.", "provider", "model", "direction"),
		modelCost: r.Counter("lilac_model_cost_dollars_total",
			"Cost of model calls in US dollars, at the configured prices or as reported by the provider.", "provider", "model"),
		toolCalls: r.Counter("lilac_tool_calls_total",
			"Tool calls by status: ok, failed (reported to the model), or error (a defect, or the end of the request).", "tool", "status"),
		toolDurations: r.Histogram("lilac_tool_duration_seconds",
			"Duration of one tool call.", metrics.ShortBuckets, "tool"),
		published: r.Counter("lilac_bus_published_total",
			"Published events by topic; out.req stands for the output topics of all requests.", "topic"),
	}
}

// Published counts events; see db.Options.OnPublish.
func (o *Observer) Published(events []event.Event) {
	for _, e := range events {
		topic := string(e.Topic)
		if strings.HasPrefix(topic, "out.req") {
			topic = "out.req"
		}
		o.published.Add(1, topic)
	}
}

// Run is one stretch of work on a request, until it ends or the process does.
type Run struct {
	RequestID, SessionID, Client string
	// TraceParent is that of the message that started it, if it had one.
	TraceParent string
}

// Run begins the span of a run. The returned function ends it; its error is
// what the run ended with.
func (o *Observer) Run(ctx context.Context, r Run) (context.Context, func(error)) {
	ctx = tracing.WithTraceParent(ctx, r.TraceParent)
	ctx, span := o.tracer.Start(ctx, "invoke_agent lilac", trace.SpanKindInternal,
		attribute.String("gen_ai.operation.name", "invoke_agent"),
		attribute.String("gen_ai.agent.name", "lilac"),
		attribute.String("gen_ai.conversation.id", r.SessionID),
		attribute.String("lilac.request_id", r.RequestID),
		attribute.String("lilac.surface", r.Client),
	)
	return ctx, func(err error) {
		fail(span, err)
		span.End()
	}
}

// HTTP begins the span of an HTTP request that came with a traceparent, or
// without one. What it causes carries the span's own: see event.TraceParent.
func (o *Observer) HTTP(ctx context.Context, route, traceParent string) (context.Context, func(status int)) {
	method, path, _ := strings.Cut(route, " ")
	ctx, span := o.tracer.Start(tracing.WithTraceParent(ctx, traceParent), route, trace.SpanKindServer,
		attribute.String("http.request.method", method),
		attribute.String("http.route", path),
	)
	if tp := tracing.TraceParent(ctx); tp != "" {
		ctx = event.WithTraceParent(ctx, tp)
	}
	return ctx, func(status int) {
		span.SetAttributes(attribute.Int64("http.response.status_code", int64(status)))
		if status >= 500 {
			tracing.Fail(span, "5xx", "")
		}
		span.End()
	}
}

// fail puts the kind and the code of an error into a span. Its words stay out: a
// provider's can quote what somebody wrote.
func fail(span trace.Span, err error) {
	if err != nil {
		wire := fault.ToWire(err)
		tracing.Fail(span, string(wire.Kind), wire.Code)
	}
}

func seconds(since time.Time) float64 { return time.Since(since).Seconds() }
