package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"lilac/internal/core/webhook"
	"lilac/internal/foundation/fault"
)

// A Webhook configures the endpoint /webhooks/NAME.
type Webhook struct {
	Form     string    `json:"form,omitempty" jsonschema:"The signature form: github (default; header X-Hub-Signature-256) or standard (Standard Webhooks: webhook-id, webhook-timestamp, webhook-signature)."`
	Secret   Secret    `json:"secret,omitempty" jsonschema:"The secret that the sender signs with: at least 16 bytes; for standard, whsec_ and base64. Prefer ${NAME}, which reads an environment variable, to a secret in the file."`
	MaxBytes Size      `json:"maxBytes,omitempty" jsonschema:"Maximum size of a body, at most 4MiB. Default 1MiB."`
	Tools    ToolNames `json:"tools,omitempty" jsonschema:"What requests that its events trigger may use, unless the rule that handles the event has an allow list of its own. Default: only reading and the answer."`
	Queue    int       `json:"queue,omitempty" jsonschema:"How many of its events may wait to be handled; further deliveries get 429 and are counted. Default 1000."`
	BodyOnce bool      `json:"bodyOnce,omitempty" jsonschema:"Whether to drop a body that was seen before, whatever its ID. GitHub's form does not sign the ID, so this prevents replays by anybody who could read a delivery."`
}

// Hooks compiles the webhooks by name.
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
	found := []error{err}
	for name, w := range c.Webhooks {
		found = append(found, w.Tools.check("webhooks."+name+".tools"))
	}
	return errors.Join(found...)
}
