package openai

import (
	"cmp"
	"encoding/json"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
)

// wireUsage is the usage report of a chunk. Names differ between hosts.
type wireUsage struct {
	Prompt     llm.Count `json:"prompt_tokens"`
	Completion llm.Count `json:"completion_tokens"`
	Total      llm.Count `json:"total_tokens"`
	// Gateways use the names of other protocols.
	Input     llm.Count `json:"input_tokens"`
	Output    llm.Count `json:"output_tokens"`
	PromptOwn llm.Count `json:"prompt_eval_count"` // Ollama
	OutputOwn llm.Count `json:"eval_count"`

	PromptCacheHit llm.Count `json:"prompt_cache_hit_tokens"` // DeepSeek
	Cached         llm.Count `json:"cached_tokens"`           // Moonshot
	NumCached      llm.Count `json:"num_cached_tokens"`       // Mistral
	CacheRead      llm.Count `json:"cache_read_input_tokens"` // LiteLLM, Databricks
	CacheCreated   llm.Count `json:"cache_creation_input_tokens"`
	PromptDetails  struct {
		Cached     llm.Count `json:"cached_tokens"`
		CacheWrite llm.Count `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	OutputDetails struct {
		Reasoning llm.Count `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`

	Cost        json.RawMessage `json:"cost"`           // US dollars: OpenRouter, Vercel
	Estimated   json.RawMessage `json:"estimated_cost"` // DeepInfra
	Ticks       llm.Count       `json:"cost_in_usd_ticks"`
	IsBYOK      bool            `json:"is_byok"`
	CostDetails struct {
		Upstream json.RawMessage `json:"upstream_inference_cost"`
	} `json:"cost_details"`
}

// count updates the usage with every count that raw holds: an answer must not fail because
// of its usage report. Reports are cumulative, and a later one may lack what an earlier one
// had.
func (d *decoder) count(raw json.RawMessage) {
	if len(raw) == 0 || string(raw) == "null" {
		return
	}
	var u *wireUsage
	_ = json.Unmarshal(raw, &u)
	if u == nil {
		return
	}
	prompt := cmp.Or(u.Prompt, u.Input, u.PromptOwn)
	output := cmp.Or(u.Completion, u.Output, u.OutputOwn)
	switch {
	case prompt > 0 && u.Total > 0:
		// xAI and Gemini's endpoint bill thinking tokens and count them only in the total.
		output = max(output, u.Total-prompt)
	case u.OutputDetails.Reasoning > output:
		output += u.OutputDetails.Reasoning
	}
	cost := cmp.Or(llm.CostMicros(u.Cost), llm.CostMicros(u.Estimated), u.Ticks.TickMicros())
	if u.IsBYOK { // then the cost is the gateway's fee alone
		cost += llm.CostMicros(u.CostDetails.Upstream)
	}
	was := d.usage
	d.usage = chat.Usage{
		InputTokens: max(was.InputTokens, int64(prompt)), OutputTokens: max(was.OutputTokens, int64(output)),
		CacheReadTokens:  max(was.CacheReadTokens, int64(cmp.Or(u.PromptDetails.Cached, u.PromptCacheHit, u.Cached, u.NumCached, u.CacheRead))),
		CacheWriteTokens: max(was.CacheWriteTokens, int64(cmp.Or(u.PromptDetails.CacheWrite, u.CacheCreated))),
		CostMicros:       max(was.CostMicros, cost),
	}
}

// gatewayCost reads the cost where Vercel's gateway reports it.
func (d *decoder) gatewayCost(metadata json.RawMessage) {
	if len(metadata) > 0 {
		cost := llm.CostMicros(object(object(metadata)["gateway"])["cost"])
		d.usage.CostMicros = max(d.usage.CostMicros, cost)
	}
}
