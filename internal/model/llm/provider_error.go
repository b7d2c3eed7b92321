package llm

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lilac/internal/foundation/lazyregexp"
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
	// DailyQuota reports that the quota of a day or more is used up. NeverToday means that it
	// is not restored sooner, even if the provider states a shorter delay.
	DailyQuota, NeverToday bool
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
//	{"error_code", "error_msg"}, {"base_resp": {"status_code", "status_msg"}}, {"html-message"}
//	{"message": {"type", "message"}}, {"detail": {"error"}}
//
// a list around one of them, and one of them as text inside the message of another one. The
// result is zero if the data has none of them.
func ParseError(data []byte) ProviderError { return parseError(data, maxNestedErrors) }

// maxNestedErrors bounds how deep gateways quote errors of gateways.
const maxNestedErrors = 4

func parseError(data []byte, depth int) ProviderError {
	var list []json.RawMessage // Gemini's compatible endpoint sends a list
	if json.Unmarshal(data, &list) == nil && len(list) > 0 {
		data = list[0]
	}
	var outer map[string]json.RawMessage
	if json.Unmarshal(data, &outer) != nil || depth == 0 {
		return ProviderError{}
	}
	if outer["choices"] != nil && !HasError(outer) {
		return ProviderError{} // a part of an answer
	}
	e := parseErrorObject(outer, depth)
	switch inner := object(outer["error"]); {
	case inner != nil:
		nested := parseErrorObject(inner, depth)
		nested.RetryAfter = max(nested.RetryAfter, e.RetryAfter)
		nested.Message = cmp.Or(nested.Message, e.Message)
		e = nested
	case text(outer["error"]) != "":
		e.setMessage(text(outer["error"]), depth)
		e.Type = cmp.Or(text(outer["error_type"]), e.Type)
	}
	if e.Message == "" {
		e.setMessage(cmp.Or(firstMessage(outer["errors"]), firstMessage(outer["detail"]), text(outer["detail"]), text(outer["msg"]), text(outer["html-message"])), depth)
	}
	for _, name := range []string{"message", "detail"} { // Claude Code Router, FastAPI
		if e.Message == "" && object(outer[name]) != nil {
			e.take(parseError(outer[name], depth-1), "")
		}
	}
	if base := object(outer["base_resp"]); number(base["status_code"]) > 0 && e.Message == "" { // MiniMax
		e.Code = string(base["status_code"])
		e.setMessage(text(base["status_msg"]), depth)
	}
	return e
}

// setMessage sets the provider's sentence. If it quotes the error of another provider as
// JSON, that one is the error.
func (e *ProviderError) setMessage(message string, depth int) {
	e.Message = withoutNoise(message)
	from, to := strings.IndexByte(message, '{'), strings.LastIndexByte(message, '}')
	if from < 0 || to < from {
		return
	}
	quoted := message[from : to+1]
	inner := parseError([]byte(quoted), depth-1)
	if inner.Message == "" && strings.Contains(quoted, `\"`) { // escaped once more
		inner = parseError([]byte(strings.ReplaceAll(quoted, `\"`, `"`)), depth-1)
	}
	if inner.Message == "" { // quoted twice, or with more behind it
		var first json.RawMessage
		_ = json.NewDecoder(strings.NewReader(quoted)).Decode(&first) // nil if it is no JSON
		inner = parseError(first, depth-1)
	}
	if inner.Message != "" {
		e.take(inner, strings.Trim(message[:from], " :-\n"))
	}
}

var (
	// webPage matches a web page in a sentence, also as the field of an object (Portkey).
	webPage   = lazyregexp.New(`(?is)(?:\{\s*"[\w-]+"\s*:\s*")?(?:<!doctype|<html|<head>|<body).*`)
	pageTitle = lazyregexp.New(`(?is)<title>\s*([^<]*)`)
)

// withoutNoise replaces a web page in the sentence of a gateway by its title, and removes stack
// traces.
func withoutNoise(message string) string {
	if page := webPage().FindString(message); page != "" {
		title := ""
		if m := pageTitle().FindStringSubmatch(page); m != nil {
			title = m[1]
		}
		message = strings.TrimRight(strings.TrimSuffix(message, page)+title, " :-\n")
	}
	message, _, _ = strings.Cut(message, "\n    at ") // JavaScript
	return message
}

// take adds the error of an upstream provider, with the gateway's words before it.
func (e *ProviderError) take(upstream ProviderError, before string) {
	e.Message = strings.TrimLeft(strings.TrimSuffix(before, ".")+": "+upstream.Message, ": ")
	e.Code, e.Type = cmp.Or(upstream.Code, e.Code), cmp.Or(upstream.Type, e.Type)
	e.Param, e.Status = cmp.Or(upstream.Param, e.Param), cmp.Or(e.Status, upstream.Status)
	e.ContextTokens = cmp.Or(e.ContextTokens, upstream.ContextTokens)
	e.FailedCall = cmp.Or(e.FailedCall, upstream.FailedCall)
	e.RetryAfter = max(e.RetryAfter, upstream.RetryAfter)
	e.DailyQuota, e.NeverToday = e.DailyQuota || upstream.DailyQuota, e.NeverToday || upstream.NeverToday
}

// UndecodedEvent returns what the data of an event means that is no JSON object: the error that
// it reports, the sentence of a proxy, or a violation of the protocol.
func UndecodedEvent(data []byte, err error) error {
	if refused := ParseError(data); !refused.IsZero() {
		return &refused
	}
	data = bytes.TrimSpace(data)
	if len(data) > 0 && !bytes.ContainsRune([]byte(`{["`), rune(data[0])) && !json.Valid(data) {
		return &ProviderError{Message: string(data)}
	}
	if err == nil {
		err = errors.New("want an object")
	}
	return fmt.Errorf("decode event: %w", err)
}

// HasError reports whether the JSON object of an event is an error rather than a part
// of an answer.
func HasError(fields map[string]json.RawMessage) bool {
	present := func(name string) bool {
		switch strings.TrimSpace(string(fields[name])) {
		case "", "null", `""`, "{}", "[]", "false", "0":
			return false
		}
		inner := object(fields[name])
		return inner == nil || slices.ContainsFunc(slices.Collect(maps.Values(inner)), func(v json.RawMessage) bool { return string(v) != "null" && string(v) != `""` })
	}
	if present("error") || present("errors") || text(fields["object"]) == "error" || text(fields["type"]) == "error" || number(object(fields["base_resp"])["status_code"]) > 0 {
		return true
	}
	if _, answer := fields["choices"]; answer || text(fields["object"]) != "" {
		return false
	}
	return present("detail") || present("error_msg") || present("code") && (present("message") || present("msg")) || text(fields["message"]) != ""
}

func parseErrorObject(fields map[string]json.RawMessage, depth int) ProviderError {
	e := ProviderError{
		Type: cmp.Or(text(fields["type"]), text(fields["status"])), Param: text(fields["param"]),
		FailedCall: text(fields["failed_generation"]), ContextTokens: int(number(fields["n_ctx"])),
	}
	code := fields["code"]
	if len(code) == 0 {
		code = fields["error_code"]
	}
	e.Code = text(code)
	switch n := number(code); {
	case n >= 400 && n < 600:
		e.Status = int(n)
	case n > 0 && e.Code == "":
		e.Code = string(code)
	}
	for _, name := range []string{"status_code", "http_code", "status"} {
		if n := int(number(fields[name])); n >= 400 && n < 600 {
			e.Status = n
		}
	}
	e.setMessage(cmp.Or(text(fields["message"]), text(fields["error_msg"])), depth)
	if details := text(fields["details"]); details != "" && !strings.Contains(e.Message, details) {
		e.setMessage(strings.TrimLeft(strings.TrimSuffix(e.Message, ".")+": "+details, ": "), depth)
	}
	if e.FailedCall == "" && (e.Code == "tool_use_failed" || e.Type == "tool_use_failed") {
		e.FailedCall = e.Message
	}
	if e.FailedCall == "" {
		e.FailedCall = unparsedCall(e.Message)
	}
	details := object(fields["details"])
	e.Code = cmp.Or(e.Code, text(details["error_code"])) // Anthropic
	e.addGoogleDetails(fields["details"])
	e.addMetadata(object(fields["metadata"]), depth)
	if raw := text(object(fields["value"])["error_message"]); raw != "" { // Vercel's gateway
		upstream := ProviderError{}
		upstream.setMessage(raw, depth-1)
		e.take(upstream, e.Message)
	}
	e.RetryAfter = max(e.RetryAfter, bodyRetryAfter(fields, time.Now()), sentenceRetryAfter(e.Message, time.Now()))
	e.DailyQuota = e.DailyQuota || longQuota().MatchString(e.Message)
	e.NeverToday = e.NeverToday || neverToday().MatchString(e.Message)
	return e
}

var (
	// longQuota matches quotas of a day or more, and neverToday those that a wait of minutes
	// cannot restore, whatever delay the provider states.
	longQuota  = lazyregexp.New(`(?i)(?:\b(?:per|a|each|\d+[- ])|/) ?-?(?:day|week|month)\b|by(?:day|week|month)\b|daily|weekly|monthly|\((?:RPD|TPD)\)|per 86400 ?s|usage limit reached for`)
	neverToday = lazyregexp.New(`(?i)\blimit: 0\b`)
	parseFails = lazyregexp.New(`(?i)(?:error|failed|failure|unable|could not)\b.{0,12}\bpars(?:e|ing)\b.{0,12}\b(?:tool|function)[ _]?calls?\b[^:=]{0,40}[:=]?`)
	rawCall    = lazyregexp.New(`(?s)raw='(.*?)'(?:, err=|$)`)
)

// unparsedCall returns the text of a tool call that a server could not parse (Ollama,
// llama.cpp, vLLM), or "".
func unparsedCall(message string) string {
	at := parseFails().FindStringIndex(message)
	if at == nil {
		return ""
	}
	if m := rawCall().FindStringSubmatch(message); m != nil {
		return m[1]
	}
	return message
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
			// Google states a delay of seconds also for the quota of a day.
			e.NeverToday = e.NeverToday || strings.Contains(v.QuotaID, "PerDay") || strings.Contains(v.QuotaID, "PerMonth")
		}
	}
}

// addMetadata reads what OpenRouter adds: the upstream provider's error, as text or
// JSON, and the rate limit headers.
func (e *ProviderError) addMetadata(metadata map[string]json.RawMessage, depth int) {
	raw := text(metadata["raw"])
	if raw == "" && object(metadata["raw"]) != nil {
		raw = string(metadata["raw"])
	}
	if raw != "" {
		upstream := parseError([]byte(raw), depth-1)
		if upstream.Message == "" {
			upstream.setMessage(raw, depth-1)
		}
		e.take(upstream, e.Message)
	}
	e.RetryAfter = max(e.RetryAfter, bodyRetryAfter(metadata, time.Now()))
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
