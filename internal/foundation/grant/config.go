package grant

import (
	"errors"
	"fmt"
)

// Config is a setting that restricts the tools and callables of requests.
type Config struct {
	Allow []string `json:"allow,omitempty" jsonschema:"The only tools and callables that may be used: names (bash, surface.messages.send; a name includes the names below it, so workflow includes workflow.schedule), prefixes (surface.messages.*), or *. Default: all."`
	Deny  []string `json:"deny,omitempty" jsonschema:"Tools and callables that must not be used, even if allow lists them."`
}

// Tools returns the restriction; from names the setting in messages.
func (c Config) Tools(from string) Tools { return Tools{From: from, Allow: c.Allow, Deny: c.Deny} }

// Check returns the mistakes in the patterns; field is the key of the setting.
func (c Config) Check(field string) error {
	var found []error
	for key, patterns := range map[string][]string{"allow": c.Allow, "deny": c.Deny} {
		for i, p := range patterns {
			found = append(found, CheckPattern(fmt.Sprintf("%s.%s[%d]", field, key, i), p))
		}
	}
	return errors.Join(found...)
}
