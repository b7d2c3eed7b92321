package config

import (
	"fmt"

	"lilac/internal/foundation/fault"
)

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
