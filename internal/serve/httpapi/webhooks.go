package httpapi

import (
	"fmt"
	"net/http"
	"time"

	"lilac/internal/core/environment"
	"lilac/internal/core/webhook"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

const (
	// webhookBodyLimit is how long a body may take: it is read before anybody
	// knows who sends it.
	webhookBodyLimit = 5 * time.Second
	// webhooksAtOnce bounds the bodies that are read and kept side by side.
	webhooksAtOnce = 64
	// webhookBodies is the source of bodies in the inbox.
	webhookBodies = "webhook-body"
)

// Sources are what environment events come from.
type Sources struct {
	Intake *environment.Intake
	// Webhook finds one by its name.
	Webhook func(name string) (webhook.Hook, bool)
}

var errManyWebhooks = &fault.Error{
	Kind: fault.RateLimited, Code: "too_many", RetryAfter: time.Second,
	Message: "Too many webhooks are being read. Send it again later.",
}

// receiveWebhook takes what a stranger sends who can sign. It is durable before
// the answer, and once for its id.
func (a *api) receiveWebhook(w http.ResponseWriter, r *http.Request) error {
	if a.Sources == nil || a.Store == nil {
		return errNoWebhook
	}
	hook, ok := a.Sources.Webhook(r.PathValue("name"))
	if !ok {
		return errNoWebhook
	}
	from := environment.SourceOf{Kind: environment.SourceWebhook, Name: hook.Name}
	select {
	case a.webhooks <- struct{}{}:
		defer func() { <-a.webhooks }()
	default:
		a.Sources.Intake.Drop(from, 1)
		return errManyWebhooks
	}
	if r.ContentLength > hook.MaxBytes {
		return fault.New(fault.TooLarge, "The body is larger than %d bytes.", hook.MaxBytes)
	}
	// A recorder in a test has no deadline, a connection has.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(webhookBodyLimit))
	body, err := readBody(w, r, hook.MaxBytes)
	if err != nil {
		return err
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	d, err := hook.Verify(r.Header, body, a.Now())
	if err != nil {
		a.Sources.Intake.Refuse(from)
		return err
	}
	e, err := hook.EnvEvent(d, r.Header)
	if err != nil {
		return err
	}
	var once func(*db.Tx) (bool, error)
	if hook.BodyOnce {
		once = func(tx *db.Tx) (bool, error) {
			_, seen, err := a.Store.Seen(tx, webhookBodies, hook.BodyID(d), nil)
			return !seen, err
		}
	}
	e.Timestamp = a.Now().UnixMilli()
	fresh, err := a.Sources.Intake.Publish(r.Context(), from, hook.Queue, e, once)
	if err != nil {
		return fmt.Errorf("publish webhook: %w", err)
	}
	return writeJSON(w, http.StatusAccepted, published{Success: true, ID: e.ID, Duplicate: !fresh})
}

var errNoWebhook = fault.New(fault.NotFound, "There is no such webhook.")

// listSources tells what came from each source.
func (a *api) listSources(w http.ResponseWriter, _ *http.Request) error {
	out := []environment.SourceCounts{}
	if a.Sources != nil {
		out = append(out, a.Sources.Intake.Counts()...)
	}
	return writeJSON(w, http.StatusOK, map[string]any{"sources": out})
}

// describeSources declares what is counted of the sources.
func (a *api) describeSources() {
	if a.Sources == nil {
		return
	}
	a.Metrics.CounterOf("lilac_source_events_total", "Events of webhooks, files, and timers since the start, by outcome.", func(set func(float64, ...string)) {
		for _, c := range a.Sources.Intake.Counts() {
			// Beyond as many as a metric keeps the order says which are kept.
			set(float64(c.Accepted), c.Kind, c.Name, "accepted")
			set(float64(c.Duplicates), c.Kind, c.Name, "duplicate")
			set(float64(c.Dropped), c.Kind, c.Name, "dropped")
			set(float64(c.Refused), c.Kind, c.Name, "refused")
		}
	}, "kind", "name", "outcome")
	a.Metrics.Gauge("lilac_source_waiting", "Events of a source that no rule has handled yet.", func(set func(float64, ...string)) {
		for _, c := range a.Sources.Intake.Counts() {
			set(float64(c.Waiting), c.Kind, c.Name)
		}
	}, "kind", "name")
}
