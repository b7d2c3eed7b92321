package llm

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"lilac/internal/foundation/fault"
)

// ProviderError is what a provider said when it refused or broke off.
type ProviderError struct {
	// Status is the HTTP status, or the one that an error inside a stream
	// stands for; 0 when the provider did not say.
	Status     int
	Type, Code string
	Message    string
	RetryAfter time.Duration
}

// Failure turns what a provider said into an error with a sentence for a
// person. The first row that fits decides.
func (w *Endpoint) Fault(t ProviderError) error {
	status := t.Status
	named, ok := statusByType[t.Code]
	if !ok {
		named, ok = statusByType[t.Type]
	}
	// OpenAI gives a wrong key and an unknown model the type of a bad request, too;
	// the status says more.
	if ok && (named != http.StatusBadRequest || status < 400 || status >= 500) {
		status = named
	}
	said := w.redact(t.Message, 300)
	e := &fault.Error{RetryAfter: t.RetryAfter, Err: fmt.Errorf("%s: status %d, type %q, code %q: %s", w.Vendor, t.Status, w.redact(t.Type, 60), w.redact(t.Code, 60), said)}
	say := func(kind fault.Kind, code, format string, args ...any) error {
		e.Kind, e.Code, e.Message = kind, code, fmt.Sprintf(format, args...)
		return e
	}
	quoted := "."
	if said != "" {
		quoted = ": " + said
		if !strings.ContainsAny(said[len(said)-1:], ".!?") {
			quoted += "." // another sentence may follow
		}
	}
	switch {
	case isContextLength(t) && status < 500 && status != http.StatusTooManyRequests:
		return say(fault.Invalid, CodeContextLength, "The conversation is too long for the model %s.", w.Model)
	case isOutOfCredit(t, status):
		return say(fault.Denied, "insufficient_quota", "The account at %s has no credit left, or its limit of spending or use is reached%s", w.Vendor, quoted)
	case status == http.StatusUnauthorized:
		return say(fault.Unauthenticated, "", "%s did not accept the API key. Check %s.", w.Vendor, w.Setting)
	case status == http.StatusForbidden:
		return say(fault.Denied, "", "%s does not let this API key use the model %s%s", w.Vendor, w.Model, quoted)
	case status == http.StatusNotFound:
		return say(fault.NotFound, "", "%s does not know the model %s, or its address is wrong%s", w.Vendor, w.Model, quoted)
	case status == http.StatusTooManyRequests:
		return say(fault.RateLimited, "", "%s asks to slow down (its rate limit is reached).", w.Vendor)
	case status == 529:
		return say(fault.Unavailable, "overloaded", "%s is overloaded at the moment.", w.Vendor)
	case status == http.StatusRequestTimeout || status == http.StatusGatewayTimeout:
		return say(fault.Timeout, "", "%s took too long to answer.", w.Vendor)
	case status >= 500 || status == 0 || status == http.StatusConflict || status == http.StatusTooEarly:
		return say(fault.Unavailable, "", "%s has trouble at the moment%s", w.Vendor, quoted)
	case status >= 300 && status < 400:
		return say(fault.Invalid, "", "%s answered with a redirect, which is not followed because it would carry the key along. Check its address.", w.Vendor)
	}
	return say(fault.Invalid, "", "%s did not accept the request%s", w.Vendor, quoted)
}

// statusByType is what the types and codes of errors stand for, above all
// inside a stream, where the status line has already said 200.
var statusByType = map[string]int{
	"authentication_error":  401,
	"invalid_api_key":       401,
	"permission_error":      403,
	"not_found_error":       404,
	"model_not_found":       404,
	"rate_limit_error":      429,
	"rate_limit_exceeded":   429,
	"api_error":             500,
	"server_error":          500,
	"timeout_error":         504,
	"overloaded_error":      529,
	"invalid_request_error": 400,
}

// isContextLength recognises the many ways in which servers say that a prompt does
// not fit.
func isContextLength(t ProviderError) bool {
	if t.Status == http.StatusRequestEntityTooLarge {
		return true
	}
	for _, s := range []string{t.Code, t.Type} {
		if s == "context_length_exceeded" || s == "exceed_context_size_error" || s == "request_too_large" {
			return true
		}
	}
	m := strings.ToLower(t.Message)
	for _, s := range []string{
		"prompt is too long", "exceed context limit", "maximum context length", "context_length_exceeded",
		"context window", "exceeds the available context size", "input token count", "input is too long",
		"exceeds the maximum number of tokens", "reduce the length of the messages",
	} {
		if strings.Contains(m, s) {
			return true
		}
	}
	return false
}

// creditCodes are the codes and types of accounts that may not spend more. Some come
// with status 429, where a rate limit is meant otherwise; a repeat heals none.
var creditCodes = map[string]bool{
	"insufficient_quota":                true,
	"billing_error":                     true,
	"credit_balance_exhausted":          true,
	"organization_usage_limit_exceeded": true,
	"organization_spend_limit_exceeded": true,
	"project_spend_limit_exceeded":      true,
	"enforced_spend_limit_reached":      true,
}

func isOutOfCredit(t ProviderError, status int) bool {
	message := strings.ToLower(t.Message)
	return status == http.StatusPaymentRequired || creditCodes[t.Code] || creditCodes[t.Type] ||
		strings.Contains(message, "credit balance is too low") || strings.Contains(message, "reached your specified")
}

// clean makes what a provider said fit for a person and a log: without the
// key, on one line, and short.
func (w *Endpoint) redact(s string, limit int) string {
	if w.Key != "" {
		s = strings.ReplaceAll(s, w.Key, "***")
	}
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }), " ")
	if r := []rune(s); len(r) > limit {
		s = string(r[:limit]) + "…"
	}
	return s
}

func (w *Endpoint) refusal(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	t := ParseError(body)
	if t.Message == "" && err == nil && !strings.Contains(resp.Header.Get("Content-Type"), "html") {
		t.Message = string(body)
	}
	t.Status = resp.StatusCode
	t.RetryAfter = retryAfter(resp.Header, time.Now())
	return w.Fault(t)
}

// ParseError reads the error object that Anthropic, OpenAI and most who
// speak their protocols send: {"error": {"type", "code", "message"}}, or
// {"error": "message"}. The status is the error's numeric code, if it has one.
func ParseError(data []byte) ProviderError {
	var outer struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	var list []json.RawMessage // Gemini's endpoint wraps the object in a list
	if json.Unmarshal(data, &list) == nil && len(list) > 0 {
		data = list[0]
	}
	if json.Unmarshal(data, &outer) != nil {
		return ProviderError{}
	}
	var inner struct {
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"`
		Message string          `json:"message"`
		Details json.RawMessage `json:"details"`
	}
	if json.Unmarshal(outer.Error, &inner) != nil {
		var text string
		if json.Unmarshal(outer.Error, &text) != nil {
			text = outer.Message
		}
		return ProviderError{Message: text}
	}
	t := ProviderError{Type: inner.Type, Message: inner.Message}
	if json.Unmarshal(inner.Code, &t.Code) != nil {
		_ = json.Unmarshal(inner.Code, &t.Status) // a code that is neither is of no use
	}
	var details struct { // Anthropic's place for a code; others have lists there
		ErrorCode string `json:"error_code"`
	}
	if t.Code == "" && json.Unmarshal(inner.Details, &details) == nil {
		t.Code = details.ErrorCode
	}
	return t
}

// retryAfter reads the pause that a server asks for: milliseconds, seconds or
// a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return secondsToDuration(ms / 1000)
	}
	value := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(value, 64); err == nil && s > 0 {
		return secondsToDuration(s)
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// secondsToDuration keeps an absurd number of seconds from overflowing a duration.
func secondsToDuration(seconds float64) time.Duration {
	return time.Duration(min(seconds, (24*time.Hour).Seconds()) * float64(time.Second))
}
