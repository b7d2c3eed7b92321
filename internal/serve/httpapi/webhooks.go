package httpapi

import (
	"fmt"
	"net/http"
	"time"

	"lilac/internal/core/environment"
	"lilac/internal/core/webhook"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/telemetry/metrics"
)

const (
	// webhookBodyLimit is the time that a sender has to send a body, which is read
	// before its signature can be checked.
	webhookBodyLimit = 5 * time.Second
	// refusalLimit is the time after which the connection of a refused sender closes, even
	// if the sender has not sent its body.
	refusalLimit = 250 * time.Millisecond
	// webhookBodies is the inbox source of bodies that must be unique.
	webhookBodies = "webhook-body"
)

// Sources are the origins of environment events: webhooks, files, timers, and programs.
type Sources struct {
	Intake *environment.Intake
	// Webhook finds a webhook by its name.
	Webhook func(name string) (webhook.Hook, bool)
}

// sources receives webhooks and serves the counts of all sources.
type sources struct {
	sources *Sources // nil on a server without sources
	inbox   environment.Inbox
	now     func() time.Time
	reading *bodyReaders
}

var errNoWebhook = fault.New(fault.NotFound, "There is no such webhook.")

// receive publishes a signed webhook as an event, once for each delivery id; a delivery of a
// sender without ids is new. The event is durable before the response.
func (s *sources) receive(w http.ResponseWriter, r *http.Request) error {
	if s.sources == nil || s.inbox == nil {
		return errNoWebhook
	}
	hook, ok := s.sources.Webhook(r.PathValue("name"))
	if !ok {
		return errNoWebhook
	}
	from := environment.SourceID{Kind: environment.SourceWebhook, Name: hook.Name}
	err := hook.CheckHeaders(r.Header, s.now())
	if err == nil && r.ContentLength > hook.MaxBytes {
		err = fault.New(fault.TooLarge, "The body is larger than %d bytes.", hook.MaxBytes)
	}
	var body []byte
	if err == nil {
		body, err = s.reading.read(w, r, hook.MaxBytes)
	}
	if err != nil {
		s.sources.Intake.Refuse(from)
		return refuseUnread(w, err)
	}
	d, err := hook.Verify(r.Header, body, s.now())
	if err != nil {
		s.sources.Intake.Refuse(from)
		return err
	}
	if text, ok := hook.Challenge(d); ok {
		return writeJSON(w, http.StatusOK, challenge{text})
	}
	if d.ID == "" {
		d.ID = newID()
	}
	e, err := hook.EnvEvent(d, r.Header)
	if err != nil {
		return err
	}
	var once func(*db.Tx) (bool, error)
	if hook.BodyOnce {
		once = func(tx *db.Tx) (bool, error) {
			_, seen, err := s.inbox.Seen(tx, webhookBodies, hook.BodyID(d), nil)
			return !seen, err
		}
	}
	e.Timestamp = s.now().UnixMilli()
	fresh, err := s.sources.Intake.Publish(r.Context(), from, hook.Queue, e, once)
	if err != nil {
		return fmt.Errorf("publish webhook: %w", err)
	}
	return writeJSON(w, http.StatusAccepted, published{Success: true, ID: e.ID, Duplicate: !fresh})
}

// challenge answers Slack's check of an address.
type challenge struct {
	Challenge string `json:"challenge"`
}

// refuseUnread closes the connection of a sender after the error. Otherwise, the server
// would read the rest of the body first.
func refuseUnread(w http.ResponseWriter, err error) error {
	w.Header().Set("Connection", "close")
	// A connection supports deadlines; the recorder of a test does not.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(refusalLimit))
	return err
}

type sourceList struct {
	Sources []environment.SourceCounts `json:"sources"`
}

func (s *sources) list(*http.Request) (sourceList, error) {
	out := sourceList{Sources: []environment.SourceCounts{}}
	if s.sources != nil {
		out.Sources = append(out.Sources, s.sources.Intake.Counts()...)
	}
	return out, nil
}

// measure declares the metrics of the sources.
func (s *sources) measure(r *metrics.Registry) {
	if s.sources == nil {
		return
	}
	r.CounterOf("lilac_source_events_total", "Events of webhooks, files, timers, and programs since the start, by outcome.", func(set func(float64, ...string)) {
		for _, c := range s.sources.Intake.Counts() {
			// A metric keeps a limited number of series; the first ones win.
			set(float64(c.Accepted), c.Kind, c.Name, "accepted")
			set(float64(c.Duplicates), c.Kind, c.Name, "duplicate")
			set(float64(c.Dropped), c.Kind, c.Name, "dropped")
			set(float64(c.Refused), c.Kind, c.Name, "refused")
		}
	}, "kind", "name", "outcome")
	r.Gauge("lilac_source_waiting", "Events of a source that no rule has handled yet.", func(set func(float64, ...string)) {
		for _, c := range s.sources.Intake.Counts() {
			set(float64(c.Waiting), c.Kind, c.Name)
		}
	}, "kind", "name")
}
