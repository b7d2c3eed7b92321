package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"lilac/internal/core/environment"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/lazyregexp"
)

// A Rule configures what an environment event triggers.
type Rule struct {
	When     RuleWhen   `json:"when,omitempty" jsonschema:"Which events the rule matches."`
	Do       RuleDo     `json:"do,omitempty" jsonschema:"The action: one of agent, publish, and drop."`
	Session  string     `json:"session,omitempty" jsonschema:"The session to act in: an ID, title: followed by the title of a session, or a template with jq between {{ and }} that returns one of these. Default: the session of the event."`
	Enabled  *bool      `json:"enabled,omitempty" jsonschema:"false turns the rule off."`
	Priority int        `json:"priority,omitempty" jsonschema:"Of the matching rules, the one with the highest priority handles the event; among equals, the first by name. Default 60; must be below 100. The built-in rules have 100 (user_query, user_stop), 80 (background_task.completed, failed, timeout), 50 (session.*), and 10 (all others)."`
	Debounce Duration   `json:"debounce,omitempty" jsonschema:"Wait until the session has had no further event for this long, then handle the last one. After ten times this long, it is handled anyway."`
	Rate     string     `json:"rate,omitempty" jsonschema:"How often the rule may act per session, as in 1/10m (at most once in any ten minutes). Other events are dropped and counted."`
	Budget   RuleBudget `json:"budget,omitempty" jsonschema:"Limits per session and day (UTC). Later work of its workflows and sub-agents counts, on the day it happens, until a person writes. At the limit, the rule stops, even within a request that it started, and reports it once in the session and with an event rule.stopped. If tokens or money are limited, its events get their own requests, which wait for running work."`
	Tools    ToolNames  `json:"tools,omitempty" jsonschema:"What requests of the rule may use. If they come from a webhook, the default is only reading (see docs/tools.md) and the answer. With restrictions, its events get their own requests, which wait for running work."`
	DryRun   bool       `json:"dryRun,omitempty" jsonschema:"Whether the rule only counts what it would do."`
}

// RuleWhen configures which events a rule matches.
type RuleWhen struct {
	Type    EventTypes `json:"type,omitempty" jsonschema:"An event type or a list of types: webhook.received; webhook.* for all types with this prefix; or * for all except observer-only types (session.*, stream.*, rule.*, tool.executed, background_task.progress) and a request's tool.error, which its model already knows."`
	Session string     `json:"session,omitempty" jsonschema:"Match only events of this session."`
	If      string     `json:"if,omitempty" jsonschema:"A jq condition on the event, for example .payload.body.action == \"completed\"."`
}

// RuleDo configures the action of a rule.
type RuleDo struct {
	Agent   RuleAgent   `json:"agent,omitempty" jsonschema:"Wakes the agent with the event."`
	Publish RulePublish `json:"publish,omitempty" jsonschema:"Publishes another event."`
	Drop    bool        `json:"drop,omitempty" jsonschema:"Discards the event."`
}

// RuleAgent configures an action that wakes the agent.
type RuleAgent struct {
	Prompt  string `json:"prompt,omitempty" jsonschema:"The task for the agent, with jq on the event between {{ and }}, for example: The build of {{ .payload.body.branch }} failed."`
	System  string `json:"system,omitempty" jsonschema:"The agent's role for this task."`
	Deliver string `json:"deliver,omitempty" jsonschema:"When the agent receives the event if it is already working in the session: followUp (default) when it would have ended, steer before its next step."`
}

// RulePublish configures an action that publishes another event.
type RulePublish struct {
	Type    string `json:"type,omitempty" jsonschema:"The type of the event."`
	Payload string `json:"payload,omitempty" jsonschema:"The payload, as a jq expression on the event. Default: the payload of the event."`
}

// RuleBudget bounds the usage of a rule. Zero means no limit.
type RuleBudget struct {
	Runs   int64   `json:"runs,omitempty" jsonschema:"How often the rule may act, including requests from its workflows."`
	Tokens int64   `json:"tokens,omitempty" jsonschema:"Input and output tokens of the requests that it started."`
	Money  float64 `json:"money,omitempty" jsonschema:"US dollars, for the requests that it started. Requires a model with a known price."`
}

// EventTypes is one event type or a list of them.
type EventTypes []string

// UnmarshalYAML reads a string or a list of strings.
func (t *EventTypes) UnmarshalYAML(n ast.Node) error {
	nodes := []ast.Node{n}
	if list, ok := n.(*ast.SequenceNode); ok {
		nodes = list.Values
	}
	*t = nil
	for _, one := range nodes {
		text, err := scalar(one)
		if err != nil {
			return err
		}
		*t = append(*t, text)
	}
	return nil
}

// EnvironmentRules compiles the rules, sorted by name.
func (c *Config) EnvironmentRules() ([]environment.Rule, error) {
	var out []environment.Rule
	var found []error
	for _, name := range slices.Sorted(maps.Keys(c.Rules)) {
		r, err := environment.Compile(c.Rules[name].spec(name))
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

func (r Rule) spec(name string) environment.Spec {
	return environment.Spec{
		Name: name, Types: r.When.Type, Session: r.When.Session, If: r.When.If,
		Enabled: r.Enabled == nil || *r.Enabled, Priority: r.Priority,
		Prompt: r.Do.Agent.Prompt, System: r.Do.Agent.System, Deliver: r.Do.Agent.Deliver,
		PublishType: r.Do.Publish.Type, Payload: r.Do.Publish.Payload, Drop: r.Do.Drop,
		Target: r.Session, Debounce: time.Duration(r.Debounce), Rate: r.Rate, DryRun: r.DryRun, Tools: r.Tools.grant(""),
		Budget: environment.Budget{Runs: r.Budget.Runs, Tokens: r.Budget.Tokens, CostMicros: int64(math.Ceil(r.Budget.Money * 1e6))},
	}
}

// nameForm matches valid names. They appear in logs, URLs, and tables.
var nameForm = lazyregexp.New(`^[a-zA-Z0-9_-]{1,64}$`)

// builtinRules returns the names of the built-in rules.
func builtinRules() (names []string) {
	for _, r := range environment.DefaultRules(environment.DefaultsOptions{}) {
		names = append(names, r.Name)
	}
	return names
}

func (c *Config) checkRules() error {
	var found []error
	builtin := builtinRules()
	for _, name := range slices.Sorted(maps.Keys(c.Rules)) {
		if !nameForm().MatchString(name) || slices.Contains(builtin, name) {
			found = append(found, fault.InvalidField("rules."+name, "%q is not a name for a rule: use letters, digits, _ and -, and none of %q.", name, builtin))
		}
		if c.Rules[name].Budget.Money == 0 || c.unreadable(modelKeys...) {
			continue
		}
		if m, err := c.ResolveModel(); err == nil && m.Price == nil {
			found = append(found, fault.InvalidField("rules."+name+".budget.money", "The rule %s has a limit on money, but the price of %s is unknown, so it could not be kept. Set it under models: %q: price:.", name, m, m.String()))
		}
	}
	_, err := c.EnvironmentRules()
	return errors.Join(append(found, err)...)
}

// withoutSession warns about rules that cannot wake the agent: events of sources belong to no
// session, and the rule names none.
func (c *Config) withoutSession() (found []Warning) {
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
func (c *Config) mistypedTypes() (found []Warning) {
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

// ofSources lists the type patterns that match only events of webhooks, files, and timers.
var ofSources = []string{
	"webhook.received", "file.changed", "timer.fired", "webhook.*", "file.*", "timer.*",
}
