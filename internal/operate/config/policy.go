package config

import "lilac/internal/foundation/policy"

// PolicyRules returns the rules of the policy, with names resolved.
func (c *Config) PolicyRules() ([]policy.Rule, error) {
	return policy.Compile("policy", c.Policy, policy.Names{
		Users: c.Entity.Users.Discord, Roles: c.Entity.Roles.Discord, Places: c.Entity.Sessions.Discord,
	})
}

// checkPolicy validates the policy.
func (c checker) checkPolicy() error {
	_, err := c.PolicyRules()
	return err
}
