package llm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// ProviderError is an error that a provider reported, in a response or in a stream.
type ProviderError struct {
	// Status is the HTTP status, or the numeric code of an error inside a stream; 0
	// if there is none.
	Status int
	// Type, Code, and Param are the machine-readable parts, if there are any.
	Type, Code, Param string
	// Message is the provider's sentence, redacted once it is part of a fault.
	Message    string
	RetryAfter time.Duration
	// ContextTokens is the size of the context window, if the error states it.
	ContextTokens int
	// FailedCall is the text that a model wrote instead of a valid tool call (Groq's
	// failed_generation).
	FailedCall string
	// DailyQuota reports that the quota of a day is used up.
	DailyQuota bool
}

// Error returns the error for logs.
func (e *ProviderError) Error() string {
	return fmt.Sprintf("status %d, type %q, code %q: %s", e.Status, e.Type, e.Code, e.Message)
}

// IsZero reports whether nothing was recognized as an error.
func (e *ProviderError) IsZero() bool { return *e == ProviderError{} }

// ParseError reads the error in a response body or in the data of an event. Known
// shapes:
//
//	{"error": {"type", "code", "param", "message", "status", "details", "metadata"}}
//	{"error": "message"}, {"errors": [{"message"}]}, {"detail": [{"loc", "msg"}]}
//	{"object": "error", "message", "code"}, {"code", "message"}, {"code", "msg"}
//
// and a list around one of them. The result is zero if the data has none of them.
func ParseError(data []byte) ProviderError {
	var list []json.RawMessage // Gemini's compatible endpoint sends a list
	if json.Unmarshal(data, &list) == nil && len(list) > 0 {
		data = list[0]
	}
	var outer map[string]json.RawMessage
	if json.Unmarshal(data, &outer) != nil {
		return ProviderError{}
	}
	e := parseErrorObject(outer)
	switch inner := object(outer["error"]); {
	case inner != nil:
		nested := parseErrorObject(inner)
		nested.RetryAfter = max(nested.RetryAfter, e.RetryAfter)
		e = nested
	case text(outer["error"]) != "":
		e.Message = text(outer["error"])
		e.Type = cmp.Or(text(outer["error_type"]), e.Type)
	}
	if e.Message == "" {
		e.Message = cmp.Or(firstMessage(outer["errors"]), firstMessage(outer["detail"]), text(outer["detail"]), text(outer["msg"]))
	}
	return e
}

// HasError reports whether the JSON object of an event is an error rather than a part
// of an answer.
func HasError(fields map[string]json.RawMessage) bool {
	present := func(name string) bool {
		raw := string(fields[name])
		return raw != "" && raw != "null" && raw != `""` && raw != "{}" && raw != "false"
	}
	if present("error") || present("errors") || text(fields["object"]) == "error" || text(fields["type"]) == "error" {
		return true
	}
	_, answer := fields["choices"]
	return !answer && text(fields["object"]) == "" && (present("detail") || present("code") && (present("message") || present("msg")) || text(fields["message"]) != "")
}

func parseErrorObject(fields map[string]json.RawMessage) ProviderError {
	e := ProviderError{
		Type: cmp.Or(text(fields["type"]), text(fields["status"])), Param: text(fields["param"]),
		Message: text(fields["message"]), FailedCall: text(fields["failed_generation"]),
		ContextTokens: int(number(fields["n_ctx"])),
	}
	if e.Code = text(fields["code"]); e.Code == "" {
		e.Status = int(number(fields["code"]))
	} else if n := number(fields["code"]); n >= 400 && n < 600 {
		e.Status = int(n)
	}
	if n := int(number(fields["status_code"])); n != 0 {
		e.Status = n
	}
	if e.Code == "tool_use_failed" && e.FailedCall == "" {
		e.FailedCall = e.Message
	}
	details := object(fields["details"])
	e.Code = cmp.Or(e.Code, text(details["error_code"])) // Anthropic
	e.addGoogleDetails(fields["details"])
	e.addMetadata(object(fields["metadata"]))
	e.RetryAfter = max(e.RetryAfter, bodyRetryAfter(fields, e.Message, time.Now()))
	if m := strings.ToLower(e.Message); strings.Contains(m, "per day") || strings.Contains(m, "per-day") || strings.Contains(m, "daily") {
		e.DailyQuota = true
	}
	return e
}

// addGoogleDetails reads the google.rpc details of Gemini's errors.
func (e *ProviderError) addGoogleDetails(raw json.RawMessage) {
	var details []struct {
		RetryDelay string `json:"retryDelay"`
		Violations []struct {
			QuotaID string `json:"quotaId"`
		} `json:"violations"`
	}
	if json.Unmarshal(raw, &details) != nil {
		return
	}
	for _, d := range details {
		if delay, err := time.ParseDuration(d.RetryDelay); err == nil {
			e.RetryAfter = clampDelay(delay)
		}
		for _, v := range d.Violations {
			e.DailyQuota = e.DailyQuota || strings.Contains(v.QuotaID, "PerDay")
		}
	}
}

// addMetadata reads what OpenRouter adds: the upstream provider's error, as text or
// JSON, and the rate limit headers.
func (e *ProviderError) addMetadata(metadata map[string]json.RawMessage) {
	raw := text(metadata["raw"])
	if raw == "" && object(metadata["raw"]) != nil {
		raw = string(metadata["raw"])
	}
	if raw != "" {
		upstream := ParseError([]byte(raw))
		if upstream.Message == "" {
			upstream.Message = raw
		}
		e.Message = strings.TrimSpace(strings.TrimSuffix(e.Message, ".") + ": " + upstream.Message)
		e.Code, e.Type = cmp.Or(upstream.Code, e.Code), cmp.Or(upstream.Type, e.Type)
		e.Param = cmp.Or(upstream.Param, e.Param)
		e.ContextTokens = cmp.Or(e.ContextTokens, upstream.ContextTokens)
		e.FailedCall = cmp.Or(e.FailedCall, upstream.FailedCall)
		e.RetryAfter = max(e.RetryAfter, upstream.RetryAfter)
		e.DailyQuota = e.DailyQuota || upstream.DailyQuota
	}
	for name, value := range object(metadata["headers"]) {
		if strings.EqualFold(name, "x-ratelimit-reset") {
			e.RetryAfter = max(e.RetryAfter, resetDelay(cmp.Or(text(value), string(value)), time.Now()))
		}
	}
}

// firstMessage returns the message of the first entry of a list, with the location that
// validation errors have.
func firstMessage(raw json.RawMessage) string {
	var list []map[string]json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		return text(object(raw)["message"])
	}
	message := cmp.Or(text(list[0]["message"]), text(list[0]["msg"]))
	var loc []any
	if json.Unmarshal(list[0]["loc"], &loc) == nil && len(loc) > 0 {
		steps := make([]string, len(loc))
		for i, step := range loc {
			steps[i] = fmt.Sprint(step)
		}
		message = strings.Join(steps, ".") + ": " + message
	}
	return message
}

// text decodes a string, and returns "" for anything else.
func text(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s)
	return s
}

// object decodes an object, and returns nil for anything else.
func object(raw json.RawMessage) (fields map[string]json.RawMessage) {
	_ = json.Unmarshal(raw, &fields)
	return fields
}

// number decodes a number, also in quotes, and returns 0 for anything else.
func number(raw json.RawMessage) float64 {
	var c Count
	_ = c.UnmarshalJSON(raw)
	return float64(c)
}
