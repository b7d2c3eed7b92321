package environment

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
	"lilac/internal/foundation/lazyregexp"
	"lilac/internal/foundation/schedule"
)

// Spec is the configuration of a rule.
type Spec struct {
	Name string
	// Types and Session are as in [Rule]; If is a jq expression or "".
	Types   []string
	Session string
	If      string
	// Restricted allows If only to read the event and compare, because an agent wrote
	// it.
	Restricted bool
	Enabled    bool
	// Priority 0 means [PriorityConfigured].
	Priority int

	// Prompt is a template with {{ jq }}; a rule with a prompt wakes the agent.
	Agent, Prompt, System, Deliver string
	// OwnRequest gives each event a request of its own; see [Agent].
	OwnRequest bool
	// PublishType is the type of the event to publish. Payload is a jq expression; if it
	// is empty, the payload is copied.
	PublishType, Payload string
	Drop                 bool

	// Target is a template with {{ jq }}; "" means the event's own session.
	Target   string
	Debounce time.Duration
	// Rate is "1/10m": at most one run in ten minutes.
	Rate   string
	Budget Budget
	// Tools restricts the requests that the rule starts.
	Tools  grant.Tools
	DryRun bool
}

// PriorityConfigured is the default priority of a configured rule: higher than the built-in
// rules, except those for prompts and tasks.
const PriorityConfigured = 60

const (
	// maxDebounce bounds a debounce.
	maxDebounce = 24 * time.Hour
	// maxRatePer bounds the span of a rate. It is well within the retention of runs.
	maxRatePer = 7 * 24 * time.Hour
)

var typePattern = lazyregexp.New(`^(\*|[a-z0-9_.]{1,64}(\.\*)?)$`)

// Compile validates and compiles a rule. Its errors are fault.Invalid, with the field
// within the rule, like "when.if".
func Compile(s Spec) (Rule, error) {
	r := Rule{
		Name: s.Name, Types: s.Types, Session: s.Session, Enabled: s.Enabled, Priority: s.Priority,
		Debounce: s.Debounce, Budget: s.Budget, Tools: s.Tools, DryRun: s.DryRun,
	}
	if r.Priority == 0 {
		r.Priority = PriorityConfigured
	}
	var found []error
	if r.Priority >= PriorityUserQuery {
		found = append(found, fault.InvalidField("priority", "The priority of the rule %s must be below %d, the priority of messages from people.", s.Name, PriorityUserQuery))
	}
	for _, step := range []func(Spec, *Rule) error{compileWhen, compileDo, compileTarget, compileLimits, checkTools} {
		found = append(found, step(s, &r))
	}
	if err := errors.Join(found...); err != nil {
		return Rule{}, err
	}
	return r, nil
}

func compileWhen(s Spec, r *Rule) error {
	if len(s.Types) == 0 {
		return fault.InvalidField("when.type", "The rule %s has no event type. Set one; \"*\" matches all.", s.Name)
	}
	for _, t := range s.Types {
		if !typePattern().MatchString(t) {
			return fault.InvalidField("when.type", "%q is not an event type. Use a type like webhook.received, a prefix like webhook.*, or *.", t)
		}
		if why := unreachable(t); why != "" {
			return fault.InvalidField("when.type", "The rule %s can never act on events of the type %s: %s. See docs/events.md for the types of environment events.", s.Name, t, why)
		}
		for _, people := range []event.Type{event.UserQuery, event.UserStop} {
			if matchesType(t, people) {
				return fault.InvalidField("when.type", "Rules cannot handle messages from people (%s).", people)
			}
		}
	}
	if s.If == "" {
		return nil
	}
	compile := compileQuery
	if s.Restricted {
		compile = compileRestrictedQuery
	}
	q, err := compile(s.If)
	if err != nil {
		return fault.InvalidField("when.if", "The condition of the rule %s: %s.", s.Name, err)
	}
	r.If = q.condition
	return nil
}

func compileDo(s Spec, r *Rule) error {
	n := 0
	for _, does := range []bool{s.Prompt != "", s.PublishType != "", s.Drop} {
		if does {
			n++
		}
	}
	switch {
	case n != 1:
		return fault.InvalidField("do", "The rule %s must have exactly one action: agent (with a prompt), publish (with a type), or drop.", s.Name)
	case s.Prompt != "":
		return compileAgent(s, r)
	case s.PublishType != "":
		return compilePublish(s, r)
	}
	r.Action = Drop{}
	return nil
}

func compileAgent(s Spec, r *Rule) error {
	prompt, err := compileTemplate(s.Prompt)
	if err != nil {
		return fault.InvalidField("do.agent.prompt", "The prompt of the rule %s: %s.", s.Name, err)
	}
	deliver := event.Queue(s.Deliver)
	if deliver == "" {
		deliver = event.FollowUp
	}
	if deliver != event.FollowUp && deliver != event.Steer {
		return fault.InvalidField("do.agent.deliver", "The rule %s has the unknown delivery %q. Use followUp or steer.", s.Name, s.Deliver)
	}
	if deliver == event.Steer && s.Budget.metered() {
		return fault.InvalidField("do.agent.deliver", "The rule %s has a budget of tokens or money and delivers as steer, so its usage cannot be separated from the rest of the request. Use followUp.", s.Name)
	}
	if deliver == event.Steer && s.OwnRequest {
		return fault.InvalidField("do.agent.deliver", "The rule %s says in which workspace its task is done and delivers as steer, so its event would go to a request that works already. Use followUp.", s.Name)
	}
	if deliver == event.Steer && s.Agent != "" {
		return fault.InvalidField("do.agent.deliver", "The rule %s names an agent and delivers as steer, so its event would go to the agent that works already. Use followUp.", s.Name)
	}
	r.Action = &Agent{Agent: s.Agent, OwnRequest: s.OwnRequest, System: s.System, Prompt: prompt.renderPrompt, Deliver: deliver}
	return nil
}

func compilePublish(s Spec, r *Rule) error {
	probe := event.EnvEvent{ID: "1", Type: event.Type(s.PublishType)}
	if err := probe.Validate(); err != nil || IsReserved(probe.Type) {
		return fault.InvalidField("do.publish.type", "The rule %s cannot publish events of the type %q. Use a type of your own, made of a-z, 0-9, _ and dots.", s.Name, s.PublishType)
	}
	payload := func(e event.EnvEvent) (json.RawMessage, error) { return e.Payload, nil }
	if s.Payload != "" {
		q, err := compileQuery(s.Payload)
		if err != nil {
			return fault.InvalidField("do.publish.payload", "The payload of the rule %s: %s.", s.Name, err)
		}
		payload = func(e event.EnvEvent) (json.RawMessage, error) { return q.json(NewSubject(e)) }
	}
	r.Action = Derive(func(e event.EnvEvent) (event.EnvEvent, error) {
		raw, err := payload(e)
		return event.EnvEvent{
			ID: "rule:" + digest(s.Name+"\x00"+e.ID), Type: event.Type(s.PublishType), Payload: raw,
			Metadata: event.EnvMetadata{Source: e.Metadata.Source, EnvName: e.Metadata.EnvName, TriggerAgentID: e.Metadata.TriggerAgentID, TriggerAgentName: e.Metadata.TriggerAgentName},
		}, err
	})
	return nil
}

func compileTarget(s Spec, r *Rule) error {
	if s.Target == "" {
		return nil
	}
	t, err := compileTemplate(s.Target)
	if err != nil {
		return fault.InvalidField("session", "The session of the rule %s: %s.", s.Name, err)
	}
	r.Target = t.renderName
	return nil
}

func compileLimits(s Spec, r *Rule) error {
	switch {
	case s.Debounce < 0:
		return fault.InvalidField("debounce", "The debounce of the rule %s is negative. Use 0 for none.", s.Name)
	case s.Debounce > maxDebounce:
		return fault.InvalidField("debounce", "The debounce of the rule %s is too long. Use at most %s.", s.Name, maxDebounce)
	case s.Debounce > 0 && s.Drop:
		return fault.InvalidField("debounce", "The rule %s drops its events, so it cannot have a debounce.", s.Name)
	case s.Budget.Runs < 0 || s.Budget.Tokens < 0 || s.Budget.CostMicros < 0:
		return fault.InvalidField("budget", "The budget of the rule %s is negative. Use 0 for no limit.", s.Name)
	case s.Rate == "":
		return nil
	}
	runs, per, ok := strings.Cut(s.Rate, "/")
	n, err := strconv.Atoi(strings.TrimSpace(runs))
	span, spanErr := schedule.ParseDuration(strings.TrimSpace(per))
	if !ok || err != nil || spanErr != nil || n < 1 || span <= 0 || span > maxRatePer {
		return fault.InvalidField("rate", "The rate %q of the rule %s is invalid. Use a form like 1/10m (once in ten minutes) or 5/1d, with at most 7d.", s.Rate, s.Name)
	}
	r.Rate = Rate{Runs: n, Per: span}
	return nil
}

func checkTools(s Spec, _ *Rule) error {
	var found []error
	for key, patterns := range map[string][]string{"allow": s.Tools.Allow, "deny": s.Tools.Deny} {
		for _, p := range patterns {
			found = append(found, grant.CheckPattern("tools."+key, p))
		}
	}
	return errors.Join(found...)
}

// IsReserved reports whether only Lilac itself publishes events of the type.
func IsReserved(t event.Type) bool {
	return t == event.UserQuery || t == event.UserStop || strings.HasPrefix(string(t), "session.") || strings.HasPrefix(string(t), "stream.") || strings.HasPrefix(string(t), "rule.")
}
