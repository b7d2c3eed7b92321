package webhook

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

// maxHeader bounds the kept value of a header, in bytes.
const maxHeader = 200

// keptHeaders are the headers that an event keeps. None of them is a credential.
var keptHeaders = []string{"Content-Type", "User-Agent", "X-Github-Hook-Id", "X-Github-Hook-Installation-Target-Id", "X-Github-Hook-Installation-Target-Type", "X-Gitlab-Instance"}

// Payload is the payload of a webhook.received.
type Payload struct {
	// Name is the name of the webhook. Event is the sender's name for the event.
	Name       string `json:"name"`
	Event      string `json:"event,omitempty"`
	DeliveryID string `json:"deliveryId"`
	// Body is the body as JSON, or as a JSON string.
	Body json.RawMessage `json:"body"`
	// Headers have lower-case names.
	Headers map[string]string `json:"headers,omitempty"`
}

// EnvEvent returns the environment event of a delivery. Its id contains the id of the
// delivery, so a repeated delivery is the same event. It has no session; the rules
// choose one.
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

// BodyID identifies a body, for a hook that accepts each body once.
func (h Hook) BodyID(d Delivery) string {
	sum := sha256.Sum256(d.Body)
	return h.Name + ":" + hex.EncodeToString(sum[:])
}

// decodeBody returns a body as JSON, without a byte order mark. A body with a JSON content type must be JSON. A form
// with a field payload has JSON in that field, as GitHub sends it. Without a content
// type, an object or a list is JSON. Everything else becomes a string.
func decodeBody(contentType string, body []byte) (json.RawMessage, error) {
	body = decodeText(body)
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
		return nil, fault.New(fault.Invalid, "The body is neither JSON nor UTF-8 text.")
	}
	return json.Marshal(string(body))
}

func compactJSON(body []byte) (json.RawMessage, error) {
	var out bytes.Buffer
	if err := json.Compact(&out, body); err != nil || !utf8.Valid(body) {
		return nil, fault.New(fault.Invalid, "The content type of the body is JSON, but the body is not valid JSON.")
	}
	return out.Bytes(), nil
}

// decodeText returns a body as UTF-8 without a byte order mark. A mark of UTF-16 says that
// the body has that encoding.
func decodeText(body []byte) []byte {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(body, []byte("\xef\xbb\xbf")):
		return body[3:]
	case bytes.HasPrefix(body, []byte("\xff\xfe")):
		order = binary.LittleEndian
	case bytes.HasPrefix(body, []byte("\xfe\xff")):
		order = binary.BigEndian
	}
	if order == nil || len(body)%2 != 0 {
		return body
	}
	units := make([]uint16, 0, len(body)/2-1)
	for i := 2; i < len(body); i += 2 {
		units = append(units, order.Uint16(body[i:]))
	}
	return []byte(string(utf16.Decode(units)))
}

// printable returns a header value that is safe in a log: short, on one line, and without
// control characters.
func printable(s string) string {
	return text.Truncate(strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s), maxHeader)
}
