package agent

import (
	"math"
	"time"

	"lilac/internal/chat"
	"lilac/internal/fault"
	"lilac/internal/llm"
)

// Cost returns what usage costs at price, in millionths of a US dollar,
// rounded up; 0 without a price. A dollar per million tokens is a millionth
// per token.
func Cost(price *llm.Price, u chat.Usage) int64 {
	if price == nil {
		return 0
	}
	plain := max(0, u.InputTokens-u.CacheReadTokens-u.CacheWriteTokens)
	return int64(math.Ceil(float64(plain)*price.Input +
		float64(u.CacheReadTokens)*price.CacheRead +
		float64(u.CacheWriteTokens)*price.CacheWrite +
		float64(u.OutputTokens)*price.Output))
}

// Check returns the limit that a run has reached, as a sentence for a person,
// or nil. The run asks before each model call.
func (l Limits) Check(steps int, used chat.Usage, running time.Duration) error {
	reached := func(code, format string, args ...any) error {
		e := fault.New(fault.LimitReached, format, args...)
		e.Code = code
		return e
	}
	tokens := used.InputTokens + used.OutputTokens
	switch {
	case l.Steps > 0 && steps >= l.Steps:
		return reached("steps", "This request stopped after %d steps, the most it may take. Ask again to go on.", steps)
	case l.Tokens > 0 && tokens >= l.Tokens:
		return reached("tokens", "This request stopped after %d tokens; the limit is %d. Ask again to go on.", tokens, l.Tokens)
	case l.CostMicros > 0 && used.CostMicros >= l.CostMicros:
		return reached("cost", "This request stopped after spending $%.4f; the limit is $%.4f.",
			float64(used.CostMicros)/1e6, float64(l.CostMicros)/1e6)
	case l.Wall > 0 && running >= l.Wall:
		return reached("wall", "This request stopped after %s, the longest it may run. Ask again to go on.", l.Wall)
	}
	return nil
}
