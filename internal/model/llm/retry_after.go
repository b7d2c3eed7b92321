package llm

import (
	"cmp"
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
	if d := resetDelay(value, now); d > 0 { // 30s, a number with a unit
		return d
	}
	delay := time.Duration(0)
	for name, values := range h {
		lower := strings.ToLower(name)
		if len(values) == 0 || !strings.Contains(lower, "ratelimit") && !strings.Contains(lower, "rate-limit") || !strings.Contains(lower, "reset") {
			continue
		}
		// The name has the scope of the limit: X-Ratelimit-Reset-Tokens-Minute.
		remaining := h.Get(strings.NewReplacer("reset-after", "remaining", "reset", "remaining").Replace(lower))
		if remaining == "0" || remaining == "" && !strings.ContainsAny(scopeOf(lower), "abcdefghijklmnopqrstuvwxyz") {
			delay = max(delay, resetDelay(values[0], now))
		}
	}
	return delay
}

// scopeOf returns what the name of a rate limit header has beyond its usual words.
func scopeOf(lower string) string {
	return strings.NewReplacer("x-", "", "ratelimit", "", "rate-limit", "", "reset-after", "", "reset", "").Replace(lower)
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

// tryAgainIn matches the delay in a sentence such as "Please try again in 1m26.4s", "Please
// retry after 30 seconds", and "Your quota will reset after 13h45m". resetAt matches a date.
var (
	tryAgainIn = lazyregexp.New(`(?i)(?:try(?:ing)? again|retry(?:ing)?|available|wait|resets?)(?: again)? (?:in|after|for|at least)? ?(?:about |approximately )?((?:[0-9.]+\s*(?:ms|milliseconds?|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s|days?|d)\b[\s,]*(?:and )?)+|(?:[0-9.]+(?:ms|h|m|s))+)`)
	resetAt    = lazyregexp.New(`(?i)(?:resets?|try again|retry|available)(?: again)? (?:at|on|after) ([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(?:Z|[+-][0-9]{2}:[0-9]{2}))`)
)

// delayFields lists the names of fields with a delay or the time of a reset, in lower case and
// without separators, with their unit in seconds. The unit 0 means the notations of resetDelay.
var delayFields = map[string]float64{
	"retryafter": 0, "retryafterseconds": 1, "retryaftersecs": 1, "retryafterms": 0.001, "retrydelay": 0, "retryin": 0,
	"resetsinseconds": 1, "resetinseconds": 1, "resetseconds": 1, "resetafter": 0, "resetsin": 0, "resetin": 0,
	"resetsat": 0, "resetat": 0, "resettime": 0, "ratelimitreset": 0, "xratelimitreset": 0,
}

// bodyRetryAfter returns the delay that the fields of an error ask for.
func bodyRetryAfter(fields map[string]json.RawMessage, now time.Time) time.Duration {
	delay := time.Duration(0)
	for name, value := range fields {
		unit, ok := delayFields[strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))]
		switch {
		case !ok:
		case unit > 0:
			delay = max(delay, secondsToDuration(number(value)*unit))
		default:
			delay = max(delay, resetDelay(cmp.Or(text(value), string(value)), now))
		}
	}
	return delay
}

// sentenceRetryAfter returns the delay that the sentence of an error asks for.
func sentenceRetryAfter(message string, now time.Time) time.Duration {
	if m := tryAgainIn().FindStringSubmatch(message); m != nil {
		return spokenDuration(m[1])
	}
	if m := resetAt().FindStringSubmatch(message); m != nil {
		return resetDelay(m[1], now)
	}
	return 0
}

var spokenUnits = lazyregexp.New(`([0-9.]+)(ms|milliseconds?|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s|days?|d)`)

// spokenDuration parses "1m26.4s", "20ms", "1 minute and 30 seconds", and "2 days".
func spokenDuration(s string) time.Duration {
	seconds := 0.0
	for _, m := range spokenUnits().FindAllStringSubmatch(strings.ToLower(strings.Join(strings.Fields(s), "")), -1) {
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return 0
		}
		switch unit := m[2]; {
		case strings.HasPrefix(unit, "ms") || strings.HasPrefix(unit, "milli"):
			n /= 1000
		case unit[0] == 'm':
			n *= 60
		case unit[0] == 'h':
			n *= 3600
		case unit[0] == 'd':
			n *= 86400
		}
		seconds += n
	}
	return secondsToDuration(seconds)
}

func clampDelay(d time.Duration) time.Duration { return min(max(d, 0), maxRetryDelay) }

// secondsToDuration converts seconds and keeps absurd numbers from overflowing.
func secondsToDuration(seconds float64) time.Duration {
	return time.Duration(min(max(seconds, 0), maxRetryDelay.Seconds()) * float64(time.Second))
}
