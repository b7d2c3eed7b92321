package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"lilac/internal/telemetry/metrics"
)

// traffic counts and traces the responses of all routes.
type traffic struct {
	trace     func(ctx context.Context, route, traceParent string) (context.Context, func(status int)) // nil: no tracing
	requests  *metrics.Counter
	durations *metrics.Histogram
}

func newTraffic(o Options) *traffic {
	return &traffic{
		trace:     o.Trace,
		requests:  o.Metrics.Counter("lilac_http_requests_total", "HTTP responses by route and status; the route \"other\" is the page, unknown paths and methods, and refused hosts.", "route", "status"),
		durations: o.Metrics.Histogram("lilac_http_request_duration_seconds", "Duration of HTTP responses, except event streams.", metrics.ShortBuckets, "route"),
	}
}

// measure declares the metrics of prompts and event streams.
func (a *api) measure(r *metrics.Registry) {
	value := func(n *atomic.Int64) func(func(float64, ...string)) {
		return func(set func(float64, ...string)) { set(float64(n.Load())) }
	}
	r.CounterOf("lilac_prompts_accepted_total", "Prompts answered with 200, including repeated ones.", value(&a.prompts.accepted))
	r.Gauge("lilac_event_streams", "Open event streams.", value(&a.streams.open))
	r.CounterOf("lilac_stream_output_events_total", "Output events read by event streams.", value(&a.streams.deltas))
	r.CounterOf("lilac_stream_writes_total", "Writes to event streams.", value(&a.streams.writes))
	a.sources.measure(r)
}

const (
	// otherRoutes is the metric label of requests that match no route.
	otherRoutes = "other"
	// statusClientGone is counted for a client that disconnects before its response.
	statusClientGone = 499
)

// Streaming responses last as long as a client listens. Polled routes are
// requested every few seconds. Neither is worth a trace.
var (
	streaming = map[string]bool{"GET /events": true, "GET /bus/{topic}/tail": true}
	polled    = map[string]bool{"GET /healthz": true, "GET /readyz": true, "GET /metrics": true, otherRoutes: true}
)

// watch counts and traces the responses of a route.
func (t *traffic) watch(route string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		tw := &trackedWriter{ResponseWriter: w}
		end := func(int) {}
		if t.trace != nil && !streaming[route] && !polled[route] {
			ctx, endSpan := t.trace(r.Context(), route, r.Header.Get("Traceparent"))
			r, end = r.WithContext(ctx), endSpan
		}
		defer func() { // also when the handler panics
			switch {
			case tw.status != 0:
			case r.Context().Err() != nil:
				tw.status = statusClientGone
			default:
				tw.status = http.StatusOK // net/http sends it for a handler that wrote nothing
			}
			t.requests.Add(1, route, strconv.Itoa(tw.status))
			if !streaming[route] {
				t.durations.Observe(time.Since(start).Seconds(), route)
			}
			end(tw.status)
		}()
		next.ServeHTTP(tw, r)
	})
}
