package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"lilac/internal/core/environment"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// BuiltinRules applies the configuration to the built-in rules: it turns those off that an
// entry of the same name turns off.
func (c *Config) BuiltinRules(builtin []environment.Rule) []environment.Rule {
	out := slices.Clone(builtin)
	for i, r := range out {
		if own, ok := c.Rules[r.Name]; ok && own.Enabled != nil {
			out[i].Enabled = *own.Enabled
		}
	}
	return out
}

// EnvironmentRules compiles the rules, sorted by name, without the entries of built-in
// rules.
func (c *Config) EnvironmentRules() ([]environment.Rule, error) {
	var out []environment.Rule
	var found []error
	builtin := builtinRules()
	for _, name := range slices.Sorted(maps.Keys(c.Rules)) {
		if slices.Contains(builtin, name) {
			continue
		}
		r, err := environment.Compile(c.Rules[name].Spec(name))
		for _, err := range parts(err) {
			wire := fault.ToWire(err)
			found = append(found, fault.InvalidField(fmt.Sprintf("rules.%s.%s", name, wire.Field), "%s", wire.Message))
		}
		out = append(out, r)
	}
	if err := errors.Join(found...); err != nil {
		return nil, err
	}
	return out, nil
}

// builtinRules returns the names of the built-in rules.
func builtinRules() (names []string) {
	for _, r := range environment.DefaultRules(environment.DefaultsOptions{}) {
		names = append(names, r.Name)
	}
	return names
}

func (c checker) checkRules() error {
	var found []error
	builtin := builtinRules()
	for _, name := range slices.Sorted(maps.Keys(c.Rules)) {
		switch isBuiltin := slices.Contains(builtin, name); {
		case isBuiltin:
			found = append(found, checkBuiltin(name, c.Rules[name]))
			continue
		case !nameForm().MatchString(name):
			found = append(found, fault.InvalidField("rules."+name, "%q is not a name for a rule: use letters, digits, _ and -.", name))
		}
		if c.Rules[name].Budget.Money == 0 || c.unreadable(modelKeys...) {
			continue
		}
		for _, m := range allModels(c.Config) {
			if m.Price != nil {
				continue
			}
			found = append(found, fault.InvalidField("rules."+name+".budget.money", "The rule %s has a limit on money, but the price of %s is unknown, so it could not be kept. Set it under models: %q: price:.", name, m, m.String()))
		}
	}
	_, err := c.EnvironmentRules()
	return errors.Join(append(found, err)...)
}

// checkBuiltin checks the entry of a built-in rule.
func checkBuiltin(name string, r environment.RuleConfig) error {
	carriesMessages := name == string(event.UserQuery) || name == string(event.UserStop)
	switch {
	case r.Enabled == nil || !reflect.DeepEqual(r, environment.RuleConfig{Enabled: r.Enabled}):
		return fault.InvalidField("rules."+name, "The rule %s is built in, so an entry with its name can only turn it off: enabled: false. For another rule, use another name.", name)
	case !*r.Enabled && carriesMessages:
		return fault.InvalidField("rules."+name+".enabled", "The built-in rule %s carries messages from people and cannot be turned off.", name)
	}
	return nil
}

// withoutSession warns about rules that cannot wake the agent: events of sources belong to no
// session, and the rule names none.
func (c reader) withoutSession() (found []Warning) {
	for _, name := range slices.Sorted(maps.Keys(c.Rules)) {
		r := c.Rules[name]
		if r.Do.Agent.Prompt == "" || r.Session != "" || r.Enabled != nil && !*r.Enabled || len(r.When.Type) == 0 {
			continue
		}
		if slices.ContainsFunc(r.When.Type, func(t string) bool { return !slices.Contains(ofSources, t) }) {
			continue
		}
		at, ok := c.places["rules."+name]
		if !ok {
			at = place{1, 1}
		}
		found = append(found, Warning{
			File: c.File, Line: at.Line, Column: at.Column,
			Message: fmt.Sprintf("the rule %s wakes the agent nowhere: %s belongs to no session, and the rule names none. Say in session where, for example session: \"title:#ops\"", name, r.When.Type[0]),
		})
	}
	return found
}

// mistypedTypes warns about rules whose event type differs in one or two letters from a known
// type. Other unknown types are allowed, because callers may define their own.
func (c reader) mistypedTypes() (found []Warning) {
	var known, families []string
	for _, t := range event.EnvTypes() {
		family, _, _ := strings.Cut(string(t), ".")
		known, families = append(known, string(t)), append(families, family)
	}
	var own []string
	for _, r := range c.Rules {
		family, _, _ := strings.Cut(r.Do.Publish.Type, ".")
		own = append(own, r.Do.Publish.Type, family+".*")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Rules)) {
		for _, t := range c.Rules[name].When.Type {
			word, all := strings.CutSuffix(t, ".*")
			meant := fault.Slip(word, known)
			if all {
				meant = fault.Slip(word, families)
			}
			if meant == "" || slices.Contains(own, t) {
				continue
			}
			if all {
				meant += ".*"
			}
			at, ok := c.places["rules."+name+".when.type"]
			if !ok {
				at = place{1, 1}
			}
			found = append(found, Warning{
				File: c.File, Line: at.Line, Column: at.Column,
				Message: fmt.Sprintf("the rule %s is for events of the type %q, which nothing here makes, did you mean %q?", name, t, meant),
			})
		}
	}
	return found
}

// ofSources lists the type patterns that match only events of sources.
var ofSources = []string{
	"webhook.received", "file.changed", "timer.fired", "source.received", "webhook.*", "file.*", "timer.*", "source.*",
	"mcp.tools.changed", "mcp.prompts.changed", "mcp.resources.changed", "mcp.resource.updated", "mcp.*",
}
