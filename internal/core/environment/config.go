package environment

import (
	"math"
	"time"

	"lilac/internal/foundation/grant"
	"lilac/internal/foundation/setting"
)

// RuleConfig is an entry of the section "rules" of the configuration: what an event
// triggers.
type RuleConfig struct {
	When     RuleWhenConfig   `json:"when,omitempty" jsonschema:"Which events the rule matches."`
	Do       RuleDoConfig     `json:"do,omitempty" jsonschema:"The action: one of agent, publish, and drop."`
	Session  string           `json:"session,omitempty" jsonschema:"The session to act in: an ID, title: followed by the title of a session, or a template with jq between {{ and }} that returns one of these. Default: the session of the event."`
	Enabled  *bool            `json:"enabled,omitempty" jsonschema:"false turns the rule off. To turn a built-in rule off (background_task, background_task_stopped, session, fallback), use its name and only this setting."`
	Priority int              `json:"priority,omitempty" jsonschema:"Of the matching rules, the one with the highest priority handles the event; among equals, the first by name. Default 60; must be below 100. The built-in rules have 100 (user_query, user_stop), 80 (background_task.completed, failed, timeout), 50 (session.*), and 10 (all others)."`
	Debounce setting.Duration `json:"debounce,omitempty" jsonschema:"Wait until the session has had no further event for this long, then handle the last one. After ten times this long, it is handled anyway."`
	Rate     string           `json:"rate,omitempty" jsonschema:"How often the rule may act per session, as in 1/10m (at most once in any ten minutes). Other events are dropped and counted."`
	Budget   RuleBudgetConfig `json:"budget,omitempty" jsonschema:"Limits per session and day (UTC). Later work of its workflows and sub-agents counts, on the day it happens, until a person writes. At the limit, the rule stops, even within a request that it started, and reports it once in the session and with an event rule.stopped. If tokens or money are limited, its events get their own requests, which wait for running work."`
	Tools    grant.Config     `json:"tools,omitempty" jsonschema:"What requests of the rule may use. If their event comes from a webhook or a program, the default is only reading (see docs/tools.md) and the answer. With restrictions, its events get their own requests, which wait for running work."`
	DryRun   bool             `json:"dryRun,omitempty" jsonschema:"Whether the rule only counts what it would do."`
}

// RuleWhenConfig configures which events a rule matches.
type RuleWhenConfig struct {
	Type    setting.Texts `json:"type,omitempty" jsonschema:"An event type or a list of types: webhook.received; webhook.* for all types with this prefix; or * for all except observer-only types (session.*, stream.*, rule.*, tool.executed, background_task.progress) and a request's tool.error, which its model already knows."`
	Session string        `json:"session,omitempty" jsonschema:"Match only events of this session."`
	If      string        `json:"if,omitempty" jsonschema:"A jq condition on the event, for example .payload.body.action == \"completed\"."`
}

// RuleDoConfig configures the action of a rule.
type RuleDoConfig struct {
	Agent   RuleAgentConfig   `json:"agent,omitempty" jsonschema:"Wakes the agent with the event."`
	Publish RulePublishConfig `json:"publish,omitempty" jsonschema:"Publishes another event."`
	Drop    bool              `json:"drop,omitempty" jsonschema:"Discards the event."`
}

// RuleAgentConfig configures an action that wakes the agent.
type RuleAgentConfig struct {
	Name      string          `json:"name,omitempty" jsonschema:"The agent that does the task, of those in agents. Its events get their own requests, which wait for running work. Default: the agent of the conversation."`
	Prompt    string          `json:"prompt,omitempty" jsonschema:"The task for the agent, with jq on the event between {{ and }}, for example: The build of {{ .payload.body.branch }} failed."`
	System    string          `json:"system,omitempty" jsonschema:"The agent's role for this task, with the authority of the setting system. If the event begins a conversation, it is part of the system prompt; otherwise, it is a system message before the event."`
	Workspace setting.Sharing `json:"workspace,omitempty" jsonschema:"Whether the task is done in the shared workspace. If it is set, the rule's events get their own requests, which wait for running work. Default: as in the rule's conversation."`

	Deliver string `json:"deliver,omitempty" jsonschema:"When the agent receives the event if it is already working in the session: followUp (default) when it would have ended, steer before its next step. If a prompt waits, or the agent works on an event of the same rule, the event waits instead, and such events are handled together."`
}

// RulePublishConfig configures an action that publishes another event.
type RulePublishConfig struct {
	Type    string `json:"type,omitempty" jsonschema:"The type of the event."`
	Payload string `json:"payload,omitempty" jsonschema:"The payload, as a jq expression on the event. Default: the payload of the event."`
}

// RuleBudgetConfig bounds the usage of a rule. Zero means no limit.
type RuleBudgetConfig struct {
	Runs   int64   `json:"runs,omitempty" jsonschema:"How often the rule may act, including requests from its workflows."`
	Tokens int64   `json:"tokens,omitempty" jsonschema:"Input and output tokens of the requests that it started."`
	Money  float64 `json:"money,omitempty" jsonschema:"US dollars, for the requests that it started. Requires a model with a known price."`
}

// Spec returns the entry with a name as a rule to compile.
func (r RuleConfig) Spec(name string) Spec {
	return Spec{
		Name: name, Types: r.When.Type, Session: r.When.Session, If: r.When.If,
		Enabled: r.Enabled == nil || *r.Enabled, Priority: r.Priority,
		Agent: r.Do.Agent.Name, OwnRequest: r.Do.Agent.Workspace.Shared != nil, Prompt: r.Do.Agent.Prompt, System: r.Do.Agent.System, Deliver: r.Do.Agent.Deliver,
		PublishType: r.Do.Publish.Type, Payload: r.Do.Publish.Payload, Drop: r.Do.Drop,
		Target: r.Session, Debounce: time.Duration(r.Debounce), Rate: r.Rate, DryRun: r.DryRun, Tools: r.Tools.Tools(""),
		Budget: Budget{Runs: r.Budget.Runs, Tokens: r.Budget.Tokens, CostMicros: int64(math.Ceil(r.Budget.Money * 1e6))},
	}
}
