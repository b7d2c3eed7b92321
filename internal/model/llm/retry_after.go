package llm

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"lilac/internal/foundation/lazyregexp"
)

// maxRetryDelay bounds the delay that a provider asks for.
const maxRetryDelay = 24 * time.Hour

// retryAfter returns the delay that the headers of a response ask for. The Retry-After
// headers win; otherwise, the reset of each limit that is used up counts.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return secondsToDuration(ms / 1000)
	}
	value := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(value, 64); err == nil && s > 0 {
		return secondsToDuration(s)
	}
	if at, err := http.ParseTime(value); err == nil {
		return clampDelay(at.Sub(now))
	}
	delay := resetDelay(h.Get("X-Ratelimit-Reset"), now)
	for _, scope := range []string{"requests", "tokens", "input-tokens", "output-tokens"} {
		for _, names := range [][2]string{
			{"X-Ratelimit-Remaining-" + scope, "X-Ratelimit-Reset-" + scope},
			{"Anthropic-Ratelimit-" + scope + "-Remaining", "Anthropic-Ratelimit-" + scope + "-Reset"},
		} {
			if h.Get(names[0]) == "0" {
				delay = max(delay, resetDelay(h.Get(names[1]), now))
			}
		}
	}
	return delay
}

// resetDelay reads the time of a reset: a duration (6m0s), a date, seconds, or the Unix
// time in seconds or milliseconds.
func resetDelay(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if n, err := strconv.ParseFloat(value, 64); err == nil {
		switch {
		case n > 1e11:
			return clampDelay(time.UnixMilli(int64(min(n, 1e15))).Sub(now))
		case n > 1e9:
			return clampDelay(time.Unix(int64(n), 0).Sub(now))
		}
		return secondsToDuration(n)
	}
	if d, err := time.ParseDuration(value); err == nil {
		return clampDelay(d)
	}
	if at, err := time.Parse(time.RFC3339, value); err == nil {
		return clampDelay(at.Sub(now))
	}
	return 0
}

// tryAgainIn matches the delay in a sentence such as "Please try again in 1m26.4s" or
// "Please retry after 30 seconds".
var tryAgainIn = lazyregexp.New(`(?i)(?:try again|retry|available|wait)(?: again)? (?:in|after|for)?\s*((?:[0-9.]+\s*(?:ms|milliseconds?|h|hours?|m|minutes?|s|seconds?)\b\s*)+|(?:[0-9.]+(?:ms|h|m|s))+)`)

// bodyRetryAfter returns the delay that the fields or the sentence of an error ask for.
func bodyRetryAfter(fields map[string]json.RawMessage, message string, now time.Time) time.Duration {
	for name, unit := range map[string]float64{
		"retry_after": 1, "retry_after_seconds": 1, "resets_in_seconds": 1, "retry_after_ms": 0.001,
	} {
		if n := number(fields[name]); n > 0 {
			return secondsToDuration(n * unit)
		}
	}
	if n := number(fields["resets_at"]); n > 1e9 {
		return resetDelay(strconv.FormatFloat(n, 'f', -1, 64), now)
	}
	if m := tryAgainIn().FindStringSubmatch(message); m != nil {
		return spokenDuration(m[1])
	}
	return 0
}

// spokenDuration parses "1m26.4s", "20ms", and "1 minute 30 seconds".
func spokenDuration(s string) time.Duration {
	s = strings.ToLower(strings.Join(strings.Fields(s), ""))
	for _, unit := range [][2]string{{"milliseconds", "ms"}, {"millisecond", "ms"}, {"hours", "h"}, {"hour", "h"}, {"minutes", "m"}, {"minute", "m"}, {"seconds", "s"}, {"second", "s"}} {
		s = strings.ReplaceAll(s, unit[0], unit[1])
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0
	}
	return clampDelay(d)
}

func clampDelay(d time.Duration) time.Duration { return min(max(d, 0), maxRetryDelay) }

// secondsToDuration converts seconds and keeps absurd numbers from overflowing.
func secondsToDuration(seconds float64) time.Duration {
	return time.Duration(min(max(seconds, 0), maxRetryDelay.Seconds()) * float64(time.Second))
}
