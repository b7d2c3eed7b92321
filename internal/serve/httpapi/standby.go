package httpapi

import (
	"context"
	"net/http"

	"lilac/internal/foundation/fault"
	"lilac/internal/telemetry/health"
	"lilac/internal/telemetry/metrics"
)

// StandbyOptions configure [Standby]. Version and Reason are required.
type StandbyOptions struct {
	Version string
	// Reason returns the sentence that says what the process waits for.
	Reason func() string
	// Forward passes requests on to the active node, and Ready returns an error unless that node is
	// ready. If they are nil, requests are refused.
	Forward http.Handler
	Ready   func(ctx context.Context) error
	// Metrics are those of this process, for a caller with one of the tokens; nil means none.
	Metrics             *metrics.Registry
	Token, MetricsToken string
}

// Standby returns the handler of a process that waits until it may work: /healthz says that the
// process is alive, and /readyz has the status "standby". Every other route is passed on to the
// active node, or answers 503.
func Standby(opt StandbyOptions) http.Handler {
	o := &operations{version: opt.Version}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		alive, _ := o.healthz(r) // it cannot fail
		_ = writeJSON(w, http.StatusOK, alive)
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		message := opt.Reason()
		part := health.Part{Name: "standby", Status: health.Failed, Needed: true, Message: message}
		if opt.Forward == nil {
			notReady(w, part, message)
			return
		}
		if err := opt.Ready(r.Context()); err != nil {
			part.Message += " " + fault.ToWire(err).Message
			notReady(w, part, part.Message)
			return
		}
		part.Status, part.Message = health.OK, message+" Until then, this one passes requests on to it."
		_ = writeJSON(w, http.StatusOK, readiness{Status: "standby", Parts: []health.Part{part}})
	})
	if opt.Metrics != nil {
		o.registry = opt.Metrics
		refuse := func(w http.ResponseWriter, _ *http.Request, err error) {
			_ = writeJSON(w, fault.KindOf(err).HTTPStatus(), errorBody{fault.ToWire(err)})
		}
		mux.Handle("GET /metrics", newGuard(Options{Token: opt.Token, MetricsToken: opt.MetricsToken}).authenticate(&route{class: needsMetricsToken}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = o.metrics(w, r) // fails only if the client is gone
		}), refuse))
	}
	if opt.Forward != nil {
		mux.Handle("/", opt.Forward)
		return mux
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		_ = writeJSON(w, fault.Unavailable.HTTPStatus(), errorBody{onStandby(w, opt.Reason())}) // fails only if the client is gone
	})
	return mux
}

func notReady(w http.ResponseWriter, part health.Part, message string) {
	wire := onStandby(w, message)
	_ = writeJSON(w, fault.Unavailable.HTTPStatus(), readiness{Status: "standby", Parts: []health.Part{part}, Error: &wire})
}

func onStandby(w http.ResponseWriter, message string) fault.Wire {
	w.Header().Set("Retry-After", "1")
	return fault.Wire{Kind: fault.Unavailable, Code: "standby", Message: "This process is on standby. " + message, Retryable: true}
}
