package config

import (
	"errors"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"lilac/internal/foundation/fault"
)

// efforts lists the values of a model's effort. Which of them a model supports differs.
var efforts = enumOf[Model]("Effort")

// Efforts returns the values of a model's effort.
func Efforts() []string { return slices.Clone(efforts) }

// reservedFields lists the fields of a request that Lilac must set itself.
var reservedFields = []string{"model", "messages", "input", "stream", "tools"}

// checkOptions checks the options that are sent with each request.
func (m Model) checkOptions(field string) error {
	var found []error
	if m.Effort != "" && !slices.Contains(efforts, m.Effort) {
		found = append(found, fault.InvalidField(field+".effort", "The effort %q is unknown%s Use one of %s.", m.Effort, sentence(didYouMean(m.Effort, efforts)), strings.Join(efforts, ", ")))
	}
	if m.ThinkingTokens < 0 || m.FirstToken < 0 || m.Silence < 0 {
		found = append(found, fault.InvalidField(field, "thinkingTokens, firstToken, and silence must not be negative."))
	}
	if t := m.Temperature; t != nil && !(*t >= 0 && *t <= 2) {
		found = append(found, fault.InvalidField(field+".temperature", "The temperature must be between 0 and 2."))
	}
	if p := m.TopP; p != nil && !(*p > 0 && *p <= 1) {
		found = append(found, fault.InvalidField(field+".topP", "topP must be above 0 and at most 1."))
	}
	for name := range m.Body {
		if slices.Contains(reservedFields, name) {
			found = append(found, fault.InvalidField(field+".body", "The body must not contain %s, which Lilac sets itself.", name))
		}
	}
	found = append(found, m.Headers.check(field+".headers", false))
	return errors.Join(found...)
}

// optionNames maps the names that providers and other programs use to ours.
var optionNames = map[string]string{
	"max_tokens": "maxOutputTokens", "maxTokens": "maxOutputTokens", "max_output_tokens": "maxOutputTokens", "max_completion_tokens": "maxOutputTokens",
	"context_tokens": "contextTokens", "contextWindow": "contextTokens", "context_window": "contextTokens", "contextLength": "contextTokens",
	"reasoning_effort": "effort", "reasoningEffort": "effort",
	"thinkingBudget": "thinkingTokens", "thinking_budget": "thinkingTokens", "budget_tokens": "thinkingTokens", "budgetTokens": "thinkingTokens",
	"top_p": "topP", "extra_body": "body", "extraBody": "body", "extra_headers": "headers", "extraHeaders": "headers",
}

// useOptionName replaces another program's name of an option by ours.
func useOptionName(n *ast.MappingValueNode) {
	key, ok := n.Key.(*ast.StringNode)
	if !ok {
		return
	}
	if name := optionNames[key.Value]; name != "" {
		key.Value, key.Token.Value = name, name
	}
}
