package config

import (
	"errors"
	"fmt"

	"lilac/internal/foundation/fault"
)

// Router configures which messages of a platform wake the agent.
type Router struct {
	Debounce Debounce `json:"debounce,omitempty" jsonschema:"How long to wait for more messages in an active channel before answering."`
	Gate     string   `json:"gate,omitempty" jsonschema:"A small model, as provider/model, that decides whether messages in an active channel need an answer. Without it, all of them are answered."`
}

// Debounce configures how long to wait for the end of a burst of messages.
type Debounce struct {
	Wait Duration `json:"wait,omitempty" jsonschema:"Time after the last message."`
	Max  Duration `json:"max,omitempty" jsonschema:"Maximum time after the first message."`
}

func (c *Config) checkRouter() error {
	var found []error
	d := c.Router.Debounce
	if d.Wait < 0 || d.Max < d.Wait {
		found = append(found, fault.InvalidField("router.debounce", "router.debounce waits %s and at most %s; the second has to be the longer one.", d.Wait, d.Max))
	}
	if !c.unreadable(modelKeys...) {
		_, _, err := c.ResolveGate()
		found = append(found, err)
	}
	return errors.Join(found...)
}

// ResolveGate returns the model of router.gate. It returns false if none is configured.
func (c *Config) ResolveGate() (ModelChoice, bool, error) {
	if c.Router.Gate == "" {
		return ModelChoice{}, false, nil
	}
	choice, err := c.lookupModel(c.Router.Gate, fmt.Sprintf("set by %s", c.Origin("router.gate")))
	if err != nil {
		return choice, false, fault.InvalidField("router.gate", "%s", fault.ToWire(err).Message)
	}
	return choice, true, nil
}
