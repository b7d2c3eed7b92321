package httpapi

import (
	_ "embed" // for openapi.json
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/telemetry/health"
	"lilac/internal/telemetry/metrics"
)

//go:embed openapi.json
var openAPIDocument []byte

// stats are the numbers that the handler counts itself.
type stats struct {
	prompts, deltas, writes, streams atomic.Int64
}

// counts are what is counted of every route.
type counts struct {
	requests  *metrics.Counter
	durations *metrics.Histogram
}

// declare adds the metrics of the handler to a registry.
func (a *api) declare(r *metrics.Registry) counts {
	of := func(n *atomic.Int64) func(func(float64, ...string)) {
		return func(set func(float64, ...string)) { set(float64(n.Load())) }
	}
	r.CounterOf("lilac_prompts_accepted_total", "Prompts answered with 200, including repeated ones.", of(&a.stats.prompts))
	r.Gauge("lilac_event_streams", "Open event streams.", of(&a.stats.streams))
	r.CounterOf("lilac_stream_output_events_total", "Output events read by event streams.", of(&a.stats.deltas))
	r.CounterOf("lilac_stream_writes_total", "Writes to event streams.", of(&a.stats.writes))
	return counts{
		requests:  r.Counter("lilac_http_requests_total", "Responses by route and status. The route other includes the page, unknown addresses and methods, and refused hosts.", "route", "status"),
		durations: r.Histogram("lilac_http_request_duration_seconds", "Duration of a request, except event streams.", metrics.ShortBuckets, "route"),
	}
}

// streaming are the routes whose answers last as long as somebody listens, and
// asked those that tools ask every few seconds, or that do nothing: neither is
// worth a trace.
var (
	streaming = map[string]bool{"GET /events": true, "GET /bus/{topic}/tail": true}
	asked     = map[string]bool{"GET /healthz": true, "GET /readyz": true, "GET /metrics": true, otherRoutes: true}
)

// otherRoutes is the route of what no route of the API answers.
const otherRoutes = "other"

// statusClientGone is counted for a client that left before its answer.
const statusClientGone = 499

// watch counts and traces what a route answers.
func (a *api) watch(route string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		tw := &trackedWriter{ResponseWriter: w}
		ended := func(int) {}
		if a.Trace != nil && !streaming[route] && !asked[route] {
			ctx, end := a.Trace(r.Context(), route, r.Header.Get("Traceparent"))
			r, ended = r.WithContext(ctx), end
		}
		defer func() { // also when the handler panics
			switch {
			case tw.status != 0:
			case r.Context().Err() != nil:
				tw.status = statusClientGone
			default:
				tw.status = http.StatusOK // what the server sends for a handler that wrote nothing
			}
			a.counts.requests.Add(1, route, strconv.Itoa(tw.status))
			if !streaming[route] {
				a.counts.durations.Observe(time.Since(start).Seconds(), route)
			}
			ended(tw.status)
		}()
		next.ServeHTTP(tw, r)
	})
}

// healthz says that the process answers, and nothing else: whoever restarts a
// program by it must not do so because a disk is full.
func (a *api) healthz(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, struct {
		Status  string `json:"status"`
		Version string `json:"version,omitempty"`
	}{"ok", a.Version})
}

// readyz says whether the program does its work, part by part.
func (a *api) readyz(w http.ResponseWriter, _ *http.Request) error {
	answer := struct {
		Status string        `json:"status"`
		Parts  []health.Part `json:"parts"`
		Error  *fault.Wire   `json:"error,omitempty"`
	}{Status: "ready", Parts: []health.Part{}}
	if a.Health == nil {
		return writeJSON(w, http.StatusOK, answer)
	}
	report := a.Health()
	answer.Parts = append(answer.Parts, report.Parts...)
	if report.Ready {
		return writeJSON(w, http.StatusOK, answer)
	}
	answer.Status = "not_ready"
	answer.Error = &fault.Wire{Kind: fault.Unavailable, Code: "not_ready", Message: "Not ready: " + report.Reason() + ".", Retryable: true}
	return writeJSON(w, fault.Unavailable.HTTPStatus(), answer)
}

// metrics writes every metric of the program for Prometheus.
func (a *api) metrics(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", metrics.ContentType)
	return a.Metrics.Write(w)
}

func (a *api) openAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, err := w.Write(openAPIDocument)
	return err
}
