package observe

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/telemetry/health"
	"lilac/internal/telemetry/metrics"
	"lilac/internal/telemetry/tracing"
)

// An Observer holds the metrics and the tracer.
type Observer struct {
	// Calls are the calls of all models.
	Calls health.Calls

	tracer *tracing.Tracer

	requests      *metrics.Histogram
	modelCalls    *metrics.Histogram
	modelTokens   *metrics.Counter
	cachedShare   *metrics.Histogram
	modelCost     *metrics.Counter
	toolCalls     *metrics.Counter
	toolDurations *metrics.Histogram
	published     *metrics.Counter
}

// New declares the metrics and returns an Observer. With a nil tracer, it creates no spans.
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
		cachedShare: r.Histogram("lilac_model_cached_input_ratio",
			"Share of the input tokens of a model call that was read from the provider's cache.", []float64{0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99}, "provider", "model"),
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

// Published counts published events. It is the hook for db.Options.OnPublish.
func (o *Observer) Published(events []event.Event) {
	for _, e := range events {
		topic := string(e.Topic)
		if strings.HasPrefix(topic, "out.req") {
			topic = "out.req"
		}
		o.published.Add(1, topic)
	}
}

// A Run is the work of this process on a request. A request that resumes after a restart has
// several runs.
type Run struct {
	RequestID, SessionID, Client string
	// TraceParent is the traceparent header of the message that started the run, or "".
	TraceParent string
}

// Run starts the span of a run. The returned function ends the span; its argument is the error
// of the run.
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

// RequestEnded records the duration of a request: from its first message to its end, including
// waiting and restarts. Call it once for each request.
func (o *Observer) RequestEnded(state event.RequestState, client string, took time.Duration) {
	o.requests.Observe(max(0, took.Seconds()), string(state), client)
}

// HTTP starts the span of an HTTP request; traceParent may be empty. The returned context
// carries the traceparent of the new span, for the events that the request causes (see
// event.TraceParent).
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

// fail records the kind and the code of an error in a span. It omits the message, because the
// messages of providers can quote the text of people.
func fail(span trace.Span, err error) {
	if err != nil {
		wire := fault.ToWire(err)
		tracing.Fail(span, string(wire.Kind), wire.Code)
	}
}

func seconds(since time.Time) float64 { return time.Since(since).Seconds() }
