package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"lilac/internal/core/webhook"
	"lilac/internal/foundation/fault"
)

// Webhook is a webhook that is received at /webhooks/NAME.
type Webhook struct {
	Form     string `json:"form,omitempty" jsonschema:"How the sender signs: github (the default; the header X-Hub-Signature-256) or standard (Standard Webhooks: webhook-id, webhook-timestamp, webhook-signature)."`
	Secret   Secret `json:"secret,omitempty" jsonschema:"What the sender signs with, at least 16 bytes; for standard whsec_ and base64. Better as ${NAME}, which is taken from the environment, than in the file."`
	MaxBytes Size   `json:"maxBytes,omitempty" jsonschema:"How large a body may be, at most 4MiB. Without it 1MiB."`
	Queue    int    `json:"queue,omitempty" jsonschema:"How many of its events may wait to be handled; what comes beyond that is answered with 429 and counted. Without it 1000."`
	BodyOnce bool   `json:"bodyOnce,omitempty" jsonschema:"Whether a body that came before is dropped whatever its id. GitHub's form does not sign the id, so this also stops who could read a delivery from sending it again under another."`
}

// Hooks are the webhooks by name, ready.
func (c *Config) Hooks() (map[string]webhook.Hook, error) {
	out := map[string]webhook.Hook{}
	var found []error
	for _, name := range slices.Sorted(maps.Keys(c.Webhooks)) {
		w := c.Webhooks[name]
		field := "webhooks." + name
		if !nameForm().MatchString(name) {
			found = append(found, badName(field, name))
		}
		h, err := webhook.New(webhook.Spec{
			Name: name, Form: webhook.Form(w.Form), Secret: w.Secret.Reveal(), MaxBytes: int64(w.MaxBytes), Queue: w.Queue, BodyOnce: w.BodyOnce,
		})
		if err != nil {
			wire := fault.ToWire(err)
			found = append(found, fault.InvalidField(fmt.Sprintf("%s.%s", field, wire.Field), "%s", wire.Message))
		}
		out[name] = h
	}
	if err := errors.Join(found...); err != nil {
		return nil, err
	}
	return out, nil
}

func badName(field, name string) error {
	return fault.InvalidField(field, "%q is not a name: use 1 to 64 letters, digits, _ and -.", name)
}

func (c *Config) checkWebhooks() error {
	_, err := c.Hooks()
	return err
}
