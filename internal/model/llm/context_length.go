package llm

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"lilac/internal/foundation/lazyregexp"
)

// contextCodes are the codes and types of errors about prompts that are too long.
var contextCodes = map[string]bool{
	"context_length_exceeded":          true,
	"context_window_exceeded":          true,
	"exceed_context_size_error":        true, // llama.cpp
	"model_max_prompt_tokens_exceeded": true, // GitHub Copilot
	"tokens_limit_reached":             true, // GitHub Models
	"request_too_large":                true, // Anthropic
	"string_above_max_length":          true, // OpenAI
	"1261":                             true, // Z.ai
}

var (
	// promptWord names what can be too long. excess says that it is.
	promptWord = lazyregexp.New(`(?i)\b(?:prompts?|inputs?|contexts?|messages?|conversation|tokens?|sequence|request|payload|model len(?:gth)?)\b|max_(?:model|seq)_len`)
	excess     = lazyregexp.New(`(?i)too (?:long|large|many)|exceed|(?:longer|larger|greater|more|bigger) than|maximum (?:context|prompt|model|input|sequence|allowed)|(?:must|should|has to) (?:have|be) (?:less|fewer|at most|<=?|in(?:side)?|between|shorter)|cannot be (?:longer|larger)|reduce (?:the|your) (?:length|message|prompt|input|number of tokens)|range of input length|overflow|context[ _](?:length|size|window|limit) of only|does(?: not|n't) fit|over the limit|shorter (?:input|prompt)|reached context length|no (?:room|space) left`)
	// lengthWord keeps refusals of other sizes (an image, a name, a count of tools)
	// from being taken for the length of the prompt.
	lengthWord = lazyregexp.New(`(?i)tokens?\b|context|prompt|\binput\b|max length|conversation|max_(?:model|seq)_len|length of the messages|request (?:body )?too large|body too large|entity too large`)
	otherSize  = lazyregexp.New(`(?i)image|pixel|megabyte|\bmb\b|tool(?:s|_choice)?\b.{0,40}(?:too many|exceed|at most)|too many (?:tools|requests|images|messages in)|function name|per (?:minute|hour|day|second)|rate limit|\bquota\b|concurren|temperature|top_p|credit|balance|budget|spend|deadline|time(?:d |-)?out|invalid token`)
	chinese    = lazyregexp.New(`(?:上下文|输入|提示|prompt|Prompt|tokens?).{0,12}(?:超长|超过|超出|过长)|长度(?:超限|超过|超出)`)
)

// isContextLength reports whether an error says that the prompt does not fit into the
// model's context window. It looks for a word for the prompt and a word for the excess,
// because every server has its own sentence.
func isContextLength(e ProviderError) bool {
	if contextCodes[e.Code] || contextCodes[e.Type] || e.Status == http.StatusRequestEntityTooLarge && !otherSize().MatchString(e.Message) {
		return true
	}
	m := e.Message
	if requestTooLarge().MatchString(m) {
		return true
	}
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusPaymentRequired, http.StatusUnauthorized, http.StatusForbidden:
		return false
	}
	if chinese().MatchString(m) {
		return true
	}
	return promptWord().MatchString(m) && excess().MatchString(m) && lengthWord().MatchString(m) && !otherSize().MatchString(m) && !isOutputLimit(m)
}

// requestTooLarge matches a single request that exceeds a limit of tokens per minute:
// it can never succeed, unlike others with the same status.
var requestTooLarge = lazyregexp.New(`(?i)request too large for|(?:reduce your message size|tokens must be reduced in order to run)`)

// outputLimits match refusals of the requested output alone. The group is the most that
// the model can write.
var outputLimits = lazyregexp.New(`(?i)at most ([0-9][0-9,_]*) (?:completion|output) tokens|> ([0-9][0-9,_]*), which is the maximum allowed number of output|max_(?:completion_|output_|new_)?tokens\b[^0-9]{0,60}\[[0-9]+, ?([0-9][0-9,_]*)\]|max_(?:completion_|output_|new_)?tokens\W{0,12}(?:must|should) be (?:less than or equal to|at most|<=|no more than|between [0-9]+ and) \W?([0-9][0-9,_]*)|max_(?:completion_|output_|new_)?tokens\b.{0,40}(?:exceeds?|greater than|larger than|above) (?:the )?(?:limit|maximum)(?: output)?(?: tokens)?(?: of| \()? ?([0-9][0-9,_]*)`)

func isOutputLimit(message string) bool { return outputLimit(message) > 0 }

// outputLimit returns the output limit that a refusal states, or 0.
func outputLimit(message string) int {
	if strings.Contains(message, "+ `max_new_tokens`") { // TGI limits the sum
		return 0
	}
	for _, group := range outputLimits().FindStringSubmatch(message) {
		if n := parseCount(group); n > 0 {
			return n
		}
	}
	return 0
}

const (
	// minWindow is the smallest number that can be a context window; smaller numbers
	// in a refusal are error codes or the excess.
	minWindow = 2_048
	maxWindow = 100_000_000
)

// windows match the size of the context window in a refusal, the most reliable first.
var windows = []func() *regexp.Regexp{
	lazyregexp.New(`(?i)exceeds? context limit: [0-9]+ \+ [0-9]+ > ([0-9][0-9,_]*)`),
	lazyregexp.New(`(?i)> ([0-9][0-9,_]*) maximum`),
	lazyregexp.New(`(?i)([0-9][0-9,_]*)(?: tokens?)? maximum context`),
	lazyregexp.New(`(?i)range of input length should be \[[0-9]+, ?([0-9][0-9,_]*)\]`),
	lazyregexp.New(`(?i)max(?:imum)?(?: allowed)?[ _](?:context|prompt|model|input|sequence)[ _]?(?:length|len|size|window)?[^0-9.]{0,30}?([0-9][0-9,_]*)`),
	lazyregexp.New(`(?i)context (?:length|size|window|limit)[^0-9.]{0,20}?([0-9][0-9,_]*)`),
	lazyregexp.New(`(?i)(?:token limit|limit for this model is|limit of|limit is|limit:?|maximum allowed[a-z ]*|maximum number of tokens allowed|max size:?)[ (]*([0-9][0-9,_]*)`),
	lazyregexp.New(`(?i)(?:cannot exceed|less than|fewer than|at most|<=)(?: the total tokens limit)? ([0-9][0-9,_]*)`),
}

// contextWindow returns the size of the context window that a refusal states, in
// tokens, or 0.
func contextWindow(e ProviderError) int {
	if e.ContextTokens >= minWindow {
		return min(e.ContextTokens, maxWindow)
	}
	for _, window := range windows {
		if m := window().FindStringSubmatch(e.Message); m != nil {
			if n := parseCount(m[1]); n >= minWindow && n <= maxWindow {
				return n
			}
		}
	}
	return 0
}

// minOutput is the least output that is worth a call.
const minOutput = 256

// roomForOutput returns how much output fits behind a prompt that was refused only
// because the requested output made it too long, or 0. The refusal states the size of
// the prompt, or its sum with the requested output.
func roomForOutput(message string, window, requested int) int {
	if window <= 0 || requested <= 0 {
		return 0
	}
	prompt := 0
	found := numbers().FindAllString(message, -1)
	statesOutput := slices.ContainsFunc(found, func(s string) bool { return parseCount(s) == requested })
	for _, s := range found {
		n := parseCount(s)
		switch {
		case !statesOutput:
		case n > window && n > requested && n-requested < window:
			return enoughOutput(window - (n - requested))
		case n < window && n != requested && n+requested > window:
			prompt = max(prompt, n)
		}
	}
	if prompt == 0 {
		return 0
	}
	return enoughOutput(window - prompt)
}

// enoughOutput leaves a margin for tokens that the provider adds to a prompt.
func enoughOutput(room int) int {
	if room -= room/16 + 16; room < minOutput {
		return 0
	}
	return room
}

var numbers = lazyregexp.New(`[0-9][0-9,_]*`)

func parseCount(s string) int {
	n, err := strconv.Atoi(strings.NewReplacer(",", "", "_", "").Replace(s))
	if err != nil {
		return 0
	}
	return n
}
