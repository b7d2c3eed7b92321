package llm

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/lazyregexp"
	"lilac/internal/foundation/setting"
)

// Codes of faults that callers treat specially.
const (
	// CodeBadAnswer marks an answer that violates the protocol. An immediate retry
	// would bring the same answer.
	CodeBadAnswer = "bad_answer"
	// CodeContextLength marks a prompt that is too long for the model.
	CodeContextLength = "context_length"
	// CodeSilent marks a provider that sent nothing for too long.
	CodeSilent = "silent"
	// CodeMediaRefused marks a prompt with an image or document that the provider does
	// not accept.
	CodeMediaRefused = "media_refused"
)

// maxQuote bounds what a message quotes of a provider's sentence, in characters.
const maxQuote = 400

// Refusal builds the error of an HTTP response whose status is not 200.
func Refusal(status int, header http.Header, body []byte, now time.Time) ProviderError {
	e := ParseError(unframed(body))
	if e.IsZero() && !looksLikeHTML(header.Get("Content-Type"), body) {
		e.Message = string(body)
	}
	e.Status = status
	if delay := retryAfter(header, now); delay > 0 {
		e.RetryAfter = delay
	}
	return e
}

// maxSentence bounds the sentence of a refusal, in characters.
const maxSentence = 200

// Sentence returns the sentence of an HTTP response whose status is not 200 on one line, without a
// stop at its end.
func Sentence(status int, header http.Header, body []byte) string {
	words := strings.Fields(Refusal(status, header, body, time.Now()).Message)
	runes := []rune(strings.TrimRight(strings.ToValidUTF8(strings.Join(words, " "), "\uFFFD"), "."))
	return string(runes[:min(len(runes), maxSentence)])
}

// unframed returns the data of the event that some servers send a refusal as.
func unframed(body []byte) []byte {
	trimmed := bytes.TrimSpace(body)
	if !bytes.HasPrefix(trimmed, []byte("data:")) && !bytes.HasPrefix(trimmed, []byte("event:")) {
		return body
	}
	if data, err := newStreamReader(bytes.NewReader(append(trimmed, "\n\n"...))).next(); err == nil {
		return data
	}
	return body
}

// Fault classifies a provider's error and adds a sentence for people. The first
// matching case decides.
func (w *Endpoint) Fault(e ProviderError) error {
	status := statusOf(e)
	e.Message = w.redact(e.Message, 2*maxQuote)
	e.Type, e.Code = w.redact(e.Type, 60), w.redact(e.Code, 60)
	f := &fault.Error{RetryAfter: e.RetryAfter, Err: fmt.Errorf("%s: %w", w.Vendor, &e)}
	if e.NeverToday {
		f.RetryAfter = 0
	}
	f.Kind, f.Code, f.Message = w.classify(e, status)
	return f
}

func (w *Endpoint) classify(e ProviderError, status int) (kind fault.Kind, code, message string) {
	quoted := quote(e.Message)
	say := func(kind fault.Kind, code, format string, args ...any) (fault.Kind, string, string) {
		return kind, code, fmt.Sprintf(format, args...)
	}
	switch {
	case isContextLength(e) && IsBodyTooLarge(&e):
		return say(fault.Invalid, CodeContextLength, "The conversation is too long for the model %s, or its body is too large for %s or a proxy before it%s If the model accepts more, set contextTokens of the model under models; if a proxy limits bodies (nginx: client_max_body_size), raise its limit.", w.Model, w.Vendor, quoted)
	case isContextLength(e):
		return say(fault.Invalid, CodeContextLength, "The conversation is too long for the model %s%s If the model accepts more, set contextTokens of the model under models.", w.Model, quoted)
	case isOutOfCredit(e, status):
		return say(fault.Denied, "insufficient_quota", "The account at %s has no credit left, or its spending or usage limit is reached%s", w.Vendor, quoted)
	case isQuotaExhausted(e, status):
		return say(fault.Denied, "quota_exhausted", "The quota at %s is used up for now%s", w.Vendor, quoted)
	case isMediaRefused(e, status):
		return say(fault.Invalid, CodeMediaRefused, "The model %s at %s does not accept an image or a document in the conversation%s", w.Model, w.Vendor, quoted)
	case status == http.StatusProxyAuthRequired:
		return fault.Denied, fault.CodeProxyLogin, fault.ProxyLogin
	case status == http.StatusUnauthorized:
		return say(fault.Unauthenticated, "", "%s did not accept the API key. Check %s.", w.Vendor, w.Setting)
	case status == http.StatusForbidden:
		return say(fault.Denied, "", "%s does not let this API key use the model %s%s", w.Vendor, w.Model, quoted)
	case lacksTools().MatchString(e.Message):
		return say(fault.Invalid, "", "The model %s at %s cannot call tools, which the agent needs%s Choose another model.", w.Model, w.Vendor, quoted)
	case strings.Contains(e.Message, "无可用渠道") || strings.Contains(e.Message, "No available channel for model"): // one-api, new-api
		return say(fault.NotFound, "", "%s has no channel for the model %s%s Check the name of the model, and the channels of the gateway.", w.Vendor, w.Model, quoted)
	case status == http.StatusNotFound && ollamaLacks().MatchString(e.Message):
		return say(fault.NotFound, "", "%s does not have the model %s%s To load it into Ollama, run \"ollama pull %s\".", w.Vendor, w.Model, quoted, w.Model)
	case status == http.StatusNotFound:
		return say(fault.NotFound, "", "%s does not know the model %s, or its address is wrong%s", w.Vendor, w.Model, quoted)
	case status == http.StatusTooManyRequests:
		return say(fault.RateLimited, "", "%s asks to slow down because its rate limit is reached%s", w.Vendor, quoted)
	case status == statusOverloaded:
		return say(fault.Unavailable, "overloaded", "%s is overloaded at the moment%s", w.Vendor, quoted)
	case status == http.StatusRequestTimeout || status == http.StatusGatewayTimeout:
		return say(fault.Timeout, "", "%s took too long to answer%s", w.Vendor, quoted)
	case status >= 500 || status == 0 || status == http.StatusConflict || status == http.StatusTooEarly:
		return say(fault.Unavailable, "", "%s has trouble at the moment%s", w.Vendor, quoted)
	case status >= 300 && status < 400:
		return say(fault.Invalid, "", "%s answered with a redirect. Lilac does not follow it, because that would send the key to another address. Check its base URL.", w.Vendor)
	}
	return say(fault.Invalid, "", "%s did not accept the request%s", w.Vendor, quoted)
}

var (
	// lacksTools matches the refusals of Ollama, OpenRouter, and Groq, and ollamaLacks that of Ollama.
	lacksTools  = lazyregexp.New(`(?i)does not support tools|support tool use|tool calling.{0,3} is not supported with`)
	ollamaLacks = lazyregexp.New(`^model ['"].+['"] not found`)
)

// statusOverloaded is the status that Anthropic invented for an overload.
const statusOverloaded = 529

// statusOf returns the HTTP status that decides about an error. Inside a stream, whose
// status line says 200, it follows from the error's type or code.
func statusOf(e ProviderError) int {
	named, ok := statusByType[strings.ToLower(e.Code)]
	if !ok {
		named, ok = statusByType[strings.ToLower(e.Type)]
	}
	// OpenAI also uses the type of a bad request for wrong keys and unknown models, and gateways
	// use that of a server's error for whatever the upstream refused; then the status is more
	// precise.
	general := named == http.StatusBadRequest || named == http.StatusInternalServerError
	if ok && (!general || e.Status < 400 || e.Status >= 500) {
		return named
	}
	return e.Status
}

var statusByType = map[string]int{
	"authentication_error":  401,
	"invalid_api_key":       401,
	"unauthenticated":       401,
	"permission_error":      403,
	"permission_denied":     403,
	"not_found_error":       404,
	"model_not_found":       404,
	"rate_limit_error":      429,
	"rate_limit_exceeded":   429,
	"resource_exhausted":    429,
	"api_error":             500,
	"server_error":          500,
	"internal_server_error": 500,
	"internalservererror":   500,
	"internal":              500,
	"unavailable":           503,
	"timeout_error":         504,
	"deadline_exceeded":     504,
	"overloaded_error":      529,
	"invalid_request_error": 400,
	"badrequesterror":       400,
	"invalid_argument":      400,
}

// creditCodes are the codes and types of accounts without credit. Some come with status
// 429, but no retry succeeds.
var creditCodes = map[string]bool{
	"insufficient_quota":                true,
	"insufficient_credits":              true,
	"insufficient_balance":              true,
	"billing_error":                     true,
	"billing_hard_limit_reached":        true,
	"credit_balance_exhausted":          true,
	"exceeded_current_quota_error":      true, // Moonshot
	"arrearage":                         true, // DashScope
	"accountoverdueerror":               true, // Volcengine
	"1008":                              true, // MiniMax
	"1113":                              true, // Z.ai
	"organization_usage_limit_exceeded": true,
	"organization_spend_limit_exceeded": true,
	"project_spend_limit_exceeded":      true,
	"enforced_spend_limit_reached":      true,
}

var creditWords = lazyregexp.New(`(?i)credit balance|insufficient[ _](?:account )?(?:balance|credits?|funds|quota)|not enough (?:credits?|balance|funds)|(?:\bno|n't have(?: any| enough)?|out of|zero|all (?:of )?(?:your |the )?(?:available |remaining )?) ?(?:available )?(?:credits?|balance)\b|(?:purchase|buy|add) (?:more |some |additional )?(?:credits?|funds)|reached (?:your specified|its (?:monthly )?spend)|spend(?:ing)? limit|usage limit for this billing|credits? (?:limit|exhausted|used up|have run out)|exhausted.{0,20}credits?|(?:balance|credits?) (?:is |are )?(?:too low|exhausted|depleted|insufficient|negative)|can only afford|recharge|top[- ]?up|payment required|overdue|arrears|past due|billing (?:is )?(?:not )?(?:enabled|active|hard)|account.{0,40}suspended|余额不足|欠费|充值`)

func isOutOfCredit(e ProviderError, status int) bool {
	return status == http.StatusPaymentRequired || creditCodes[strings.ToLower(e.Code)] || creditCodes[strings.ToLower(e.Type)] ||
		status >= 400 && status < 500 && creditWords().MatchString(e.Message) && !e.DailyQuota
}

// quotaCodes are the codes of quotas of hours or more.
var quotaCodes = map[string]bool{
	"1304": true, "1308": true, "1310": true, // Z.ai
	"usage_limit_reached": true, "usage_limit_exceeded": true, "monthly_quota_exceeded": true, "daily_limit_exceeded": true,
}

// isQuotaExhausted reports whether a quota is used up that no reasonable wait restores. A
// provider that states a delay is asked again after it.
func isQuotaExhausted(e ProviderError, status int) bool {
	if status != http.StatusTooManyRequests {
		return false
	}
	long := e.DailyQuota || quotaCodes[strings.ToLower(e.Code)] || quotaCodes[strings.ToLower(e.Type)]
	return e.NeverToday || long && (e.RetryAfter == 0 || e.RetryAfter > maxQuotaWait)
}

// maxQuotaWait is the longest delay after which a daily quota is tried again.
const maxQuotaWait = 2 * time.Minute

var mediaWords = lazyregexp.New(`(?i)\bimages?\b|image_url|\bvision\b|multi-?modal|modalit|\bpdfs?\b|\bdocuments?\b|mmproj|unsupported (?:content|media)|content type|\bfile_data\b`)

// isMediaRefused reports whether an error is about an image or a document. Servers use
// 400, 404, 413, 415, 422, and 500 for it.
func isMediaRefused(e ProviderError, status int) bool {
	switch status {
	case 400, 404, 413, 415, 422, 500, 501:
		return mediaWords().MatchString(e.Message)
	}
	return false
}

// quote appends a provider's sentence to one of ours and closes it, so that another
// sentence can follow.
func quote(message string) string {
	if message == "" {
		return "."
	}
	if r := []rune(message); len(r) > maxQuote {
		message = string(r[:maxQuote]) + "…"
	}
	if !strings.ContainsAny(message[len(message)-1:], ".!?") {
		message += "."
	}
	return ": " + message
}

// redact makes a provider's text fit for people and logs: without the key and the headers, on one
// line, and of bounded length. Some providers quote them.
func (w *Endpoint) redact(s string, limit int) string {
	s = setting.Hide(s, w.Key, w.Headers)
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }), " ")
	s = strings.ToValidUTF8(s, "\uFFFD")
	if r := []rune(s); len(r) > limit {
		s = string(r[:limit]) + "…"
	}
	return s
}

func (w *Endpoint) refusal(resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // a cut body says enough
	return w.Fault(Refusal(resp.StatusCode, resp.Header, body, time.Now()))
}

func looksLikeHTML(contentType string, body []byte) bool {
	return strings.Contains(contentType, "html") || strings.HasPrefix(strings.TrimSpace(string(body)), "<")
}
