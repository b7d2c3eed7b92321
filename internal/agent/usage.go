package agent

import "lilac/internal/foundation/chat"

// usageOf returns the usage of a finished call: the reported one, or an estimate if the
// provider reported none, so that limits work with every provider.
func (c Config) usageOf(reported chat.Usage, promptTokens int, said chat.Message) chat.Usage {
	if reported == (chat.Usage{}) {
		return c.estimateUsage(promptTokens, said)
	}
	return c.priced(reported)
}

// priced computes the cost unless the adapter did.
func (c Config) priced(u chat.Usage) chat.Usage {
	if u.CostMicros == 0 {
		u.CostMicros = c.Model.Info().Price.Cost(u)
	}
	return u
}

// estimateUsage estimates the usage of a call without a report.
func (c Config) estimateUsage(promptTokens int, said chat.Message) chat.Usage {
	return c.priced(chat.Usage{
		InputTokens:  int64(promptTokens),
		OutputTokens: int64(EstimateTokens([]chat.Message{said})),
	})
}
