package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lilac/internal/core/session"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
	"lilac/internal/foundation/lazyregexp"
	"lilac/internal/foundation/text"
)

const (
	// maxAgents bounds the named agents. Each conversation knows the list.
	maxAgents = 50
	// maxAgentDescription bounds the description of an agent, in bytes.
	maxAgentDescription = 500
)

var agentName = lazyregexp.New(`^[a-z][a-z0-9_-]{0,39}$`)

// An Agent is a kind of agent, for work of one kind.
type Agent struct {
	Description  string               `json:"description,omitempty" jsonschema:"What the agent is for, in a sentence. The main agent reads it when it chooses an agent for a task."`
	Model        ModelList            `json:"model,omitempty" jsonschema:"The model that works, as provider/model, or a list of models. Default: that of the conversation."`
	Effort       string               `json:"effort,omitempty" enum:"none,minimal,low,medium,high,xhigh,max" jsonschema:"How much the model thinks, as models.NAME.effort."`
	Instructions string               `json:"instructions,omitempty" jsonschema:"Instructions for the agent, in addition to system."`
	Tools        grant.Config         `json:"tools,omitempty" jsonschema:"What the agent may use, of what the conversation or the rule may use."`
	Limits       session.BudgetConfig `json:"limits,omitempty" jsonschema:"Limits of one request of the agent, in addition to limits.request."`
}

// Agents are the named agents.
type Agents map[string]Agent

// restriction returns what the agent with a name may use. An agent that the configuration does
// not have any more may only read.
func (agents Agents) restriction(name string) grant.Tools {
	if name == "" {
		return grant.Tools{}
	}
	a, known := agents[name]
	if !known {
		return grant.Tools{From: "the agent " + name + ", which the configuration does not have any more,", Allow: grant.Reading}
	}
	return a.Tools.Tools("the agent " + name)
}

// Terms returns the terms of the agent with a name.
func (agents Agents) Terms(name string) session.AgentTerms {
	return session.AgentTerms{Tools: agents.restriction(name), Limits: agents[name].Limits.Budget()}
}

// Check reports why no work can be given to the agent with a name.
func (agents Agents) Check(name string) error {
	if _, ok := agents[name]; ok {
		return nil
	}
	names := slices.Sorted(maps.Keys(agents))
	if len(names) == 0 {
		return fault.InvalidField("agent", "There is no agent %q: the configuration has no agents.", name)
	}
	return fault.InvalidField("agent", "There is no agent %q%s The agents are: %s.", name, sentence(didYouMean(name, names)), strings.Join(names, ", "))
}

// Catalog returns the list of agents for the main agent's instructions, or "".
func (agents Agents) Catalog() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		if b.Len() == 0 {
			b.WriteString("Agents for tasks (task with action start, a prompt, and agent):\n")
		}
		fmt.Fprintf(&b, "- %s", name)
		if d := text.SingleLine(agents[name].Description); d != "" {
			b.WriteString(": " + d)
		}
		b.WriteString("\n")
	}
	return strings.TrimSpace(b.String())
}

// checkAgents validates the named agents, and that whatever names one names one that exists.
func (c checker) checkAgents() error {
	var found []error
	if len(c.Agents) > maxAgents {
		found = append(found, fault.InvalidField("agents", "There are more than %d agents.", maxAgents))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		a, field := c.Agents[name], "agents."+name
		if !agentName().MatchString(name) {
			found = append(found, fault.InvalidField(field, "%q is not a name for an agent: use 1 to 40 characters (a-z, 0-9, _ and -), and begin with a letter.", name))
		}
		if len(a.Description) > maxAgentDescription {
			found = append(found, fault.InvalidField(field+".description", "The description has more than %d bytes.", maxAgentDescription))
		}
		found = append(found, c.checkAnswering(field, a.Model, a.Effort, a.Instructions), a.Tools.Check(field+".tools"), a.Limits.Check(field+".limits"))
		if a.Limits.Money != 0 {
			found = append(found, c.checkAgentMoney(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Channels)) {
		found = append(found, c.checkNamed("channels."+name+".agent", c.Channels[name].Agent))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Rules)) {
		found = append(found, c.checkNamed("rules."+name+".do.agent.name", c.Rules[name].Do.Agent.Name))
	}
	return errors.Join(found...)
}

// checkNamed reports a setting that names an agent that does not exist.
func (c checker) checkNamed(field, name string) error {
	if name == "" || c.unreadable("agents") {
		return nil
	}
	if err := c.Agents.Check(name); err != nil {
		return fault.InvalidField(field, "%s", fault.ToWire(err).Message)
	}
	return nil
}

// checkAgentMoney reports a limit on money that could not be kept.
func (c checker) checkAgentMoney(name string) error {
	if c.unreadable(modelKeys...) {
		return nil
	}
	models := allModels(c.Config)
	if refs := c.Agents[name].Model; len(refs) > 0 {
		models = nil
		for _, ref := range refs {
			if choice, err := c.lookupModel(ref, ""); err == nil {
				models = append(models, choice)
			}
		}
	}
	for _, m := range models {
		if m.Price == nil {
			return fault.InvalidField("agents."+name+".limits.money", "The agent %s has a limit on money, but the price of %s is unknown, so it could not be kept. Set it under models: %q: price:.", name, m, m.String())
		}
	}
	return nil
}
