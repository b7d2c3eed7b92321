package httpapi

import (
	"context"
	"net/http"
	"runtime"
	"sync"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/telemetry/health"
	"lilac/internal/telemetry/metrics"
)

// operations serves health checks, metrics, status and settings.
type operations struct {
	health   func() health.Report // nil: always ready
	registry *metrics.Registry
	settings func() []Setting // nil: none
	version  string
	started  time.Time
	now      func() time.Time
	streams  *streams
	document func() ([]byte, error)
	addr     string
	nodes    func(ctx context.Context) ([]db.Node, error) // nil: only this one
}

type liveness struct {
	Status  string `json:"status"`
	Version string `json:"version,omitempty"`
}

// healthz reports that the process answers, and checks nothing else: a supervisor
// that restarts Lilac because of it must not do so when a disk is full.
func (o *operations) healthz(*http.Request) (liveness, error) {
	return liveness{"ok", o.version}, nil
}

type readiness struct {
	Status string        `json:"status"`
	Parts  []health.Part `json:"parts"`
	Error  *fault.Wire   `json:"error,omitempty"`
}

// readyz reports whether Lilac is ready to serve traffic, part by part.
func (o *operations) readyz(w http.ResponseWriter, _ *http.Request) error {
	answer := readiness{Status: "ready", Parts: []health.Part{}}
	if o.health == nil {
		return writeJSON(w, http.StatusOK, answer)
	}
	report := o.health()
	answer.Parts = append(answer.Parts, report.Parts...)
	if report.Ready {
		return writeJSON(w, http.StatusOK, answer)
	}
	answer.Status = "not_ready"
	answer.Error = &fault.Wire{Kind: fault.Unavailable, Code: "not_ready", Message: "Not ready: " + report.Reason() + ".", Retryable: true}
	return writeJSON(w, fault.Unavailable.HTTPStatus(), answer)
}

// metrics writes all metrics in the Prometheus text format.
func (o *operations) metrics(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", metrics.ContentType)
	return o.registry.Write(w)
}

// Setting is an effective setting.
type Setting struct {
	// Key is its path in the configuration file, such as "limits.request.steps".
	Key string `json:"key"`
	// Value is "(set)" or similar for a secret.
	Value string `json:"value"`
	// Source is where the value comes from: default, file or environment.
	Source string `json:"source"`
	Doc    string `json:"doc,omitempty"`
	// Kind is text, number, boolean, or list if the setting can be edited as one value. Choices
	// are the allowed values; Live means that a change needs no restart.
	Kind    string   `json:"kind,omitempty"`
	Choices []string `json:"choices,omitempty"`
	Live    bool     `json:"live,omitempty"`
}

type settingList struct {
	Settings []Setting `json:"settings"`
}

func (o *operations) listSettings(*http.Request) (settingList, error) {
	out := settingList{[]Setting{}}
	if o.settings != nil {
		out.Settings = append(out.Settings, o.settings()...)
	}
	return out, nil
}

type status struct {
	Version   string `json:"version"`
	Go        string `json:"go"`
	Platform  string `json:"platform"`
	StartedAt int64  `json:"startedAt"`
	UptimeMS  int64  `json:"uptimeMs"`
	Streams   int64  `json:"eventStreams"`
}

// status describes the running program; /readyz reports its problems.
func (o *operations) status(*http.Request) (status, error) {
	return status{
		o.version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH,
		o.started.UnixMilli(), o.now().Sub(o.started).Milliseconds(), o.streams.open.Load(),
	}, nil
}

func (o *operations) openAPI(w http.ResponseWriter, _ *http.Request) error {
	raw, err := o.document()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, err = w.Write(raw)
	return err
}

// lazyDocument generates /openapi.json on the first request for it, so that a
// start does not pay for it.
func lazyDocument(routes func() []route) func() ([]byte, error) {
	return sync.OnceValues(func() ([]byte, error) { return describe(routes()) })
}
