package httpapi

import (
	"net/http"

	"lilac/internal/foundation/fault"
	"lilac/internal/telemetry/health"
)

// Standby returns the handler of a process that waits until it may work: /healthz says that
// the process is alive, /readyz answers 503 with the status "standby", and every other route
// answers 503. The function reason returns the sentence that says what the process waits for.
func Standby(version string, reason func() string) http.Handler {
	o := &operations{version: version}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		alive, _ := o.healthz(r) // it cannot fail
		_ = writeJSON(w, http.StatusOK, alive)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		message := reason()
		wire := fault.Wire{Kind: fault.Unavailable, Code: "standby", Message: "This process is on standby. " + message, Retryable: true}
		w.Header().Set("Retry-After", "1")
		status := fault.Unavailable.HTTPStatus()
		if r.URL.Path == "/readyz" {
			part := health.Part{Name: "standby", Status: health.Failed, Needed: true, Message: message}
			_ = writeJSON(w, status, readiness{Status: "standby", Parts: []health.Part{part}, Error: &wire})
			return
		}
		_ = writeJSON(w, status, errorBody{wire}) // fails only if the client is gone
	})
	return mux
}
