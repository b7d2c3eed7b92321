package agent

import (
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

// attempts counts the failed model calls of a step.
type attempts struct {
	failures int
	// silence is the time for which the model was silent in failed calls, with the delays
	// after them.
	silence time.Duration
}

// next counts a failure and returns the delay before the next attempt. ok is false if there must
// be none: after the last retry, or if the model has been silent for so long that another
// attempt could exceed [llm.MaxSilence].
func (a *attempts) next(f *fault.Error, cfg Config) (delay time.Duration, ok bool) {
	delay = max(cfg.backoff(a.failures), f.RetryAfter)
	if a.silence > 0 {
		a.silence += delay
	}
	ok = a.failures < cfg.Retries && (!llm.IsSilent(f) || llm.MaxSilence-a.silence >= llm.MinSilenceLimit)
	if ok {
		a.failures++
	}
	return delay, ok
}

// silenceLimit bounds the silence of the next attempt; 0 leaves it to the model's settings.
func (a *attempts) silenceLimit() time.Duration {
	if a.silence == 0 {
		return 0
	}
	return max(llm.MaxSilence-a.silence, llm.MinSilenceLimit)
}

// lastFailure returns the error of a call that is not repeated anymore.
func (a *attempts) lastFailure(f *fault.Error, cause error) error {
	if a.failures == 0 {
		return f
	}
	return fault.Wrap(f.Kind, cause, "%s It was tried %d times.", f.Message, a.failures+1)
}

func (c Config) backoff(retry int) time.Duration {
	if c.Backoff != nil {
		return c.Backoff(retry)
	}
	return min(maxBackoff, time.Second<<min(retry, 5))
}
