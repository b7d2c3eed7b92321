package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"lilac/internal/core/environment"
	"lilac/internal/core/webhook"
	"lilac/internal/engine/bus"
	"lilac/internal/foundation/event"
)

const hookSecret = "0123456789abcdef0123"

// hooked is a world with webhooks.
type hooked struct {
	*world
	api    http.Handler
	intake *environment.Intake
}

func newHooked(t *testing.T, specs ...webhook.Spec) *hooked {
	return newHookedWith(t, Options{}, specs...)
}

func newHookedWith(t *testing.T, o Options, specs ...webhook.Spec) *hooked {
	w := &hooked{world: newWorld(t)}
	hooks := map[string]webhook.Hook{}
	for _, s := range specs {
		if s.Secret == "" {
			s.Secret = hookSecret
		}
		h, err := webhook.New(s)
		if err != nil {
			t.Fatal(err)
		}
		hooks[s.Name] = h
	}
	w.intake = environment.NewIntake(w.db, w.tables)
	o.DB, o.Bus, o.Tables, o.Token = w.db, w.bus, w.tables.ports(), token
	o.Sources = &Sources{Intake: w.intake, Webhook: func(name string) (webhook.Hook, bool) { h, ok := hooks[name]; return h, ok }}
	w.api = New(o)
	return w
}

// delivery builds a webhook request as GitHub sends it, for a host that is not in allowedHosts.
func delivery(path, id, body string) *http.Request {
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Host = "hooks.example.com"
	h, _ := webhook.New(webhook.Spec{Name: "x", Secret: hookSecret})
	for name, v := range h.Sign(webhook.Delivery{ID: id, Event: "push", Body: []byte(body)}, time.Now()) {
		r.Header[name] = v
	}
	r.Header.Set("Content-Type", "application/json")
	return r
}

func (w *hooked) send(r *http.Request) (int, string) {
	rec := httptest.NewRecorder()
	w.api.ServeHTTP(rec, r)
	return rec.Code, rec.Body.String()
}

func (w *hooked) counts(name string) environment.SourceCounts {
	all := w.intake.Counts()
	i := slices.IndexFunc(all, func(c environment.SourceCounts) bool { return c.Name == name })
	if i < 0 {
		return environment.SourceCounts{}
	}
	return all[i]
}

func TestAWebhookIsOneEvent(t *testing.T) {
	w := newHooked(t, webhook.Spec{Name: "ci"})
	code, answer := w.send(delivery("/webhooks/ci", "d1", `{"n": 1}`))
	if code != http.StatusAccepted || answer != `{"success":true,"id":"webhook:ci:d1","duplicate":false}`+"\n" {
		t.Fatalf("%d %s", code, answer)
	}
	// The same ID is the same delivery, even with a different body.
	if code, answer := w.send(delivery("/webhooks/ci", "d1", `{"n": 2}`)); code != http.StatusAccepted || !strings.Contains(answer, `"duplicate":true`) {
		t.Errorf("again: %d %s", code, answer)
	}
	all := w.environmentEvents()
	if len(all) != 1 || all[0].Type != "webhook.received" || !strings.Contains(string(all[0].Data), `"body":{"n":1}`) {
		t.Errorf("published %+v", all)
	}
	if c := w.counts("ci"); c.Accepted != 1 || c.Duplicates != 1 || c.Waiting != 1 {
		t.Errorf("counted %+v", c)
	}
}

func TestTheAddressOfAWebhookMayEndWithASlash(t *testing.T) {
	w := newHooked(t, webhook.Spec{Name: "ci"})
	for _, path := range []string{"/webhooks/ci/", "/webhooks/ci"} {
		if code, answer := w.send(delivery(path, "d1", `{"n": 1}`)); code != http.StatusAccepted || !strings.Contains(answer, "webhook:ci:d1") {
			t.Errorf("%s: %d %s", path, code, answer)
		}
	}
	if code, _ := w.send(delivery("/webhooks/ci/more", "d2", `{}`)); code == http.StatusAccepted {
		t.Error("a path below it is accepted")
	}
	if c := w.counts("ci"); c.Accepted != 1 || c.Duplicates != 1 {
		t.Errorf("counted %+v", c)
	}
}

func TestWebhookBodyCanBeRequiredToBeUnique(t *testing.T) {
	w := newHooked(t, webhook.Spec{Name: "once", BodyOnce: true}, webhook.Spec{Name: "often"})
	for _, path := range []string{"/webhooks/once", "/webhooks/often"} {
		for i := range 2 {
			if code, answer := w.send(delivery(path, fmt.Sprint("d", i), `{}`)); code != http.StatusAccepted {
				t.Fatalf("%d %s", code, answer)
			}
		}
	}
	if once, often := w.counts("once"), w.counts("often"); once.Accepted != 1 || once.Duplicates != 1 || often.Accepted != 2 {
		t.Errorf("%+v, %+v", once, often)
	}
}

// Alertmanager repeats a notification with the same body for as long as an alert holds.
func TestEachDeliveryOfASenderWithoutIDsIsAnEvent(t *testing.T) {
	w := newHooked(t, webhook.Spec{Name: "alerts", Form: webhook.Token}, webhook.Spec{Name: "once", Form: webhook.Token, BodyOnce: true})
	for _, path := range []string{"/webhooks/alerts", "/webhooks/once"} {
		for range 2 {
			r := httptest.NewRequest("POST", path, strings.NewReader(`{"status":"firing"}`))
			r.Header.Set("Authorization", "Bearer "+hookSecret)
			r.Header.Set("Content-Type", "application/json")
			if code, answer := w.send(r); code != http.StatusAccepted {
				t.Fatalf("%d %s", code, answer)
			}
		}
	}
	if alerts, once := w.counts("alerts"), w.counts("once"); alerts.Accepted != 2 || once.Accepted != 1 || once.Duplicates != 1 {
		t.Errorf("%+v, %+v", alerts, once)
	}
	for _, e := range w.environmentEvents() {
		if strings.Contains(string(e.Data), hookSecret) {
			t.Errorf("the token is in the event: %s", e.Data)
		}
	}
}

func TestWebhooksThatAreRefused(t *testing.T) {
	w := newHooked(t, webhook.Spec{Name: "ci", MaxBytes: 100})
	forged := delivery("/webhooks/ci", "d1", `{}`)
	forged.Header.Set("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64))
	withToken := delivery("/webhooks/ci", "d1", `{}`)
	withToken.Header.Del("X-Hub-Signature-256")
	withToken.Header.Set("Authorization", "Bearer "+token)
	page := delivery("/webhooks/ci", "d1", `{}`)
	page.Header.Set("Origin", "https://evil.example")
	noID := delivery("/webhooks/ci", "d1", `{}`)
	noID.Header.Del("X-GitHub-Delivery")
	chunked := delivery("/webhooks/ci", "d1", `"`+strings.Repeat("x", 100)+`"`)
	chunked.ContentLength = -1
	get := delivery("/webhooks/ci", "d1", "")
	get.Method = "GET"
	get.Host = "127.0.0.1"
	for name, c := range map[string]struct {
		r    *http.Request
		want int
	}{
		"an unknown name":              {delivery("/webhooks/nobody", "d1", `{}`), 404},
		"no name":                      {delivery("/webhooks/", "d1", `{}`), 403},
		"a path below":                 {delivery("/webhooks/ci/x", "d1", `{}`), 403},
		"forged":                       {forged, 401},
		"the operator's token":         {withToken, 401},
		"sent by a page":               {page, 403},
		"without an id":                {noID, 400},
		"too large":                    {delivery("/webhooks/ci", "d1", `"`+strings.Repeat("x", 100)+`"`), 413},
		"too large without a length":   {chunked, 413},
		"JSON that is none":            {delivery("/webhooks/ci", "d1", `{`), 400},
		"another method":               {get, 401},
		"the rest of the API, as ever": {delivery("/sessions", "d1", `{}`), 403},
		"the rest behind dots":         {delivery("/webhooks/../sessions", "d1", `{}`), 403},
	} {
		t.Run(name, func(t *testing.T) {
			if code, answer := w.send(c.r); code != c.want {
				t.Errorf("%d %s, want %d", code, answer, c.want)
			}
		})
	}
	if all := w.environmentEvents(); len(all) > 0 {
		t.Errorf("published %+v", all)
	}
	if c := w.counts("ci"); c.Refused != 5 {
		t.Errorf("counted %+v, want 5 that were refused", c)
	}
}

func TestFullSourceQueueIsReported(t *testing.T) {
	w := newHooked(t, webhook.Spec{Name: "ci", Queue: 2})
	for i := range 2 {
		w.send(delivery("/webhooks/ci", fmt.Sprint("d", i), `{}`))
	}
	rec := httptest.NewRecorder()
	w.api.ServeHTTP(rec, delivery("/webhooks/ci", "d2", `{}`))
	if rec.Code != http.StatusTooManyRequests || rec.Header().Get("Retry-After") == "" {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	// A delivery that is already queued may be repeated.
	if code, _ := w.send(delivery("/webhooks/ci", "d1", `{}`)); code != http.StatusAccepted {
		t.Errorf("a delivery that came again: %d", code)
	}
	if c := w.counts("ci"); c.Dropped != 1 || c.LastDropped == 0 || c.Waiting != 2 {
		t.Errorf("counted %+v", c)
	}
	r := httptest.NewRequest("GET", "http://127.0.0.1/metrics", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	if _, text := w.send(r); !strings.Contains(text, `lilac_source_events_total{kind="webhook",name="ci",outcome="dropped"} 1`) {
		t.Errorf("metrics lack the dropped event:\n%s", text)
	}
	r = httptest.NewRequest("GET", "http://127.0.0.1/sources", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	_, text := w.send(r)
	var list struct{ Sources []environment.SourceCounts }
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list.Sources) != 1 || list.Sources[0].Dropped != 1 {
		t.Errorf("%s, %v", text, err)
	}
	// The service that handles events frees space in the queue.
	rule := environment.Rule{Name: "r", Types: []string{"*"}, Enabled: true, Action: environment.Function(func(context.Context, bus.Delivery, event.EnvEvent) error { return nil })}
	ctx, cancel := context.WithCancel(context.Background())
	svc := environment.New(environment.Options{DB: w.db, Bus: w.bus, Inbox: w.tables, Rules: []environment.Rule{rule}, Intake: w.intake})
	done := make(chan error, 1)
	go func() { done <- svc.Run(ctx) }()
	defer func() { cancel(); <-done }()
	for end := time.Now().Add(time.Minute); w.counts("ci").Waiting > 0; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("nothing made room: %+v", w.counts("ci"))
		}
	}
	if code, _ := w.send(delivery("/webhooks/ci", "d3", `{}`)); code != http.StatusAccepted {
		t.Errorf("with room again: %d", code)
	}
}
