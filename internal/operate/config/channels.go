package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/setting"
)

// maxInstructions bounds the instructions of a channel or an agent, in bytes: they are part of every request.
const maxInstructions = 32 << 10

// A Channel holds the settings of one channel that concern the agent.
type Channel struct {
	Agent        string    `json:"agent,omitempty" jsonschema:"The agent that answers there, of those in agents."`
	Model        ModelList `json:"model,omitempty" jsonschema:"The model that answers there, as provider/model, or a list of models."`
	Effort       string    `json:"effort,omitempty" enum:"none,minimal,low,medium,high,xhigh,max" jsonschema:"How much the model thinks there, as models.NAME.effort."`
	Instructions string    `json:"instructions,omitempty" jsonschema:"Instructions for the agent there, in addition to system."`

	Workspace setting.Sharing `json:"workspace,omitempty" jsonschema:"Whether the conversations there share the workspace. It precedes what people choose in a conversation."`
}

// Channel returns the settings of a conversation: those of the first of ids that has any, else those
// of its client. The ids are those of a channel on its platform, and of the channel to which a
// thread belongs.
func (c *Config) Channel(client string, ids ...string) Channel {
	if len(c.Channels) == 0 {
		return Channel{}
	}
	for _, id := range ids {
		if found, ok := c.Channels[id]; ok && id != "" {
			return found
		}
		for name, named := range c.Entity.Sessions.Discord {
			if found, ok := c.Channels[name]; ok && named == id {
				return found
			}
		}
	}
	return c.Channels[client]
}

// checkChannels validates the settings of the channels.
func (c checker) checkChannels() error {
	var found []error
	for _, name := range slices.Sorted(maps.Keys(c.Channels)) {
		channel, field := c.Channels[name], "channels."+name
		found = append(found, c.checkAnswering(field, channel.Model, channel.Effort, channel.Instructions))
	}
	return errors.Join(found...)
}

// checkTitles validates the model that names conversations.
func (c checker) checkTitles() error {
	if c.Titles.Model == "" || c.unreadable(modelKeys...) {
		return nil
	}
	if _, err := c.lookupModel(c.Titles.Model, ""); err != nil {
		return fault.InvalidField("titles.model", "%s", fault.ToWire(err).Message)
	}
	return nil
}

// checkAnswering validates the settings of a channel or an agent that say what answers.
func (c checker) checkAnswering(field string, models ModelList, effort, instructions string) error {
	var found []error
	if effort != "" && !slices.Contains(efforts, effort) {
		found = append(found, fault.InvalidField(field+".effort", "The effort %q is unknown%s Use one of %s.",
			effort, sentence(didYouMean(effort, efforts)), strings.Join(efforts, ", ")))
	}
	if len(instructions) > maxInstructions {
		found = append(found, fault.InvalidField(field+".instructions", "The instructions have more than %d bytes.", maxInstructions))
	}
	if c.unreadable(modelKeys...) {
		return errors.Join(found...)
	}
	for _, ref := range models {
		if _, err := c.lookupModel(ref, ""); err != nil {
			found = append(found, fault.InvalidField(field+".model", "%s", fault.ToWire(err).Message))
		}
	}
	return errors.Join(found...)
}

// A Selection says which model answers a request. Empty fields follow the configuration.
type Selection struct {
	// Model and Effort are what people chose for the conversation.
	Model, Effort string
	// Channel holds the settings of the conversation's channel, and Agent those of the agent that
	// does the work.
	Channel Channel
	Agent   Agent
}

// SelectModels returns the models for a request: the first one answers, and the others take over
// while those before them fail. The settings of a named agent precede the choice of people, that
// precedes the settings of the channel, and those precede the setting model.
func (c *Config) SelectModels(s Selection) ([]ModelChoice, error) {
	models, why := c.Model, "set by "+c.Origin("model")
	if len(s.Channel.Model) > 0 {
		models, why = s.Channel.Model, "set for the channel"
	}
	switch {
	case len(s.Agent.Model) > 0:
		models, why = s.Agent.Model, "set for the agent"
	case s.Model != "":
		rest := slices.DeleteFunc(slices.Clone(models), func(ref string) bool { return ref == s.Model })
		if len(models) < 2 {
			rest = nil // a single model is no chain
		}
		models, why = append(ModelList{s.Model}, rest...), "chosen in the conversation"
	}
	var out []ModelChoice
	if len(models) == 0 {
		choice, err := c.ResolveModel()
		if err != nil {
			return nil, err
		}
		out = append(out, choice)
	}
	for _, ref := range models {
		choice, err := c.lookupModel(ref, why)
		if err != nil {
			return nil, err
		}
		out = append(out, choice)
	}
	for i := range out {
		out[i].Options.Effort = cmp.Or(s.Agent.Effort, s.Effort, s.Channel.Effort, out[i].Options.Effort)
	}
	return out, nil
}

// maxSelectable bounds the list of models to select from.
const maxSelectable = 100

// Selectable returns the models that people can select without naming one that the operator did not
// mention: those of model, channels, agents, and models.
func (c *Config) Selectable() []string {
	var out []string
	add := func(refs ...string) {
		for _, ref := range refs {
			if choice, err := c.lookupModel(ref, ""); err == nil && !slices.Contains(out, choice.String()) && len(out) < maxSelectable {
				out = append(out, choice.String())
			}
		}
	}
	if len(c.Model) == 0 {
		if choice, err := c.ResolveModel(); err == nil {
			add(choice.String())
		}
	}
	add(c.Model...)
	for _, name := range slices.Sorted(maps.Keys(c.Channels)) {
		add(c.Channels[name].Model...)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		add(c.Agents[name].Model...)
	}
	add(slices.Sorted(maps.Keys(c.Models))...)
	return out
}

// CheckSelection reports why people cannot select an agent, a model, and an effort. Empty ones
// follow the configuration.
func (c *Config) CheckSelection(agent, model, effort string) error {
	if agent != "" {
		if err := c.Agents.Check(agent); err != nil {
			return err
		}
	}
	if effort != "" && !slices.Contains(efforts, effort) {
		return fault.InvalidField("effort", "The effort %q is unknown%s Use one of %s.", effort, sentence(didYouMean(effort, efforts)), strings.Join(efforts, ", "))
	}
	if model == "" {
		return nil
	}
	choice, err := c.lookupModel(model, "")
	if err != nil {
		return err
	}
	if choice.Price == nil && c.Limits.HasMoney() {
		return fault.InvalidField("model", "There is a limit on money, but the price of %s is unknown, so it could not be kept. The operator can set it under models: %q: price:.", choice, choice.String())
	}
	return nil
}

// allModels returns the models that the configuration lets answer, with the setting that names each.
func allModels(c *Config) (out []ModelChoice) {
	chain, _ := c.ResolveModels() // checkModels reports errors
	out = append(out, chain...)
	for _, name := range slices.Sorted(maps.Keys(c.Channels)) {
		for _, ref := range c.Channels[name].Model {
			if choice, err := c.lookupModel(ref, fmt.Sprintf("set by channels.%s.model", name)); err == nil {
				out = append(out, choice)
			}
		}
	}
	if choice, err := c.lookupModel(c.Titles.Model, "set by titles.model"); c.Titles.Model != "" && err == nil {
		out = append(out, choice)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		for _, ref := range c.Agents[name].Model {
			if choice, err := c.lookupModel(ref, fmt.Sprintf("set by agents.%s.model", name)); err == nil {
				out = append(out, choice)
			}
		}
	}
	return out
}
