package webhook

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

// maxHeader bounds what is kept of a header, in bytes.
const maxHeader = 200

// keptHeaders are the headers that an event keeps: they say what was sent, and none
// of them lets anybody in.
var keptHeaders = []string{"Content-Type", "User-Agent", "X-Github-Hook-Id", "X-Github-Hook-Installation-Target-Id", "X-Github-Hook-Installation-Target-Type"}

// Payload is the payload of a webhook.received.
type Payload struct {
	// Name is the webhook's, Event the sender's name for what happened.
	Name       string `json:"name"`
	Event      string `json:"event,omitempty"`
	DeliveryID string `json:"deliveryId"`
	// Body is the JSON that was sent, or its text.
	Body json.RawMessage `json:"body"`
	// Headers have lower-case names.
	Headers map[string]string `json:"headers,omitempty"`
}

// EnvEvent is the event that a delivery becomes. Its id is made of the
// delivery's, so that a delivery which comes again is the same event. It has no
// session: that is for the rules to say.
func (h Hook) EnvEvent(d Delivery, header http.Header) (event.EnvEvent, error) {
	body, err := decodeBody(singleValue(header, "Content-Type"), d.Body)
	if err != nil {
		return event.EnvEvent{}, err
	}
	p := Payload{Name: h.Name, Event: d.Event, DeliveryID: d.ID, Body: body}
	for _, name := range keptHeaders {
		if v := printable(singleValue(header, name)); v != "" {
			if p.Headers == nil {
				p.Headers = map[string]string{}
			}
			p.Headers[strings.ToLower(name)] = v
		}
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return event.EnvEvent{}, fmt.Errorf("encode webhook: %w", err)
	}
	return event.EnvEvent{
		ID: "webhook:" + h.Name + ":" + d.ID, Type: event.WebhookReceived, Payload: raw,
		Metadata: event.EnvMetadata{EnvName: h.Name, Source: "env"},
	}, nil
}

// BodyID names a body, for a hook that takes each only once.
func (h Hook) BodyID(d Delivery) string {
	sum := sha256.Sum256(d.Body)
	return h.Name + ":" + hex.EncodeToString(sum[:])
}

// decodeBody makes JSON of a body: what is said to be JSON must be, a form with
// a field payload holds JSON there, as GitHub sends it, an object or a list of
// which nothing is said is what it looks like, and everything else is text.
func decodeBody(contentType string, body []byte) (json.RawMessage, error) {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		media = ""
	}
	switch {
	case media == "application/json" || strings.HasSuffix(media, "+json"):
		return compactJSON(body)
	case media == "application/x-www-form-urlencoded":
		if form, err := url.ParseQuery(string(body)); err == nil && form.Has("payload") {
			return compactJSON([]byte(form.Get("payload")))
		}
	case contentType == "":
		if out, err := compactJSON(body); err == nil && (out[0] == '{' || out[0] == '[') {
			return out, nil
		}
	}
	if !utf8.Valid(body) {
		return nil, fault.New(fault.Invalid, "The body is neither JSON nor text in UTF-8.")
	}
	return json.Marshal(string(body))
}

func compactJSON(body []byte) (json.RawMessage, error) {
	var out bytes.Buffer
	if err := json.Compact(&out, body); err != nil || !utf8.Valid(body) {
		return nil, fault.New(fault.Invalid, "The body is said to be JSON and is not.")
	}
	return out.Bytes(), nil
}

// bodyType is the type that a Standard webhook has in its body, or "".
func bodyType(body []byte) string {
	var v struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(body, &v) != nil {
		return ""
	}
	return printable(v.Type)
}

// printable is a value of a header that can stand in a log: short, on one line, and
// without what a terminal obeys.
func printable(s string) string {
	return text.Truncate(strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s), maxHeader)
}
