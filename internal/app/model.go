package app

import (
	"lilac/internal/model/anthropic"
	"lilac/internal/model/demo"
	"lilac/internal/model/llm"
	"lilac/internal/model/openai"
	"lilac/internal/operate/config"
)

// newModel builds the model that the configuration chose.
func newModel(choice config.ModelChoice) llm.Model {
	var price *llm.Price
	if p := choice.Price; p != nil {
		price = &llm.Price{Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite}
	}
	options := llm.Options{
		Provider: choice.Provider, BaseURL: choice.BaseURL, APIKey: choice.APIKey.Reveal(), KeySetting: choice.KeySetting(), Model: choice.Name,
		ContextTokens: choice.ContextTokens, MaxOutputTokens: choice.MaxOutputTokens, Price: price, Images: choice.Images,
		// The agent repeats a failed call, visibly and between steps; an adapter
		// that did so too would multiply the attempts.
		Retry: llm.Retry{Max: -1},
	}
	switch choice.Type {
	case config.Anthropic:
		return anthropic.New(options)
	case config.OpenAI:
		return openai.New(options)
	default:
		return demo.New(demo.Options{})
	}
}
