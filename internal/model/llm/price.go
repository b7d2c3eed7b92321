package llm

import (
	"math"
	"strings"

	"lilac/internal/foundation/chat"
)

// Cost returns the cost of u in millionths of a US dollar. It rounds up, so that
// rounding never exceeds a budget. Cached tokens without a price of their own count
// as input. A nil price costs nothing.
func (p *Price) Cost(u chat.Usage) int64 {
	if p == nil {
		return 0
	}
	read, write := p.CacheRead, p.CacheWrite
	if read == 0 {
		read = p.Input
	}
	if write == 0 {
		write = p.Input
	}
	plain := max(0, u.InputTokens-u.CacheReadTokens-u.CacheWriteTokens)
	// Dollars per million tokens are millionths of a dollar per token.
	micros := float64(plain)*p.Input + float64(u.OutputTokens)*p.Output +
		float64(u.CacheReadTokens)*read + float64(u.CacheWriteTokens)*write
	if math.IsNaN(micros) || micros <= 0 {
		return 0
	}
	// A floating-point error above a whole number must not be rounded up to a unit.
	return int64(math.Ceil(math.Min(micros, math.MaxInt64/2) - 1e-6))
}

// Prices maps "provider/model" or a model alone to its price. A name that ends in *
// matches every name with that prefix.
type Prices map[string]Price

// Lookup returns the price of a model: by its exact name, otherwise by the longest
// matching pattern, otherwise nil.
func (p Prices) Lookup(provider, model string) *Price {
	full := provider + "/" + model
	for _, name := range []string{full, model} {
		if price, ok := p[name]; ok {
			return &price
		}
	}
	best := ""
	for name := range p {
		prefix, pattern := strings.CutSuffix(name, "*")
		fits := pattern && (strings.HasPrefix(full, prefix) || strings.HasPrefix(model, prefix))
		if fits && (len(name) > len(best) || len(name) == len(best) && name < best) {
			best = name
		}
	}
	if best == "" {
		return nil
	}
	price := p[best]
	return &price
}
