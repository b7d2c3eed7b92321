package webhook

import (
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
	"lilac/internal/foundation/setting"
)

// Config is an entry of the section "webhooks" of the configuration: the endpoint
// /webhooks/NAME.
type Config struct {
	Form        string         `json:"form,omitempty" jsonschema:"The signature form: github (default; header X-Hub-Signature-256), standard (Standard Webhooks: webhook-id, webhook-timestamp, webhook-signature, or the same with svix-), gitlab (X-Gitlab-Token), stripe (Stripe-Signature), slack (X-Slack-Signature), or, for any other sender, hmac (HMAC-SHA256 of the body in a header) or token (the secret itself in a header)."`
	Secret      setting.Secret `json:"secret,omitempty" jsonschema:"The secret that the sender signs with: at least 16 bytes; for standard, whsec_ and base64; for gitlab and token, the token; for stripe, the whole text with whsec_; for slack, the signing secret. Prefer ${NAME}, which reads an environment variable, to a secret in the file."`
	Header      string         `json:"header,omitempty" jsonschema:"For hmac, the header with the signature, in hexadecimal digits or base64, also after a prefix such as sha256=. For token, the header with the token. Default for token: Authorization, with Bearer TOKEN, or with Basic and the token as the password."`
	IDHeader    string         `json:"idHeader,omitempty" jsonschema:"For hmac and token: the header with the ID of a delivery, which is the same if the sender repeats it. Default: none; then each delivery is a new event."`
	EventHeader string         `json:"eventHeader,omitempty" jsonschema:"For hmac and token: the header with the name of the event. Default: the field type of a JSON body."`
	MaxBytes    setting.Size   `json:"maxBytes,omitempty" jsonschema:"Maximum size of a body, at most 4MiB. Default 1MiB."`
	Tools       grant.Config   `json:"tools,omitempty" jsonschema:"What requests that its events trigger may use, unless the rule that handles the event has an allow list of its own. Default: only reading and the answer."`
	Queue       int            `json:"queue,omitempty" jsonschema:"How many of its events may wait to be handled; further deliveries get 429 and are counted. Default 1000."`
	BodyOnce    bool           `json:"bodyOnce,omitempty" jsonschema:"Whether to drop a body that was seen before, whatever its ID. Only standard, stripe, and slack sign the ID, so with the other forms this prevents replays by anybody who could read a delivery."`
}

// Hook compiles the entry with a name. Errors name the fields below field.
func (c Config) Hook(field, name string) (Hook, error) {
	if err := c.Tools.Check(field + ".tools"); err != nil {
		return Hook{}, err
	}
	h, err := New(Spec{Name: name, Form: Form(c.Form), Secret: c.Secret.Reveal(), Header: c.Header, IDHeader: c.IDHeader, EventHeader: c.EventHeader, MaxBytes: int64(c.MaxBytes), Queue: c.Queue, BodyOnce: c.BodyOnce})
	if err == nil {
		return h, nil
	}
	return h, fault.InField(field+"."+fault.ToWire(err).Field, err)
}
